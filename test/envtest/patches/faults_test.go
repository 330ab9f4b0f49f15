package patches_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// allow lets a user list and watch kinds; name is that of the role.
func (c clients) allow(t *testing.T, name, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	for i := range rules {
		rules[i].Verbs = []string{"list", "watch"}
	}
	roles := c.RbacV1()
	if _, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := roles.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// lines are those of a log.
type lines struct {
	mutex sync.Mutex
	all   []string
}

func (l *lines) add(prefix, line string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, prefix+line)
}

func (l *lines) has(text string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool { return strings.Contains(line, text) })
}

// TestAbsentAndForbidden: without the type of patches and without the right to read
// rules the view goes on, and takes both in once they are there. It comes first, before
// another test installs the type.
func TestAbsentAndForbidden(t *testing.T) {
	c := newClients(t)
	defer c.clean(t)
	const user = "reader"
	config, err := cluster.User(user)
	if err != nil {
		t.Fatal(err)
	}
	c.allow(t, "reader-slices", user, rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices", "deviceclasses"}},
		rbacv1.PolicyRule{APIGroups: []string{"dra-steward.io"}, Resources: []string{"resourceslicepatches"}})
	if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice(0, 0, 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.rules.Create(t.Context(), rule("hidden", "", map[string]any{}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var log lines
	tracked := started(t, config, tracker.Options{Logger: funcr.New(log.add, funcr.Options{})})
	synced(t, tracked)
	for _, want := range []string{`"Cannot watch; continuing without this kind" "kind"="ResourceSlicePatch" "reason"="NotInstalled"`, `"kind"="DeviceTaintRule" "reason"="Forbidden"`} {
		if !log.has(want) {
			t.Errorf("the log does not say %s", want)
		}
	}
	if got := condition(tracked, tracker.PatchKind); got.Reason != tracker.ReasonNotInstalled || got.Available || !strings.Contains(got.Message, "CustomResourceDefinition") {
		t.Errorf("patches: %+v", got)
	}
	if got := condition(tracked, tracker.RuleKind); got.Reason != tracker.ReasonForbidden || !strings.Contains(got.Message, "grant list and watch") {
		t.Errorf("rules: %+v", got)
	}
	if got := condition(tracked, tracker.SliceKind); got.Reason != tracker.ReasonWatching || !got.Available {
		t.Errorf("slices: %+v", got)
	}
	device, ok := tracked.Snapshot().Device("driver-0.example.com", "pool-0", "device-0-1")
	if !ok || len(device.Taints()) != 0 {
		t.Errorf("device %t with taints %v", ok, device.Taints())
	}

	c.installPatches(t)
	if _, err := c.patches.Create(t.Context(), patch("late", "red", map[string]any{}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.allow(t, "reader-rules", user, rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"devicetaintrules"}})
	eventually(t, "rule and patch are in the view", func(context.Context) (bool, error) {
		device, ok := tracked.Snapshot().Device("driver-0.example.com", "pool-0", "device-0-1")
		return ok && len(device.Taints()) == 1 && device.Merged().Attributes["example.com/color"].StringValue != nil, nil
	})
	for _, c := range tracked.Conditions() {
		if !c.Available || c.Message != "" {
			t.Errorf("%+v", c)
		}
	}
}

// line is the way to the API server, which can be cut.
type line struct {
	mutex sync.Mutex
	cut   bool
	open  map[net.Conn]bool
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cut {
		return nil, fmt.Errorf("the line is cut: %w", syscall.ECONNREFUSED)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.open[conn] = true
	}
	return conn, err
}

func (l *line) set(cut bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cut = cut; cut {
		for conn := range l.open {
			conn.Close()
		}
		clear(l.open)
	}
}

// TestCutLine deletes, changes and creates objects while the tracker sees nothing; then
// its informers list again: of what was deleted they know the name only.
func TestCutLine(t *testing.T) {
	c := newClients(t)
	c.installPatches(t)
	defer c.clean(t)
	published := c.ResourceV1().ResourceSlices()
	for i := range 3 {
		if _, err := published.Create(t.Context(), slice(i, 0, 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.rules.Create(t.Context(), rule("gone", "", map[string]any{}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	way := &line{open: map[net.Conn]bool{}}
	config := rest.CopyConfig(cluster.Config())
	config.Dial = way.dial
	tracked := started(t, config, tracker.Options{})
	synced(t, tracked)
	events := &reader{view: map[string]string{}}
	tracked.AddEventHandler(events)
	if n := len(tracked.Snapshot().List(nil)); n != 3 {
		t.Fatalf("%d slices", n)
	}

	way.set(true)
	if err := published.Delete(t.Context(), "slice-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.rules.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.rules.Create(t.Context(), rule("new", "", map[string]any{"pool": "pool-1"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := published.Create(t.Context(), slice(9, 0, 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	way.set(false)
	eventually(t, "the view is that of now", func(ctx context.Context) (bool, error) {
		want, err := c.naive(ctx)
		return err == nil && len(want) == 3 && differ(want, texts(tracked.Snapshot())) == "", err
	})
	eventually(t, "the handler knows", func(ctx context.Context) (bool, error) {
		return differ(texts(tracked.Snapshot()), events.copy()) == "", nil
	})
}
