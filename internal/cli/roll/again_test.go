package roll

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
)

// existing serves a roll that exists. The first write conflicts with one of the controller.
func existing(t *testing.T, r *v1alpha1.DeviceRoll) (_ *ownclient.RollClient, writes *int) {
	writes = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		refuse := func(reason metav1.StatusReason) {
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: http.StatusConflict})
		}
		switch request.Method {
		case http.MethodPost:
			refuse(metav1.StatusReasonAlreadyExists)
			return
		case http.MethodPut:
			if *writes++; *writes == 1 {
				refuse(metav1.StatusReasonConflict)
				return
			}
			*r = v1alpha1.DeviceRoll{}
			_ = json.NewDecoder(request.Body).Decode(r)
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	t.Cleanup(server.Close)
	client, err := ownclient.NewRollClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, writes
}

// halfway is a roll with settings, and its proof.
func halfway() (*v1alpha1.DeviceRoll, v1alpha1.RollProof) {
	r := &v1alpha1.DeviceRoll{TypeMeta: metav1.TypeMeta{Kind: "DeviceRoll", APIVersion: v1alpha1.APIVersion}, ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	proof := v1alpha1.RollProof{Namespace: "proofs", DeviceClassName: "gpu", Image: "proof:1", Command: []string{"true"}}
	r.Spec = v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", DriverPods: &v1alpha1.RollDriverPods{Namespace: "gpu", Labels: map[string]string{"app": "driver"}},
		AtATime: ptr.To[int32](2), PerLabel: "topology.kubernetes.io/zone", Canary: 1, Proof: proof.DeepCopy(), Continue: 3}
	r.Spec.Drain.EvictionsPerMinute, r.Spec.Timeouts.Drain = ptr.To[int32](30), &metav1.Duration{Duration: time.Hour}
	return r, proof
}

// TestAgain: the same command again writes the settings whose flags are given, and keeps the others.
func TestAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		give func(*options)
		want func(*v1alpha1.DeviceRoll)
		err  string
	}{
		"nothing": {func(o *options) { o.changed = given() }, func(*v1alpha1.DeviceRoll) {}, ""},
		"an acknowledgement": {func(o *options) { o.changed, o.Acknowledged = given("acknowledge"), "pods<=40" },
			func(r *v1alpha1.DeviceRoll) {
				r.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=40"}
			}, ""},
		"numbers": {func(o *options) {
			o.changed, o.canary, o.atATime, o.Rate = given("canary", "at-a-time", "rate"), 0, 4, 6
		}, func(r *v1alpha1.DeviceRoll) {
			r.Spec.Canary, r.Spec.AtATime, r.Spec.Drain.EvictionsPerMinute = 0, ptr.To[int32](4), ptr.To[int32](6)
		}, ""},
		"timeouts": {func(o *options) { o.changed, o.timeouts[2] = given("drain-timeout", "work-timeout"), time.Minute },
			func(r *v1alpha1.DeviceRoll) {
				r.Spec.Timeouts = v1alpha1.RollTimeouts{Work: &metav1.Duration{Duration: time.Minute}}
			}, ""},
		"no label":      {func(o *options) { o.changed = given("per-label") }, func(r *v1alpha1.DeviceRoll) { r.Spec.PerLabel = "" }, ""},
		"a new image":   {func(o *options) { o.proof.Image = "proof:2" }, func(r *v1alpha1.DeviceRoll) { r.Spec.Proof.Image = "proof:2" }, ""},
		"a namespace":   {func(o *options) { o.proof.Namespace = "other" }, nil, `gpu already exists with --proof-namespace "proofs", which stays as it was created`},
		"other pods":    {func(o *options) { o.driverPods = "gpu/app=other" }, nil, "gpu already exists for other work"},
		"a wrong limit": {func(o *options) { o.changed, o.Acknowledged = given("acknowledge"), "pods" }, nil, "--acknowledge"},
	} {
		r, proof := halfway()
		want := r.DeepCopy()
		o := &options{name: "gpu", driverPods: "gpu/app=driver", proof: proof, changed: given("proof-namespace", "proof-class", "proof-image")}
		o.proof.Command = nil
		tt.give(o)
		client, writes := existing(t, r)
		wanted, err := o.wanted([]string{"gpu.example.com"})
		var out bytes.Buffer
		if err == nil {
			_, err = o.create(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, wanted)
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || *writes > 0 {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		if tt.want(want); err != nil || !equality.Semantic.DeepEqual(r, want) || (*writes > 0) != strings.Contains(out.String(), "deviceroll gpu changed") {
			t.Errorf("%s: %v; %d writes; it said %q; the roll is %+v", name, err, *writes, &out, r)
		}
	}
}
