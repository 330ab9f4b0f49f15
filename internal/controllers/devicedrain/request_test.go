package devicedrain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecycleapi "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/devicedrain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// A requestPlane is the API of EvictionRequests, which outlives the controller.
type requestPlane struct {
	all       map[string]*lifecycleapi.EvictionRequest
	evictions []lifecycleapi.Eviction
	// listing and creating are the errors of these calls.
	listing, creating error
	created, deleted  int
	// answer is called for each new request.
	answer func(*lifecycleapi.EvictionRequest)
}

var requestResource = schema.GroupResource{Group: "lifecycle.k8s.io", Resource: "evictionrequests"}

func (r *process) serveRequests(client *fake.Clientset) {
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: r.serverVersion}
	client.PrependReactor("list", "evictionrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		list := &lifecycleapi.EvictionRequestList{}
		for _, request := range r.requests.all {
			if action.(clienttesting.ListAction).GetListRestrictions().Labels.Matches(labels.Set(request.Labels)) {
				list.Items = append(list.Items, *request.DeepCopy())
			}
		}
		return true, list, r.requests.listing
	})
	client.PrependReactor("list", "evictions", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return true, &lifecycleapi.EvictionList{Items: slices.Clone(r.requests.evictions)}, nil
	})
	client.PrependReactor("create", "evictionrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.CreateAction).GetObject().(*lifecycleapi.EvictionRequest).DeepCopy()
		return r.call("request "+request.Spec.Target.Pod.Name, func() (runtime.Object, error) {
			switch {
			case r.requests.creating != nil:
				return nil, r.requests.creating
			case r.requests.all[request.Name] != nil:
				return nil, apierrors.NewAlreadyExists(requestResource, request.Name)
			case r.requests.all == nil:
				r.requests.all = map[string]*lifecycleapi.EvictionRequest{}
			}
			if !slices.ContainsFunc(r.requested(), func(d v1alpha1.DrainRequest) bool { return d.UID == request.Spec.Target.Pod.UID }) {
				r.Errorf("a request for %s, which no status has", request.Spec.Target.Pod.Name)
			}
			r.requests.created++
			if r.requests.answer != nil {
				r.requests.answer(request)
			}
			r.requests.all[request.Name] = request
			return request.DeepCopy(), nil
		})
	})
	client.PrependReactor("delete", "evictionrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		return r.call("withdraw", func() (runtime.Object, error) {
			if r.requests.all[name] == nil {
				return nil, apierrors.NewNotFound(requestResource, name)
			}
			r.requests.deleted++
			delete(r.requests.all, name)
			return nil, nil
		})
	})
}

// requested are the pods of all drains that were asked by requests.
func (p *plane) requested() (all []v1alpha1.DrainRequest) {
	for _, d := range p.drains {
		all = append(all, d.Status.Requested...)
	}
	return all
}

func viaRequests(s *v1alpha1.DeviceDrainSpec) { s.Via = v1alpha1.ViaEvictionRequest }

// openRequests are the pods of the requests that exist.
func (p *plane) openRequests() (pods []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, request := range p.requests.all {
		pods = append(pods, request.Spec.Target.Pod.Name)
	}
	slices.Sort(pods)
	return pods
}

// accepted is what a controller for EvictionRequests writes first.
func accepted(r *lifecycleapi.EvictionRequest) {
	r.Status.ObservedGeneration = new(int64(1))
	r.Status.Conditions = []metav1.Condition{{Type: string(lifecycleapi.EvictionConditionTargetEvicted), Status: metav1.ConditionFalse,
		Reason: string(lifecycleapi.EvictionConditionReasonAwaitingEviction), LastTransitionTime: metav1.Now()}}
}

// endsAfter answers as a controller for EvictionRequests that ends the pod after a while.
func (p *plane) endsAfter(while time.Duration) func(*lifecycleapi.EvictionRequest) {
	return func(r *lifecycleapi.EvictionRequest) {
		accepted(r)
		name := r.Spec.Target.Pod.Name
		time.AfterFunc(while, func() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.leaves(p.pods[name], nil)
		})
	}
}

