package hostile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// strict are the values of a site that relies on the guard: mode enforce, four policies on
// deny, a protected label, and a limit for extended resources.
func strict(more map[string]any) map[string]any {
	values := map[string]any{
		"mode":         "enforce",
		"certificates": map[string]any{"selfManaged": map[string]any{"waitAfterChange": "3s"}},
		"policies": map[string]any{
			"modes": map[string]any{"DRA-TOL-001": "deny", "DRA-TOL-002": "deny", "DRA-CLAIM-003": "deny", "DRA-CLAIM-004": "deny"},
			"parameters": map[string]any{
				"DRA-TOL-002":   map[string]any{"keys": []any{reserved}, "groups": []any{}},
				"DRA-CLAIM-003": map[string]any{"classes": map[string]any{driver: maxDevices}},
				"DRA-CLAIM-004": map[string]any{"allowed": []any{driver}},
			},
		},
		"protectedLabels":   map[string]any{"keys": []any{tier}, "groups": []any{"platform-admins"}},
		"extendedResources": map[string]any{"implicitLimit": maxDevices},
	}
	maps.Copy(values, more)
	return values
}

// A breach is a violation that was admitted.
type breach struct {
	attack     attack
	dry        bool
	start, end time.Time
}

func (b breach) String() string {
	return fmt.Sprintf("%s to %s %s (dry run: %v)", b.start.Format("05.000"), b.end.Format("05.000"), b.attack.name, b.dry)
}

// A tally counts the answers to attacks, by what they say.
type tally struct {
	mu       sync.Mutex
	answers  map[string]int
	breaches []breach
	// violating counts the answers to violations.
	violating map[string]int
	// took is how long the answers to each kind of attack took.
	took map[string][]time.Duration
}

func (y *tally) count(a attack, dry bool, start time.Time, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.answers == nil {
		y.answers, y.violating, y.took = map[string]int{}, map[string]int{}, map[string][]time.Duration{}
	}
	end := time.Now()
	y.answers[answerOf(err)]++
	y.took[a.name] = append(y.took[a.name], end.Sub(start))
	if a.violates {
		kind, _, _ := strings.Cut(a.name, ":")
		y.violating[strings.TrimSpace(strings.Join([]string{kind, a.verb, a.version}, " "))]++
	}
	if err == nil && a.violates {
		y.breaches = append(y.breaches, breach{a, dry, start, end})
	}
}

// slowest are the kinds of attacks whose answers took longest, by their median.
func (y *tally) slowest(n int) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	median := func(name string) time.Duration {
		slices.Sort(y.took[name])
		return y.took[name][len(y.took[name])/2]
	}
	names := slices.SortedFunc(maps.Keys(y.took), func(a, b string) int { return cmp.Compare(median(b), median(a)) })
	var parts []string
	for _, name := range names[:min(n, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %v (%d)", name, median(name).Round(time.Millisecond), len(y.took[name])))
	}
	return strings.Join(parts, "; ")
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var parts []string
	for _, answer := range slices.Sorted(maps.Keys(y.answers)) {
		parts = append(parts, fmt.Sprintf("%d %s", y.answers[answer], answer))
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(y.violating)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", y.violating[kind], kind))
	}
	return strings.Join(parts, ", ") + "; violations tried: " + strings.Join(kinds, ", ")
}

// answerOf says in a few words how the API server answered.
func answerOf(err error) string {
	switch {
	case err == nil:
		return "admitted"
	case strings.Contains(err.Error(), "failed calling webhook"):
		return "not checked"
	case strings.Contains(err.Error(), "too expensive to check"):
		return "too expensive"
	case apierrors.IsTooManyRequests(err):
		return "too many requests"
	case apierrors.IsForbidden(err), strings.Contains(err.Error(), "denied the request"):
		return "denied"
	case apierrors.IsInvalid(err):
		return "invalid"
	case apierrors.IsRequestEntityTooLargeError(err):
		return "too large"
	case errors.Is(err, context.DeadlineExceeded):
		return "not answered in 30 s"
	}
	return "refused otherwise: " + string(apierrors.ReasonForError(err))
}

// A tenant writes as fast as the API server answers.
type tenant struct {
	clients   kubernetes.Interface
	namespace string
	random    *rand.Rand
	serial    *atomic.Int64
	tally     *tally
	// dry makes each write a dry run.
	dry bool
	// costly and violating are what it writes.
	costly, violating []attack
}

func (n *tenant) attack(ctx context.Context, a attack, dry bool) {
	start := time.Now()
	err := n.write(ctx, a, dry)
	if ctx.Err() == nil {
		n.tally.count(a, dry, start, err)
	}
	if err == nil && a.open && !dry {
		n.restore(context.WithoutCancel(ctx))
	}
}

