package campaign

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: resource.k8s.io, resources: [resourceslices]}]
- level: Metadata
  users: ["system:serviceaccount:dra-steward:dra-steward", "system:serviceaccount:dra-steward:dra-steward-controller"]
- level: None
`

// A world is a cluster and its administrator.
type world struct {
	kubernetes.Interface
	*envtest.Cluster

	mutex sync.Mutex
	// done counts operations by name; history are operations and faults with their times.
	done    map[string]int
	history []string
}

func start(t *testing.T) *world {
	t.Helper()
	cluster, err := envtest.Start(t.Context(), envtest.Options{
		Kubernetes: "1.37", AuditPolicy: auditPolicy, DeviceTaintRules: true,
		APIServerArgs: map[string][]string{"audit-log-maxsize": {"4000"}}, // one file has it all
		Dir:           t.TempDir(), Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &world{Interface: kubernetes.NewForConfigOrDie(cluster.Config()), Cluster: cluster, done: map[string]int{}}
}

// write sends a request until it is answered.
func (w *world) write(ctx context.Context, request func(context.Context) error) error {
	_, err := longrun.Write(ctx, request)
	return err
}

// slices are those of a driver, or of all ("").
func (w *world) slices(ctx context.Context, driver string) (all []resourceapi.ResourceSlice, err error) {
	var options metav1.ListOptions
	if driver != "" {
		options.FieldSelector = resourceapi.ResourceSliceSelectorDriver + "=" + driver
	}
	err = w.write(ctx, func(ctx context.Context) error {
		list, err := w.ResourceV1().ResourceSlices().List(ctx, options)
		if err == nil {
			all = list.Items
		}
		return err
	})
	return all, err
}

// deleteSlices deletes slices by hand.
func (w *world) deleteSlices(ctx context.Context, all []resourceapi.ResourceSlice) error {
	for _, s := range all {
		err := w.write(ctx, func(ctx context.Context) error {
			err := w.ResourceV1().ResourceSlices().Delete(ctx, s.Name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// note keeps an operation or fault for the case of a difference.
func (w *world) note(name, format string, args ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.done[name]++
	w.history = append(w.history, time.Now().UTC().Format("15:04:05.000 ")+name+" "+fmt.Sprintf(format, args...))
}

// operations are as many as there were, faults excepted.
func (w *world) operations() (n int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for name, count := range w.done {
		if !strings.HasPrefix(name, faultPrefix) {
			n += count
		}
	}
	return n
}

func (w *world) operationList() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.done)) {
		if !strings.HasPrefix(name, faultPrefix) {
			parts = append(parts, fmt.Sprintf("%d %s", w.done[name], name))
		}
	}
	return strings.Join(parts, ", ")
}

// lately is the history since a time.
func (w *world) lately(since time.Time) (lines []string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	from := since.UTC().Format("15:04:05.000")
	for _, line := range w.history {
		if line >= from {
			lines = append(lines, line)
		}
	}
	return lines
}
