package webhook_test

// The benchmarks of test/results/performance-lab.md. Each one of BenchmarkTLS sends requests by
// turns to our server and to two of controller-runtime that allow everything, so that the ratios hold on a
// busy machine as well. "noop" does not even look at the object; "typed" decodes it
// into its Go type, as every webhook does that is written with controller-runtime's
// admission.Validator.
//
//	go test ./webhook -run '^$' -bench TLS -benchtime 2000x
//	go test ./webhook -run '^$' -bench Handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// workload is what the benchmarks send.
func workload() map[string]*admissionv1.AdmissionRequest {
	full, tainted := slice(128, 32, 0), slice(64, 32, 1)
	return map[string]*admissionv1.AdmissionRequest{
		"claim":         create("ResourceClaim", typicalClaim()),
		"slice":         create("ResourceSlice", full),
		"slice-update":  update("ResourceSlice", full, full),
		"tainted-slice": update("ResourceSlice", tainted, tainted),
	}
}

// typicalClaim is a claim as it is stored: three requests, one with alternatives,
// with selectors, tolerations, a configuration and managed fields.
func typicalClaim() []byte {
	type m = map[string]any
	selectors := []any{m{"cel": m{"expression": `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))`}}}
	tolerations := []any{
		m{"key": "example.com/maintenance", "operator": "Exists", "effect": "NoSchedule"},
		m{"key": "example.com/ecc-errors", "operator": "Equal", "value": "few", "effect": "NoExecute", "tolerationSeconds": 300},
	}
	demand := func(name string) m {
		return m{"name": name, "deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2,
			"selectors": selectors, "tolerations": tolerations}
	}
	exactly := demand("")
	delete(exactly, "name")
	var claim m
	if err := json.Unmarshal(object("ResourceClaim", m{"devices": m{
		"requests": []any{m{"name": "gpu", "exactly": exactly}, m{"name": "nic", "exactly": exactly},
			m{"name": "any", "firstAvailable": []any{demand("large"), demand("small")}}},
		"constraints": []any{m{"requests": []any{"gpu", "nic"}, "matchAttribute": "resource.kubernetes.io/pcieRoot"}},
		"config": []any{m{"requests": []any{"gpu"}, "opaque": m{"driver": "gpu.example.com",
			"parameters": m{"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", "sharing": m{"strategy": "TimeSlicing"}}}}},
	}}), &claim); err != nil {
		panic(err)
	}
	claim["metadata"] = m{"name": "training", "namespace": "team-a", "uid": "e2c1f0a4-0000-4000-8000-5d2c6f0a7b11",
		"finalizers":    []any{"resource.kubernetes.io/delete-protection"},
		"managedFields": []any{m{"manager": "kubectl", "operation": "Update", "apiVersion": "resource.k8s.io/v1", "fieldsV1": claim["spec"]}}}
	data, err := json.Marshal(claim)
	if err != nil {
		panic(err)
	}
	return data
}

// contender is a server under test with how long its requests took.
type contender struct {
	name string
	*running
	sample
}

func contenders(b *testing.B) []*contender {
	b.Helper()
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	ours := start(b, review.Reviewer{}, func(s *webhook.Server) {
		s.Mutating = webhook.Mutating(webhook.Always(review.Reviewer{}), webhook.Options{Metrics: metrics})
		s.Validating = webhook.Validating(webhook.Always(review.Reviewer{}), webhook.Options{Metrics: metrics})
	})
	noop := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
	return []*contender{
		{name: "", running: ours},
		{name: "noop", running: stock(b, noop, noop)},
		{name: "typed", running: stock(b, newTyped(b), newTyped(b))},
	}
}

// typed decodes what it is asked about, and allows it.
type typed struct{ admission.Decoder }

func newTyped(b *testing.B) typed {
	b.Helper()
	scheme := runtime.NewScheme()
	if err := resourceapi.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	return typed{admission.NewDecoder(scheme)}
}

func (t typed) Handle(_ context.Context, req admission.Request) admission.Response {
	for _, raw := range []runtime.RawExtension{req.Object, req.OldObject} {
		var object runtime.Object = &resourceapi.ResourceSlice{}
		if req.Kind.Kind == "ResourceClaim" {
			object = &resourceapi.ResourceClaim{}
		}
		if len(raw.Raw) == 0 {
			continue
		}
		if err := t.DecodeRaw(raw, object); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	return admission.Allowed("")
}

// BenchmarkPolicies does the same with the whole library of policies and a claim with 32
// tolerations: with decisions that are known ("") and without ("cold"). To the one claim no
// policy objects, of the other, "warned", some have to be evaluated.
//
//	go test ./webhook -run '^$' -bench Policies -benchtime 2000x
func BenchmarkPolicies(b *testing.B) {
	all := contenders(b)[1:]
	for name, size := range map[string]int{"": 0, "cold": -1} {
		set, err := policy.Parse(b.Context(), policy.Library())
		if err != nil {
			b.Fatal(err)
		}
		engine, err := policy.NewEngine(set, policy.Settings{CacheBytes: int64(size)})
		if err != nil {
			b.Fatal(err)
		}
		reviewer := review.Reviewer{Policies: engine}
		one := &contender{name: name, running: start(b, reviewer, nil)}
		if name == "" {
			all = append([]*contender{one}, all...)
		} else {
			all = append(all, one)
		}
	}
	for name, effect := range map[string]string{"good": "NoSchedule", "warned": "NoExecute"} {
		for _, senders := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/senders=%d", name, senders), func(b *testing.B) {
				compare(b, all, "/validate", reviewOf(b, "v1", create("ResourceClaim", demandingClaim(b, effect))), senders)
			})
		}
	}
}