func (n *tenant) write(ctx context.Context, a attack, dry bool) error {
	serial := n.serial.Add(1)
	request := n.client(a).Verb(cmp.Or(a.verb, "POST")).Timeout(30*time.Second).Resource(a.resource).SubResource(a.subresource).
		SetHeader("Content-Type", cmp.Or(a.content, asJSON)).Body(a.of(a.body, serial, n.namespace))
	switch a.resource {
	case "namespaces", "devicetaintrules", "deviceclasses":
	default:
		request = request.Namespace(n.namespace)
	}
	if a.object != "" {
		request = request.Name(string(a.of([]byte(a.object), serial, n.namespace)))
	}
	if a.content == applied {
		request = request.Param("fieldManager", "hostile").Param("force", "true")
	}
	if dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request.Do(ctx).Error()
}

// client is that of the resource and the version.
func (n *tenant) client(a attack) rest.Interface {
	version := a.version
	switch {
	case a.resource == "namespaces", a.resource == "pods":
		return n.clients.CoreV1().RESTClient()
	case a.resource == "devicetaintrules" && version == "":
		version = cluster.DeviceTaintRules().Version
	}
	switch version {
	case "v1alpha3":
		return n.clients.ResourceV1alpha3().RESTClient()
	case "v1beta1":
		return n.clients.ResourceV1beta1().RESTClient()
	case "v1beta2":
		return n.clients.ResourceV1beta2().RESTClient()
	}
	return n.clients.ResourceV1().RESTClient()
}

// run attacks until ctx ends: two of three writes are costly, a third are small, and half
// of all are dry runs.
func (n *tenant) run(ctx context.Context) {
	for ctx.Err() == nil {
		kinds := n.costly
		if n.random.IntN(3) == 0 {
			kinds = n.violating
		}
		n.attack(ctx, kinds[n.random.IntN(len(kinds))], n.dry || n.random.IntN(2) == 0)
	}
}

// tenants makes so many tenants, each with a namespace of its own. Tenants with dry set
// store nothing.
func tenants(t *testing.T, admin kubernetes.Interface, n int, dry bool) (made []*tenant) {
	t.Helper()
	costly, violating := attacks(olderServed(admin))
	byName := func(a, b attack) int { return cmp.Or(cmp.Compare(a.name, b.name), bytes.Compare(a.body, b.body)) }
	slices.SortFunc(costly, byName)
	slices.SortFunc(violating, byName)
	serial := &atomic.Int64{}
	serial.Store(time.Now().Unix() % 1e6 * 1e4)
	for i := range n {
		name := fmt.Sprint("tenant-", i)
		made = append(made, &tenant{clients: tenantOf(t, admin, name), namespace: name,
			random: rand.New(rand.NewPCG(uint64(n), uint64(i))), serial: serial, dry: dry, costly: costly, violating: violating})
		made[i].targets(t)
	}
	return made
}

// flood lets tenants write until ctx ends; wait returns the answers when all have stopped.
func flood(ctx context.Context, tenants []*tenant) (wait func() *tally) {
	answers := &tally{}
	var group sync.WaitGroup
	for _, n := range tenants {
		n.tally = answers
		group.Go(func() { n.run(ctx) })
	}
	return func() *tally {
		group.Wait()
		return answers
	}
}

// A kill is the time from a SIGKILL until the API server asks the replica no more.
type kill struct{ from, to time.Time }

// endpointDelay is how long an API server may take to see that an endpoint is gone.
const endpointDelay = time.Second

// during reports whether a write was answered while the replica that was killed could be asked.
func (k kill) during(b breach) bool {
	return b.end.After(k.from) && b.start.Before(k.to.Add(endpointDelay))
}

// disturb restarts and kills the replicas in turn until ctx ends, each when all are ready.
func disturb(ctx context.Context, t *testing.T, admin kubernetes.Interface, killing bool) (restarts int, kills []kill) {
	always := context.WithoutCancel(ctx)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return restarts, kills
		case <-time.After(3 * time.Second):
		}
		pods := kubelet.Pods("webhook")
		if len(pods) == 0 {
			continue
		}
		pod, from, killed := pods[0], time.Now(), false
		if killing && i%2 == 1 {
			if err := pod.Kill(); !errors.Is(err, os.ErrProcessDone) { // it may be ending already
				must(t, err)
				killed = true
			}
		} else {
			restarts++
		}
		if err := admin.CoreV1().Pods(namespace).Delete(always, pod.Object.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			must(t, err)
		}
		if killed {
			gone(t, admin, pod.Address)
			kills = append(kills, kill{from, time.Now()})
		}
		waitReady(t)
	}
}