// TestRequestsAreServed: a controller for EvictionRequests ends the pods by and by, also one
// whose budget allows no eviction. The drain evicts none itself, counts them, and withdraws
// the requests.
func TestRequestsAreServed(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.requests.answer = p.endsAfter(10 * time.Minute)
		p.do(func() { p.pod("web", 0, ""); p.pod("web", 1, ""); p.budget("web", "web", 2) })
		p.drain("firmware", 2, viaRequests)
		p.pass(20 * time.Second)
		p.expect("firmware", "ViaEvictionRequest=True Requesting", "Blocked=False NotBlocked", "Draining=True Evicting", "Drained=False PodsRemain")
		if n := p.get("firmware").Status.Counts; n.Leaving != 2 || n.Evicted != 0 {
			t.Errorf("counts %+v", n)
		}
		for _, r := range p.requests.all {
			if r.Spec.Requester != devicedrain.Requester || r.Spec.Intent != lifecycleapi.EvictionRequestIntentEviction ||
				len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != p.get("firmware").UID {
				t.Errorf("request %+v", r)
			}
		}
		p.pass(11 * time.Minute)
		p.expect("firmware", "Drained=True Drained", "ViaEvictionRequest=True Requesting")
		if went, _ := p.went(); len(went) != 0 {
			t.Errorf("%q were evicted", went)
		}
		if d := p.get("firmware"); d.Status.Counts.Evicted != 2 || len(d.Status.Requested) != 0 || p.requests.created != 2 || len(p.openRequests()) != 0 {
			t.Errorf("counts %+v, requested %+v, %d created, open %q", d.Status.Counts, d.Status.Requested, p.requests.created, p.openRequests())
		}
	})
}

// TestRequestsAreBounded: a drain has no more than 128 EvictionRequests at a time.
func TestRequestsAreBounded(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.stop()
		p.thresholds = guard.Thresholds{Pods: 140, Namespaces: 1, Percent: 1000}
		p.start()
		p.requests.answer = p.endsAfter(10 * time.Minute)
		p.do(func() {
			for i := range 140 {
				p.pod("web", i, "")
			}
		})
		p.drain("firmware", 140, func(s *v1alpha1.DeviceDrainSpec) {
			viaRequests(s)
			s.EvictionsPerMinute = new(int32(6000))
		})
		p.pass(5 * time.Minute)
		if n := len(p.openRequests()); n != 128 {
			t.Errorf("%d open requests, want 128", n)
		}
		p.pass(16 * time.Minute)
		p.expect("firmware", "Drained=True Drained")
		if n := p.get("firmware").Status.Counts.Evicted; n != 140 {
			t.Errorf("%d pods count as evicted, want 140", n)
		}
	})
}

// TestPodsOfGroupsAreEvicted: Kubernetes refuses EvictionRequests for pods of a PodGroup, so the
// drain evicts them and asks the others.
func TestPodsOfGroupsAreEvicted(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.requests.answer = p.endsAfter(10 * time.Minute)
		p.do(func() {
			p.pod("web", 0, "")
			grouped := p.pod("train", 1, "").DeepCopy()
			grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
			p.storePod(grouped)
		})
		p.drain("firmware", 2, viaRequests)
		p.pass(time.Minute)
		went, _ := p.went()
		if open := p.openRequests(); p.requests.created != 1 || len(open) != 1 || !strings.HasPrefix(open[0], "web-") || len(went) != 1 || !strings.HasPrefix(went[0], "train-") {
			t.Errorf("asked %q, evicted %q", open, went)
		}
	})
}

