package nodeagent

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// TestStill: while the kubelet does not answer, its last answer counts for the pods that the
// API server still has.
func TestStill(t *testing.T) {
	listing := &podresources.Listing{Pods: []*v1.PodResources{{Namespace: "ml", Name: "deleted"}, {Namespace: "ml", Name: "stays"}, {Namespace: "other", Name: "stays"}}}
	kept := still(listing, []*corev1.Pod{podOf("stays")})
	if len(kept.Pods) != 1 || kept.Pods[0].GetName() != "stays" || kept.Pods[0].GetNamespace() != "ml" {
		t.Errorf("kept %v", kept.Pods)
	}
	if len(listing.Pods) != 3 {
		t.Error("the last answer was changed")
	}
	if still(nil, nil) != nil {
		t.Error("without an answer nothing is kept")
	}
}

// TestAdminAccessIsRemembered: the admin access of a claim that the API server no longer has
// counts until its devices are released.
func TestAdminAccessIsRemembered(t *testing.T) {
	admin := holding("monitor", "all", "gpu-0", func(h *podresources.Holding) { h.AdminAccess = true })
	forgotten := holding("monitor", "all", "gpu-0", func(h *podresources.Holding) { h.Source = podresources.FromCheckpoint })
	var a Agent
	for i, step := range []struct {
		holdings []podresources.Holding
		want     bool
	}{
		{[]podresources.Holding{admin}, true},
		{[]podresources.Holding{forgotten}, true},
		{nil, false},
		{[]podresources.Holding{forgotten}, false},
	} {
		a.remember(step.holdings)
		if got := a.admin[adminKey(admin)]; got != step.want {
			t.Errorf("step %d: %t, want %t", i, got, step.want)
		}
	}
}

// TestReadKnowsAdminAccess: what the agent remembers of admin access is part of what it judges.
func TestReadKnowsAdminAccess(t *testing.T) {
	nodeView, err := NewNodeView(&rest.Config{Host: "127.0.0.1:1"}, "node-1", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	kubelet := podresources.New(podresources.Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
	defer kubelet.Close()
	a := NewAgent(Options{Kubelet: kubelet, NodeView: nodeView, CDI: cdi.Options{Dirs: []string{t.TempDir()}}, Log: logr.Discard()})
	admin := holding("monitor", "all", "gpu-0", func(h *podresources.Holding) { h.AdminAccess = true })
	a.remember([]podresources.Holding{admin})
	in := a.read(t.Context(), time.Unix(1000, 0), &Observation{Sources: map[string]bool{}})
	if in.WasAdmin == nil || !in.WasAdmin(admin) {
		t.Error("the admin access of a claim is forgotten")
	}
	if other := holding("train", "one", "gpu-1"); in.WasAdmin != nil && in.WasAdmin(other) {
		t.Error("another claim has admin access")
	}
}

// TestChanges: many events of files cause one look, and an overflow of their queue causes one, too.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		changed := changes(watcher)
		defer close(watcher.Events)
		for step, report := range []func(){
			func() { watcher.Events <- fsnotify.Event{Name: "state", Op: fsnotify.Create} },
			func() { watcher.Errors <- fsnotify.ErrEventOverflow },
		} {
			for range 20 {
				report()
			}
			synctest.Wait()
			looks := 0
			for start := time.Now(); wait(t.Context(), time.Second, changed, nil) && time.Since(start) < time.Second; start = time.Now() {
				looks++
			}
			if looks != 1 {
				t.Errorf("step %d: %d looks", step, looks)
			}
		}
	})
}
