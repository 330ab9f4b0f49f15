package campaign

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

const (
	namespace = metav1.NamespaceDefault
	nodeCount = 10

	auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  verbs: [delete, deletecollection]
  resources: [{group: "", resources: [pods]}]
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [pods/eviction]}]
- level: Request
  verbs: [create, update, patch]
  resources: [{group: resource.k8s.io, resources: [devicetaintrules]}]
- level: None
`
)

// A world is a cluster and its administrator.
type world struct {
	kubernetes.Interface
	*envtest.Cluster
	// repeated counts the requests that were sent again.
	repeated atomic.Int64
}

func nodeNames() (names []string) {
	for i := range nodeCount {
		names = append(names, fmt.Sprint("node-", i))
	}
	return names
}

// start starts a cluster whose kube-controller-manager does not evict for device taints.
func start(t *testing.T) *world {
	t.Helper()
	cluster, err := envtest.Start(t.Context(), envtest.Options{
		Kubernetes: "1.37", ControllerManager: true, Nodes: nodeNames(), AuditPolicy: auditPolicy, DeviceTaintRules: true,
		ControllerManagerArgs: map[string][]string{"controllers": {"*,-device-taint-eviction-controller"}},
		APIServerArgs:         map[string][]string{"audit-log-maxsize": {"2000"}}, // one file has it all
		Dir:                   t.TempDir(), Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &world{Interface: kubernetes.NewForConfigOrDie(cluster.Config()), Cluster: cluster}
}

// write sends a request until it is answered, and returns when it took effect.
func (w *world) write(ctx context.Context, request func(context.Context) error) (m oracle.Moment, err error) {
	m.Earliest = time.Now()
	again, err := longrun.Write(ctx, request)
	w.repeated.Add(again)
	m.Latest = time.Now()
	return m, err
}

// pods returns the UIDs of the pods that are left.
func (w *world) pods(t *testing.T) map[types.UID]bool {
	t.Helper()
	list, err := w.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := map[types.UID]bool{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil {
			left[pod.UID] = true
		}
	}
	return left
}

// An entry is a line of the audit log.
type entry struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Namespace, Name string }
	// RequestReceivedTimestamp has microseconds.
	RequestReceivedTimestamp time.Time
	ResponseStatus           struct{ Code int }
	// RequestObject has the fields of options of a deletion, of an Eviction and of a DeviceTaintRule.
	RequestObject struct {
		Preconditions      struct{ UID string }
		GracePeriodSeconds *int64
		DeleteOptions      struct{ Preconditions struct{ UID string } }
		Spec               struct{ Taint struct{ Key, Value string } }
	}
}

// evidence are the deletions of a pod by the controller.
type evidence struct{ accepted, timedOut []time.Time }

// audited calls a function with each line of the audit log.
func (w *world) audited(t *testing.T, each func(*entry)) {
	t.Helper()
	for _, e := range testaudit.Entries[entry](t, w.AuditLog(), 0) {
		each(e)
	}
}

// deletions returns the controller's deletions by the UID of their precondition.
func (w *world) deletions(t *testing.T) map[string]*evidence {
	t.Helper()
	by := map[string]*evidence{}
	w.audited(t, func(e *entry) {
		if e.User.Username != controller.User || e.ObjectRef.Namespace != namespace {
			return
		}
		uid := e.RequestObject.Preconditions.UID
		if uid == "" || e.Verb != "delete" {
			t.Errorf("%s of %s without the UID as a precondition", e.Verb, e.ObjectRef.Name)
		}
		if by[uid] == nil {
			by[uid] = &evidence{}
		}
		switch code := e.ResponseStatus.Code; {
		case code < 300:
			by[uid].accepted = append(by[uid].accepted, e.RequestReceivedTimestamp)
		case code == 504:
			by[uid].timedOut = append(by[uid].timedOut, e.RequestReceivedTimestamp)
		}
	})
	return by
}

// ready reports whether pods can be created.
func (w *world) ready(ctx context.Context) (bool, error) {
	_, err := w.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	return err == nil, nil
}

// container is that of every pod.
func container() []corev1.Container {
	return []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
}