// TestRequestsFallBackAltogether: the whole drain evicts through the Eviction API where no
// EvictionRequests are served or processed, within a minute, and says why.
func TestRequestsFallBackAltogether(t *testing.T) {
	for reason, tt := range map[string]struct {
		listing error
		after   time.Duration
		created int
	}{
		"NotServed":   {apierrors.NewNotFound(requestResource, ""), 10 * time.Second, 0},
		"Forbidden":   {apierrors.NewForbidden(requestResource, "", errors.New("no right")), 10 * time.Second, 0},
		"NotReadable": {apierrors.NewInternalError(errors.New("etcd")), 75 * time.Second, 0},
		"NotAnswered": {nil, 80 * time.Second, 2},
	} {
		t.Run(reason, func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.requests.listing = tt.listing
				p.do(func() { p.pod("web", 0, ""); p.pod("web", 1, "") })
				p.drain("firmware", 2, viaRequests)
				p.pass(tt.after + 20*time.Second)
				p.expect("firmware", "ViaEvictionRequest=False "+reason, "Drained=True Drained")
				_, seconds := p.went()
				if len(seconds) != 2 || time.Duration(seconds[0])*time.Second > tt.after+5*time.Second {
					t.Errorf("evicted at %d s", seconds)
				}
				if d := p.get("firmware"); d.Status.Counts.Evicted != 2 || p.requests.created != tt.created || len(p.openRequests()) != 0 {
					t.Errorf("counts %+v, %d created, open %q", d.Status.Counts, p.requests.created, p.openRequests())
				}
				if said := p.said(); !slices.ContainsFunc(said, func(e string) bool { return strings.HasPrefix(e, "Warning "+reason+" ") }) {
					t.Errorf("no event in %q", said)
				}
			})
		})
	}
}

// TestProcessedRequestIsKept: the drain falls back altogether because a request is not answered. A
// pod whose request is processed still leaves by it.
func TestProcessedRequestIsKept(t *testing.T) {
	inPlane(t, func(p *plane) {
		var moving, other *corev1.Pod
		p.do(func() { moving, other = p.pod("moving", 0, ""), p.pod("other", 1, "") })
		p.requests.answer = func(r *lifecycleapi.EvictionRequest) {
			if r.Spec.Target.Pod.Name == moving.Name {
				p.endsAfter(10 * time.Minute)(r)
			}
		}
		p.drain("firmware", 2, viaRequests)
		p.pass(3 * time.Minute)
		p.expect("firmware", "ViaEvictionRequest=False NotAnswered", "Drained=False PodsRemain")
		if went, _ := p.went(); !slices.Equal(went, []string{other.Name}) {
			t.Errorf("%q were evicted", went)
		}
		if open := p.openRequests(); !slices.Equal(open, []string{moving.Name}) {
			t.Errorf("open requests %q", open)
		}
		p.pass(9 * time.Minute)
		p.expect("firmware", "Drained=True Drained")
		if went, _ := p.went(); len(went) != 1 || p.get("firmware").Status.Counts.Evicted != 2 {
			t.Errorf("%q were evicted, counts %+v", went, p.get("firmware").Status.Counts)
		}
	})
}

// TestRequestFallsBack: one pod is evicted, because its request comes to nothing, and the
// other, whose responder reports, is not.
func TestRequestFallsBack(t *testing.T) {
	for reason, tt := range map[string]struct {
		answer   func(*lifecycleapi.EvictionRequest)
		creating error
		after    time.Duration
	}{
		"Stalled": {accepted, nil, 26 * time.Minute},
		"RequestFailed": {func(r *lifecycleapi.EvictionRequest) {
			accepted(r)
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: "Failed", Status: metav1.ConditionTrue, Reason: "NoFurtherResponder", LastTransitionTime: metav1.Now()})
		}, nil, 30 * time.Second},
		"RequestRefused": {nil, apierrors.NewForbidden(requestResource, "", errors.New("a policy denies it")), 30 * time.Second},
	} {
		t.Run(reason, func(t *testing.T) {
			inPlane(t, func(p *plane) {
				var moving, other *corev1.Pod
				p.do(func() { moving, other = p.pod("moving", 0, ""), p.pod("other", 1, "") })
				heartbeat := lifecycleapi.Eviction{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{devicedrain.Requester: string(lifecycleapi.EvictionParticipantRoleRequester)}}}
				heartbeat.Spec.Target.Pod = &lifecycleapi.EvictionPodReference{Name: moving.Name, UID: moving.UID}
				p.requests.answer = func(r *lifecycleapi.EvictionRequest) {
					if accepted(r); r.Spec.Target.Pod.Name == other.Name {
						tt.answer(r)
					}
				}
				p.drain("firmware", 1, viaRequests)
				p.pass(15 * time.Second)
				p.do(func() { p.requests.creating = tt.creating })
				p.drain("more", 2, viaRequests)
				for range int((tt.after + 30*time.Second) / time.Minute) {
					p.pass(time.Minute)
					p.do(func() {
						heartbeat.Status.Responders = []lifecycleapi.ResponderStatus{{Name: "example.com/mover", HeartbeatTime: new(metav1.Now())}}
						p.requests.evictions = []lifecycleapi.Eviction{heartbeat}
					})
				}
				p.pass(time.Minute)
				if went, _ := p.went(); !slices.Equal(went, []string{other.Name}) {
					t.Errorf("%q were evicted", went)
				}
				p.expect("more", "ViaEvictionRequest=True Requesting")
				if open := p.openRequests(); !slices.Equal(open, []string{moving.Name}) {
					t.Errorf("open requests %q", open)
				}
				if said := p.said(); !slices.ContainsFunc(said, func(e string) bool { return strings.HasPrefix(e, "Warning "+reason+" DeviceDrain more") }) {
					t.Errorf("no event in %q", said)
				}
			})
		})
	}
}