// BenchmarkIntake compares our server with one of controller-runtime that has the same handler:
// what it costs to limit and time requests.
//
//	go test ./webhook -run '^$' -bench Intake -benchtime 2000x
func BenchmarkIntake(b *testing.B) {
	set, err := policy.Parse(b.Context(), policy.Library())
	if err != nil {
		b.Fatal(err)
	}
	for decision, size := range map[string]int64{"known": 0, "cold": -1} {
		engine, err := policy.NewEngine(set, policy.Settings{CacheBytes: size})
		if err != nil {
			b.Fatal(err)
		}
		source := webhook.Always(review.Reviewer{Policies: engine})
		handler := webhook.Validating(source, webhook.Options{})
		all := []*contender{{running: start(b, source(), nil)}, {name: "bare", running: stock(b, handler, handler)}}
		for name, effect := range map[string]string{"good": "NoSchedule", "warned": "NoExecute"} {
			for _, senders := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/%s/senders=%d", name, decision, senders), func(b *testing.B) {
					compare(b, all, "/validate", reviewOf(b, "v1", create("ResourceClaim", demandingClaim(b, effect))), senders)
				})
			}
		}
	}
}

// demandingClaim has eight requests of four tolerations.
func demandingClaim(b *testing.B, effect string) []byte {
	b.Helper()
	var requests []any
	for i := range 8 {
		var tolerations []any
		for j := range 4 {
			tolerations = append(tolerations, map[string]any{"key": fmt.Sprintf("example.com/fault-%d", j), "operator": "Exists", "effect": effect})
		}
		requests = append(requests, map[string]any{"name": fmt.Sprintf("gpu-%d", i), "exactly": map[string]any{"deviceClassName": "gpu.example.com",
			"allocationMode": "ExactCount", "count": 1, "tolerations": tolerations}})
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": map[string]any{"name": "some", "namespace": "team"},
		"spec": map[string]any{"devices": map[string]any{"requests": requests}}})
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkTLS(b *testing.B) {
	all := contenders(b)
	for name, req := range workload() {
		for _, path := range []string{"/mutate", "/validate"} {
			for _, senders := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s%s/senders=%d", name, path, senders), func(b *testing.B) {
					compare(b, all, path, reviewOf(b, "v1", req), senders)
				})
			}
		}
	}
}

// compare sends b.N requests to each contender, in turns of a few.
func compare(b *testing.B, all []*contender, path string, body []byte, senders int) {
	const turn = 64
	for _, one := range all {
		one.turn(b, one.running, path, body, senders, turn) // opens the connection
		one.sample = sample{}
	}
	order := slices.Clone(all)
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		for _, one := range order {
			one.turn(b, one.running, path, body, senders, min(turn, left))
		}
		order = append(order[1:], order[0])
	}
	b.ReportMetric(0, "ns/op")
	for _, one := range all {
		one.report(b, one.name)
		if one.name != "" {
			b.ReportMetric(all[0].perSecond()/one.perSecond(), "of-"+one.name)
			b.ReportMetric(float64(one.cpu)/float64(all[0].cpu), "cpu-of-"+one.name)
		}
	}
}

// sample is how long requests took, each and together.
type sample struct {
	each  []time.Duration
	total time.Duration
	// cpu is what client and server have used: on a busy machine it says more than the
	// clock.
	cpu time.Duration
}

// turn sends n requests by some senders at once and adds their times.
func (s *sample) turn(b *testing.B, r *running, path string, body []byte, senders, n int) {
	times := make([]time.Duration, n)
	begin, used := time.Now(), cpuTime(b)
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for i := sender; i < n; i += senders {
				sent := time.Now()
				if err := ask(r, path, body); err != nil {
					b.Error(err)
				}
				times[i] = time.Since(sent)
			}
		})
	}
	all.Wait()
	s.total += time.Since(begin)
	s.cpu += cpuTime(b) - used
	s.each = append(s.each, times...)
}

func ask(r *running, path string, body []byte) error {
	response, err := r.client.Post("https://"+r.address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(answer), `"allowed":true`) {
		return fmt.Errorf("%d %s: %w", response.StatusCode, answer, err)
	}
	return nil
}

func (s *sample) perSecond() float64 { return float64(len(s.each)) / s.total.Seconds() }

func (s *sample) report(b *testing.B, name string) {
	prefix := ""
	if name != "" {
		prefix = name + "-"
	}
	slices.Sort(s.each)
	b.ReportMetric(s.perSecond(), prefix+"req/s")
	b.ReportMetric(float64(s.cpu.Microseconds())/float64(len(s.each)), prefix+"cpu-µs")
	for _, percent := range []int{50, 99} {
		b.ReportMetric(s.each[(len(s.each)-1)*percent/100].Seconds()*1000, fmt.Sprintf("%sp%d-ms", prefix, percent))
	}
}

// BenchmarkHandler leaves out HTTP, TLS and the AdmissionReview around the object.
func BenchmarkHandler(b *testing.B) {
	mutate, validate, _ := handlers(b, review.Reviewer{})
	for name, req := range workload() {
		for path, handle := range map[string]func(*admissionv1.AdmissionRequest) admission.Response{"mutate": mutate, "validate": validate} {
			b.Run(name+"/"+path, func(b *testing.B) {
				b.SetBytes(int64(len(req.Object.Raw)))
				b.ReportAllocs()
				for b.Loop() {
					if !handle(req).Allowed {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}
