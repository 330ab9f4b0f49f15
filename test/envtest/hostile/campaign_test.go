package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// A tally counts the answers to attacks, by what they say.
type tally struct {
	mu      sync.Mutex
	answers map[string]int
	// breaches are violations that were admitted.
	breaches []string
	// took is how long the answers to each kind of attack took.
	took map[string][]time.Duration
}

func (y *tally) count(a attack, dry bool, took time.Duration, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.answers == nil {
		y.answers, y.took = map[string]int{}, map[string][]time.Duration{}
	}
	y.answers[answerOf(err)]++
	y.took[a.name] = append(y.took[a.name], took)
	if err == nil && a.violates {
		y.breaches = append(y.breaches, fmt.Sprintf("%s %s (dry run: %v)", time.Now().Format("05.000"), a.name, dry))
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
	return strings.Join(parts, ", ")
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
}

func (n *tenant) attack(ctx context.Context, a attack, dry bool) {
	start := time.Now()
	err := n.write(ctx, a, dry)
	if ctx.Err() == nil {
		n.tally.count(a, dry, time.Since(start), err)
	}
}

func (n *tenant) write(ctx context.Context, a attack, dry bool) error {
	body := a.numbered(n.serial.Add(1))
	var client rest.Interface
	request := func(verb string) *rest.Request {
		r := client.Verb(verb).Timeout(30 * time.Second)
		if dry {
			r = r.Param("dryRun", metav1.DryRunAll)
		}
		return r
	}
	client = n.clients.ResourceV1().RESTClient()
	switch a.resource {
	case "namespaces":
		client = n.clients.CoreV1().RESTClient()
		return request("PATCH").Resource(a.resource).Name(n.namespace).SetHeader("Content-Type", string(types.MergePatchType)).Body(body).Do(ctx).Error()
	case "devicetaintrules", "deviceclasses":
		return request("POST").Resource(a.resource).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	case "pods":
		client = n.clients.CoreV1().RESTClient()
	}
	return request("POST").Namespace(n.namespace).Resource(a.resource).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// run attacks until ctx ends: two of three writes are costly, a third are small, and half
// of all are dry runs.
func (n *tenant) run(ctx context.Context, costly, violating []attack) {
	for ctx.Err() == nil {
		kinds := costly
		if n.random.IntN(3) == 0 {
			kinds = violating
		}
		n.attack(ctx, kinds[n.random.IntN(len(kinds))], n.dry || n.random.IntN(2) == 0)
	}
}

// tenants makes so many tenants, each with a namespace of its own. Tenants with dry set
// store nothing.
func tenants(t *testing.T, admin kubernetes.Interface, n int, dry bool) (made []*tenant) {
	t.Helper()
	serial := &atomic.Int64{}
	serial.Store(time.Now().Unix() % 1e6 * 1e4)
	for i := range n {
		name := fmt.Sprint("tenant-", i)
		made = append(made, &tenant{clients: tenantOf(t, admin, name), namespace: name,
			random: rand.New(rand.NewPCG(uint64(n), uint64(i))), serial: serial, dry: dry})
	}
	return made
}

// flood lets tenants write until ctx ends; wait returns the answers when all have stopped.
func flood(ctx context.Context, tenants []*tenant) (wait func() *tally) {
	costly, violating := attacks()
	slices.SortFunc(costly, func(a, b attack) int { return strings.Compare(a.name, b.name) })
	answers := &tally{}
	var group sync.WaitGroup
	for _, n := range tenants {
		n.tally = answers
		group.Go(func() { n.run(ctx, costly, violating) })
	}
	return func() *tally {
		group.Wait()
		return answers
	}
}

// disturb restarts and kills the replicas in turn until ctx ends, each when all are ready.
func disturb(ctx context.Context, t *testing.T, admin kubernetes.Interface, kill bool) (restarts, kills int) {
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
		pod := pods[0]
		if kill && i%2 == 1 {
			if err := pod.Kill(); !errors.Is(err, os.ErrProcessDone) { // it may be ending already
				must(t, err)
				kills++
			}
		} else {
			restarts++
		}
		if err := admin.CoreV1().Pods(namespace).Delete(always, pod.Object.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			must(t, err)
		}
		settle(t)
	}
}

// TestCampaign: in mode enforce no violation is stored, nor admitted as a dry run, whatever
// tenants flood the webhook with, also while replicas restart and are killed.
func TestCampaign(t *testing.T) {
	admin := install(t, strict(nil))
	stored := watchViolations(t, admin)
	publish(t, admin)
	all := tenants(t, admin, 16, false)
	for _, writers := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(writers, " writers"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), lasts(t, 1.0/3))
			defer cancel()
			wait := flood(ctx, all[:writers])
			restarts, kills := disturb(ctx, t, admin, true)
			answers := wait()
			t.Logf("%d writers, %d restarts, %d kills: %s", writers, restarts, kills, answers)
			t.Logf("slowest: %s", answers.slowest(8))
			for _, breach := range answers.breaches {
				t.Errorf("admitted: %s", breach)
			}
			peaks(t)
		})
	}
	for _, object := range stored() {
		t.Errorf("stored: %s", object)
	}
}

// TestIgnore: with failurePolicy Ignore no violation is stored while both replicas live and
// while they restart. When one is killed, at most the requests that it was checking pass.
func TestIgnore(t *testing.T) {
	admin := install(t, strict(map[string]any{"webhooks": map[string]any{
		"claims": map[string]any{"failurePolicy": "Ignore"}, "templates": map[string]any{"failurePolicy": "Ignore"}}}))
	publish(t, admin)
	const writers = 4
	for name, kill := range map[string]bool{"restarts": false, "kills": true} {
		t.Run(name, func(t *testing.T) {
			stored, all := watchViolations(t, admin), tenants(t, admin, writers, false)
			ctx, cancel := context.WithTimeout(t.Context(), lasts(t, 0.2))
			defer cancel()
			wait := flood(ctx, all)
			restarts, kills := disturb(ctx, t, admin, kill)
			answers, passed := wait(), stored()
			t.Logf("%d writers, %d restarts, %d kills: %s; %d stored", writers, restarts, kills, answers, len(passed))
			if allowed := 2 * writers * kills; len(answers.breaches) > allowed {
				t.Errorf("%d violations were admitted, at most %d requests were in flight: %s", len(answers.breaches), allowed, strings.Join(answers.breaches, "; "))
			}
			peaks(t)
		})
	}
}