// TestRequestsAreWithdrawn: a drain that stops withdraws its requests, and asks again when
// it goes on.
func TestRequestsAreWithdrawn(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.requests.answer = accepted
		p.do(func() { p.pod("web", 0, ""); p.pod("web", 1, "") })
		p.drain("firmware", 2, viaRequests)
		p.pass(20 * time.Second)
		want := func(n int) {
			t.Helper()
			if open := p.openRequests(); len(open) != n {
				t.Errorf("open requests %q, want %d", open, n)
			}
		}
		want(2)
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.Paused = true })
		p.pass(20 * time.Second)
		want(0)
		p.expect("firmware", "Draining=False Paused")
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.Paused = false })
		p.pass(20 * time.Second)
		want(2)
		p.change("firmware", func(s *v1alpha1.DeviceDrainSpec) { s.Via = "" })
		p.pass(30 * time.Second)
		want(0)
		p.expect("firmware", "Drained=True Drained")
		if went, _ := p.went(); len(went) != 2 {
			t.Errorf("%q were evicted", went)
		}
	})
}

// TestRequestsAfterTheDeadline: the pods that have not ended are deleted.
func TestRequestsAfterTheDeadline(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.requests.answer = accepted
		p.do(func() { p.pod("web", 0, "") })
		p.drain("firmware", 1, func(s *v1alpha1.DeviceDrainSpec) {
			viaRequests(s)
			s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: v1alpha1.DeadlineDelete}
		})
		p.pass(2 * time.Minute)
		p.expect("firmware", "Drained=True Drained")
		if n := p.get("firmware").Status.Counts; n.Deleted != 1 || n.Evicted != 0 || len(p.openRequests()) != 0 {
			t.Errorf("counts %+v, open requests %q", n, p.openRequests())
		}
	})
}

// TestRequestsSurviveKills: the controller is killed before and after each of its calls.
// Each pod is asked once, and counted once.
func TestRequestsSurviveKills(t *testing.T) {
	for at := 1; at <= 14; at++ {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("call %d, before %t", at, before), func(t *testing.T) {
				inPlane(t, func(p *plane) {
					p.killAt, p.killBefore = at, before
					p.requests.answer = p.endsAfter(20 * time.Second)
					p.do(func() { p.pod("web", 0, ""); p.pod("web", 1, "") })
					p.drain("firmware", 2, viaRequests)
					p.pass(2 * time.Minute)
					p.expect("firmware", "Drained=True Drained")
					if d := p.get("firmware"); d.Status.Counts.Evicted != 2 || p.requests.created != 2 || len(p.openRequests()) != 0 {
						t.Errorf("counts %+v, %d created, open %q", d.Status.Counts, p.requests.created, p.openRequests())
					}
				})
			})
		}
	}
}