// gone waits until no Service of the release leads to an address.
func gone(t *testing.T, admin kubernetes.Interface, address string) {
	t.Helper()
	eventually(t, "the endpoint of a killed replica is gone", func(ctx context.Context) error {
		list, err := admin.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if slices.Contains(endpoint.Addresses, address) && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) {
					return fmt.Errorf("%s has %s", slice.Name, address)
				}
			}
		}
		return nil
	})
}

// TestCampaign: in mode enforce no violation is stored, nor admitted as a dry run, whatever
// tenants flood the webhook with, also while replicas restart and are killed. Meanwhile the
// claim controller makes the claims of templates that are costly to check.
func TestCampaign(t *testing.T) {
	legacy(t)
	admin := install(t, strict(nil))
	stored := watchViolations(t, admin)
	publish(t, admin)
	all := tenants(t, admin, 16, false)
	all[0].reach(t)
	killed := 0
	for _, writers := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(writers, " writers"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), lasts(t, 1.0/3))
			defer cancel()
			pods := startPods(ctx, t, all[0])
			wait := flood(ctx, all[:writers])
			restarts, kills := disturb(ctx, t, admin, true)
			killed += len(kills)
			answers := wait()
			t.Logf("%d writers, %d restarts, %d kills: %s", writers, restarts, len(kills), answers)
			t.Logf("slowest: %s", answers.slowest(8))
			t.Logf("claims of costly templates: %s", pods())
			for _, b := range answers.breaches {
				if !b.attack.open || !slices.ContainsFunc(kills, func(k kill) bool { return k.during(b) }) {
					t.Errorf("admitted: %s", b)
				}
			}
			peaks(t)
		})
	}
	for _, object := range stored() {
		t.Logf("stored: %s", object)
		if !object.open || killed == 0 {
			t.Errorf("stored: %s", object)
		}
	}
}

// TestIgnore: with failurePolicy Ignore no violation is stored while both replicas live and
// while they restart. When one is killed, at most the requests that it was checking pass, and
// the API server counts each.
func TestIgnore(t *testing.T) {
	admin := install(t, strict(map[string]any{"webhooks": map[string]any{
		"claims": map[string]any{"failurePolicy": "Ignore"}, "templates": map[string]any{"failurePolicy": "Ignore"}}}))
	publish(t, admin)
	const writers = 4
	for _, tt := range []struct {
		name           string
		restarts, kill bool
	}{{"both live", false, false}, {"restarts", true, false}, {"kills", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			stored, all := watchViolations(t, admin), tenants(t, admin, writers, false)
			before := failedOpen(t, admin)
			ctx, cancel := context.WithTimeout(t.Context(), lasts(t, 0.15))
			defer cancel()
			wait := flood(ctx, all)
			var restarts int
			var kills []kill
			if tt.restarts {
				restarts, kills = disturb(ctx, t, admin, tt.kill)
			}
			answers, passed, counted := wait(), stored(), failedOpen(t, admin)-before
			t.Logf("%d writers, %d restarts, %d kills: %s; %d admitted, %d stored, %d failed open", writers, restarts, len(kills), answers, len(answers.breaches), len(passed), counted)
			checkBreaches(t, answers.breaches, kills, 2*writers*len(kills), counted)
			if len(passed) > len(answers.breaches) {
				t.Errorf("%d violations were stored, %d admitted: %v", len(passed), len(answers.breaches), passed)
			}
			peaks(t)
		})
	}
}

// checkBreaches: all were admitted while a killed replica could be asked, they are not more than
// were in flight, and the API server counts at least as many.
func checkBreaches(t *testing.T, breaches []breach, kills []kill, inFlight, counted int) {
	t.Helper()
	for _, b := range breaches {
		if !slices.ContainsFunc(kills, func(k kill) bool { return k.during(b) }) {
			t.Errorf("admitted while no replica was killed: %s", b)
		}
	}
	if len(breaches) > inFlight {
		t.Errorf("%d violations were admitted, at most %d requests were in flight: %v", len(breaches), inFlight, breaches)
	}
	if len(breaches) > counted {
		t.Errorf("%d violations were admitted, the API server counts %d that failed open", len(breaches), counted)
	}
}

// failedOpen is how often the API server has ignored that a webhook failed.
func failedOpen(t *testing.T, admin kubernetes.Interface) (all int) {
	t.Helper()
	text, err := admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "apiserver_admission_webhook_fail_open_count{"); found {
			_, value, _ = strings.Cut(value, "} ")
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			all += int(n)
		}
	}
	return all
}
