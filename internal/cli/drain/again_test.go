package drain

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
)

func existing(t *testing.T, d v1alpha1.DeviceDrain) (*ownclient.DrainClient, *[]v1alpha1.DeviceDrain) {
	d.TypeMeta = metav1.TypeMeta{Kind: v1alpha1.DeviceDrainKind, APIVersion: v1alpha1.APIVersion}
	written := &[]v1alpha1.DeviceDrain{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodPost:
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict})
			return
		case http.MethodPut:
			_ = json.NewDecoder(r.Body).Decode(&d)
			*written = append(*written, d)
		}
		_ = json.NewEncoder(w).Encode(d)
	}))
	t.Cleanup(server.Close)
	client, err := ownclient.NewDrainClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, written
}

// TestDrainedBefore: a drain that has lifted its cordon says nothing about its devices now.
func TestDrainedBefore(t *testing.T) {
	spec := v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}, AtEnd: v1alpha1.EndUncordon}
	last := v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}, Spec: spec}
	last.Status.CompletionTime = &metav1.Time{Time: time.Now().Add(-7 * 24 * time.Hour)}
	last.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainDrained, Status: metav1.ConditionTrue, Reason: "Drained", Message: "no claim holds the devices"}}
	client, _ := existing(t, last)
	var out bytes.Buffer
	streams := cmdutil.Streams{Out: &out, Err: &out}
	o := drainOptions{Drain: clusterwrite.Drain{Uncordon: true}, wait: true, changed: func(flag string) bool { return flag == "uncordon" }}
	wanted := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}, Spec: spec}
	d, err := o.createOrResume(t.Context(), streams, client, wanted)
	if err == nil {
		err = o.follow(t.Context(), streams, client, d.Name)
	}
	if err == nil {
		t.Errorf("exit code 0: drained; it said\n%s", out.String())
	}
}

// TestSwitchedOff: flags that switch something off count, too.
func TestSwitchedOff(t *testing.T) {
	most := int32(5)
	there := v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}, Spec: v1alpha1.DeviceDrainSpec{MaxPerNamespace: &most,
		PodsWithoutController: v1alpha1.EvictPods, AtEnd: v1alpha1.EndUncordon, Deadline: &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Hour}, Action: v1alpha1.DeadlineDelete}}}
	client, written := existing(t, there)
	var out bytes.Buffer
	o := drainOptions{changed: func(flag string) bool {
		return slices.Contains([]string{"evict-pods-without-controller", "uncordon", "max-per-namespace", "deadline"}, flag)
	}}
	_, err := o.createOrResume(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}})
	if err != nil || len(*written) == 0 {
		t.Errorf("%v; nothing was written, and it said\n%s", err, out.String())
	}
}

// TestKept: a flag that cannot change a drain that exists is refused, and one that asks for what it has is
// not.
func TestKept(t *testing.T) {
	plain := v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}}
	noted := v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0", Annotations: map[string]string{v1alpha1.ReasonAnnotation: "fan", v1alpha1.TicketAnnotation: "OPS-1"}},
		Spec: v1alpha1.DeviceDrainSpec{Cordon: &v1alpha1.DrainCordon{Key: "example.com/drain", Value: "a"}}}
	for name, tt := range map[string]struct {
		there v1alpha1.DeviceDrain
		o     drainOptions
		want  string
	}{
		"nothing":             {noted, drainOptions{}, ""},
		"the same":            {noted, drainOptions{key: "example.com/drain", value: "a", reason: "fan", ticket: "OPS-1"}, ""},
		"the same by default": {plain, drainOptions{key: v1alpha1.DrainTaintKey, value: "gpu-0"}, ""},
		"another key":         {plain, drainOptions{key: "example.com/drain"}, `gpu-0 already exists with --cordon-key "dra-steward.io/drain", which stays`},
		"another value":       {noted, drainOptions{value: "b"}, `--cordon-value "a"`},
		"another reason":      {noted, drainOptions{reason: "bearing"}, `--reason "fan"`},
		"a ticket":            {plain, drainOptions{ticket: "OPS-2"}, `--ticket "", which stays as it was created: leave the flag out, or choose another --name`},
	} {
		client, written := existing(t, tt.there)
		tt.o.changed = func(string) bool { return false }
		_, err := tt.o.createOrResume(t.Context(), cmdutil.Streams{Out: io.Discard, Err: io.Discard}, client, &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}})
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) || len(*written) > 0 {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestActionWithoutDeadline: an action needs a time.
func TestActionWithoutDeadline(t *testing.T) {
	o := drainOptions{Drain: clusterwrite.Drain{Action: string(v1alpha1.DeadlineDelete)}, changed: func(flag string) bool { return flag == "deadline-action" }}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "--deadline-action: add --deadline") {
		t.Error(err)
	}
	o.Deadline = time.Hour
	if err := o.check(); err != nil {
		t.Error(err)
	}
}
