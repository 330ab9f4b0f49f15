package manager

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderOf returns the fence of a leader, which renews its Lease until t ends.
func leaderOf(t *testing.T, clients *fake.Clientset) *fence {
	t.Helper()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "dra-steward", "lease", clients.CoreV1(), clients.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: "ours"})
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: "lease", LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fence{}
	f.elector.Store(elector)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return f
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestFenceOfStoppedProcess: a leader that does not get to renew its Lease does not write when
// another replica may have it, though its elector does not know that yet.
func TestFenceOfStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		var stopped atomic.Bool
		continued := make(chan struct{})
		clients.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if stopped.Load() {
				<-continued
			}
			return false, nil, nil
		})
		f := leaderOf(t, clients)
		pass(time.Second)
		leading, cancel := f.while(t.Context())
		defer cancel()
		pass(time.Minute)
		if !f.holds() || leading.Err() != nil {
			t.Fatal("the leader does not lead")
		}
		stopped.Store(true)
		pass(leaseDuration)
		if f.holds() || leading.Err() == nil {
			t.Error("it leads when its Lease is over")
		}
		close(continued)
	})
}

// TestFenceOfOtherHolder: the leader ends as soon as it observes that another replica holds the
// Lease, and not after the deadline of its elector.
func TestFenceOfOtherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		f := leaderOf(t, clients)
		leading, cancel := f.while(t.Context())
		defer cancel()
		pass(time.Second)
		leases := clients.CoordinationV1().Leases("dra-steward")
		lease, err := leases.Get(t.Context(), "lease", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("theirs"), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NowMicro())}
		clients.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if *action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).Spec.HolderIdentity == "ours" {
				return true, nil, errors.New("conflict")
			}
			return false, nil, nil
		})
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(retryPeriod + 2*fencePeriod)
		if f.holds() || leading.Err() == nil {
			t.Error("it leads while another replica holds the Lease")
		}
	})
}

// TestFencedWrites: without the Lease reads go on and writes are not sent.
func TestFencedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		var sent []string
		config := f.around(&rest.Config{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.Method)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})})
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		send := func(method string) error {
			r, err := http.NewRequestWithContext(t.Context(), method, "http://example.com", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.RoundTrip(r)
			return err
		}
		if err := send(http.MethodDelete); err != nil {
			t.Errorf("without leader election: %v", err)
		}
		leader := leaderOf(t, fake.NewClientset()).elector.Load()
		f.elector.Store(leader)
		if err := send(http.MethodDelete); !errors.Is(err, errNoLease) {
			t.Errorf("before it has the Lease: %v", err)
		}
		if err := send(http.MethodGet); err != nil {
			t.Errorf("a read: %v", err)
		}
		pass(time.Second)
		if err := send(http.MethodPatch); err != nil {
			t.Errorf("with the Lease: %v", err)
		}
		if len(sent) != 3 {
			t.Errorf("%q were sent", sent)
		}
	})
}

// TestFencedJournal: a replica that does not hold the Lease reads the eviction journal and does not
// write it. It writes the Lease.
func TestFencedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, written := &fence{}, map[string]int{}
		config := &rest.Config{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				written[path.Base(r.URL.Path)]++
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})}
		o := Options{Name: "controller", namespace: "dra-steward"}
		clients, err := o.newClients(config, f)
		if err != nil {
			t.Fatal(err)
		}
		journal := (&eviction{options: o, clients: clients, fence: f}).newJournal()
		var granted atomic.Bool
		leases := fake.NewClientset()
		leases.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !granted.Load(), nil, errors.New("the API server is down")
		})
		f.elector.Store(leaderOf(t, leases).elector.Load())
		if err := journal.Save(t.Context(), []byte("{}")); !errors.Is(err, errNoLease) {
			t.Errorf("before it has the Lease: %v", err)
		}
		if _, err := journal.Load(t.Context()); err != nil {
			t.Errorf("a read: %v", err)
		}
		if _, err := clients.quiet.CoordinationV1().Leases("dra-steward").Create(t.Context(), &coordinationv1.Lease{}, metav1.CreateOptions{}); err != nil {
			t.Errorf("the Lease: %v", err)
		}
		granted.Store(true)
		pass(3 * retryPeriod)
		if err := journal.Save(t.Context(), []byte("{}")); err != nil {
			t.Errorf("with the Lease: %v", err)
		}
		if want := map[string]int{"controller-evictions": 1, "leases": 1}; !maps.Equal(written, want) {
			t.Errorf("written %v, want %v", written, want)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
