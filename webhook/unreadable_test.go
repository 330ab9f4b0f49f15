package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

const nvidia = `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultPinnedDeviceMemoryLimit":"%s"}}}`

func withParameters(parameters string) []byte {
	return object("ResourceClaim", map[string]any{"devices": map[string]any{
		"requests": []any{map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": "gpu.nvidia.com"}}},
		"config":   []any{map[string]any{"opaque": map[string]any{"driver": "gpu.nvidia.com", "parameters": json.RawMessage(parameters)}}},
	}})
}

func enforcing(t *testing.T) review.Reviewer {
	t.Helper()
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.Policies, err = policy.NewEngine(set, policy.Settings{}); err != nil {
		t.Fatal(err)
	}
	return reviewer
}

// TestStallingNumbers: a number that takes minutes to parse is refused at once, however it is written, and harms no other tenant.
func TestStallingNumbers(t *testing.T) {
	server := start(t, enforcing(t), func(s *webhook.Server) { s.Bounds = webhook.Bounds{Slots: 4, Timeout: 5 * time.Second} })
	var flood sync.WaitGroup
	for i, number := range []string{"1e4194967296", "1e-999999999", `1\u0065-999999999`, "1E+4292967296", `\u00a01e-99999999\t`, strings.Repeat("1", 9000)} {
		flood.Go(func() {
			got := server.review(t, "/validate", by("jane", fmt.Sprint("team-", i%2), create("ResourceClaim", withParameters(fmt.Sprintf(nvidia, number)))))
			if got.Allowed || !strings.Contains(got.Result.Message, "defaultPinnedDeviceMemoryLimit") {
				t.Errorf("%.40s: %+v", number, got)
			}
		})
	}
	flood.Wait()
	for range 4 {
		if got := server.review(t, "/validate", by("joe", "team-b", create("ResourceClaim", claim(1)))); !got.Allowed {
			t.Errorf("another tenant's claim is refused: %v", got.Result)
		}
	}
}

// TestUnreadableParameters: what a schema cannot be compared with is denied, with its place.
func TestUnreadableParameters(t *testing.T) {
	server := start(t, enforcing(t), nil)
	long := "0." + strings.Repeat("0", 70) + "1"
	for parameters, want := range map[string]string{
		strings.Replace(fmt.Sprintf(nvidia, "1Gi"), `{"strategy"`, `{"x":1e-9999,"strategy"`, 1):       "parameters.sharing.x",
		`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":5,"x":` + long + `}`: "must be object",
		`[]`: "must be a JSON object", `"x"`: "must be a JSON object",
	} {
		if got := server.review(t, "/validate", by("jane", "team-a", create("ResourceClaim", withParameters(parameters)))); got.Allowed || !strings.Contains(got.Result.Message, want) {
			t.Errorf("%.200s: %+v, want %q", parameters, got, want)
		}
	}
}

// TestUnreadableAndUnchanged: what cannot be read stops neither the release of a finalizer nor a status, and is denied if
// anything else changes.
func TestUnreadableAndUnchanged(t *testing.T) {
	server := start(t, enforcing(t), nil)
	stored := bytes.Replace(claim(1), []byte(`"exactly":{`), []byte(`"exactly":{"capacity":{"requests":{"a":"1e99999"}},`), 1)
	held := bytes.Replace(stored, []byte(`"metadata":{`), []byte(`"metadata":{"finalizers":["example.com/a"],`), 1)
	labelled := bytes.Replace(stored, []byte(`"metadata":{`), []byte(`"metadata":{"labels":{"a":"b"},`), 1)
	changed := bytes.Replace(stored, []byte("1e99999"), []byte("1e99998"), 1)
	status := update("ResourceClaim", stored, changed)
	status.SubResource = "status"
	for name, test := range map[string]struct {
		req     *admissionv1.AdmissionRequest
		allowed bool
	}{
		"finalizer": {update("ResourceClaim", held, stored), true}, "status": {status, true},
		"label": {update("ResourceClaim", stored, labelled), false}, "spec": {update("ResourceClaim", stored, changed), false}, "creation": {create("ResourceClaim", stored), false},
	} {
		got := server.review(t, "/validate", by("jane", "team-a", test.req))
		if got.Allowed != test.allowed || got.Allowed && (len(got.Warnings) != 1 || got.AuditAnnotations["unchecked"] != "error") {
			t.Errorf("%s: %+v", name, got)
		}
		if !got.Allowed && !strings.Contains(got.Result.Message, "spec.devices.requests[0].exactly.capacity.requests[a]") {
			t.Errorf("%s: %s", name, got.Result.Message)
		}
	}
}

// A ruleExample is an object of the rules' examples.
type ruleExample struct {
	from, kind string
	object     map[string]any
}

func ruleExamples(t *testing.T) (all []ruleExample) {
	t.Helper()
	files, err := filepath.Glob("../pkg/validate/examples/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			base, is := strings.CutSuffix(file.Name, ".yaml")
			old := slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return f.Name == base+".old.yaml" })
			var object map[string]any
			if !is || old || yaml.Unmarshal(file.Data, &object) != nil || object["apiVersion"] != "resource.k8s.io/v1" || len(file.Data) > 32<<10 {
				continue
			}
			switch kind := object["kind"]; kind {
			case "ResourceClaim", "ResourceClaimTemplate", "DeviceClass":
				all = append(all, ruleExample{filepath.Base(name) + " " + file.Name, kind.(string), object})
			}
		}
	}
	return all
}

// cases is how many objects are generated.
func cases() int {
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		return 100_000
	}
	return 200
}

// TestUnreadableAdmitsNothing: no object that is denied is admitted because something unreadable is added to it, and none
// that is admitted is denied because it is written in another way. DRA_STEWARD_LONG makes 100,000 of each.
func TestUnreadableAdmitsNothing(t *testing.T) {
	server := start(t, enforcing(t), func(s *webhook.Server) { s.Bounds.Timeout = time.Minute }) // a busy machine is no verdict
	ask := func(e ruleExample, text []byte) *admissionv1.AdmissionResponse {
		return server.review(t, "/validate", by("jane", "team-a", create(e.kind, text)))
	}
	verdicts := map[bool][]ruleExample{}
	for _, e := range ruleExamples(t) {
		text, err := json.Marshal(e.object)
		if err != nil {
			t.Fatal(err)
		}
		allowed := ask(e, text).Allowed
		verdicts[allowed] = append(verdicts[allowed], e)
	}
	if len(verdicts[false]) < 10 || len(verdicts[true]) < 50 {
		t.Fatalf("%d examples are denied, %d admitted", len(verdicts[false]), len(verdicts[true]))
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d; %d examples are denied, %d admitted; %d objects of each", seed, len(verdicts[false]), len(verdicts[true]), cases())
	for i := range cases() {
		w := writer{rand.New(rand.NewPCG(seed, uint64(i))), new(bytes.Buffer)}
		e := verdicts[false][i%len(verdicts[false])]
		w.value(w.spoiled(e.object))
		if got := ask(e, w.out.Bytes()); got.Allowed {
			t.Errorf("seed %d, %d: %s was denied, and is admitted as %s", seed, i, e.from, w.out)
		}
		w = writer{rand.New(rand.NewPCG(seed, uint64(i))), new(bytes.Buffer)}
		e = verdicts[true][i%len(verdicts[true])]
		w.value(e.object)
		if got := ask(e, w.out.Bytes()); !got.Allowed {
			t.Errorf("seed %d, %d: %s was admitted, and is denied as %s: %v", seed, i, e.from, w.out, got.Result)
		}
		if t.Failed() {
			return
		}
	}
}

// A writer writes JSON in one of the many ways that mean the same.
type writer struct {
	*rand.Rand
	out *bytes.Buffer
}

func (w writer) space() { w.out.WriteString([]string{"", "", "", " ", "\n", "\t "}[w.IntN(6)]) }

func (w writer) value(value any) {
	w.space()
	switch value := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		w.out.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.text(key)
			w.out.WriteByte(':')
			w.value(value[key])
		}
		w.out.WriteByte('}')
	case []any:
		w.out.WriteByte('[')
		for i, item := range value {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.value(item)
		}
		w.out.WriteByte(']')
	case string:
		w.text(value)
	case json.RawMessage:
		w.out.Write(value)
	default:
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		w.out.Write(text)
	}
	w.space()
}

// text escapes some letters. The decoder of quantities reads none, so no number has them.
func (w writer) text(text string) {
	if text == "" || strings.ContainsAny(text[:1], "0123456789+-.") {
		w.out.WriteString(quoted(text))
		return
	}
	w.out.WriteByte('"')
	for _, r := range text {
		if r < 0x10000 && w.IntN(8) == 0 {
			fmt.Fprintf(w.out, `\u%04x`, r)
			continue
		}
		part := quoted(string(r))
		w.out.WriteString(part[1 : len(part)-1])
	}
	w.out.WriteByte('"')
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// unreadable are values that a reader may stumble over.
var unreadable = []string{
	`1e4194967296`, `"1e4194967296"`, `"1\u0065-999999999"`, `1e-999999999`, `0.` + strings.Repeat("0", 80) + `1`, strings.Repeat("1", 3000), `-0.0e-1000000`, `1E+99999`,
	`"\ud800"`, `"\u0000"`, `null`, `[]`, `[[[[[[[[1e-9999]]]]]]]]`, `{"a":1,"a":1e-9999}`, `{"":{"":"1e-99999"}}`, `"` + strings.Repeat(`\u0031`, 2000) + `"`,
	strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000), `{"kind":1e-9999}`, `{"kind":"GpuConfig","apiVersion":"resource.nvidia.com/v1beta1","x":1e-9999}`, `18446744073709551616`, `true`,
}

// spoiled is a copy of an object with unreadable parts.
func (w writer) spoiled(object map[string]any) map[string]any {
	var all map[string]any
	if text, err := json.Marshal(object); err != nil || json.Unmarshal(text, &all) != nil {
		panic(err)
	}
	for range 1 + w.IntN(2) {
		w.spoil(all)
	}
	return all
}

// spoil adds an unreadable value somewhere: as a field, as a quantity or as parameters.
func (w writer) spoil(object map[string]any) {
	bad := json.RawMessage(unreadable[w.IntN(len(unreadable))])
	var objects []map[string]any
	var parameters []map[string]any
	var find func(any)
	find = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			objects = append(objects, value)
			if _, is := value["parameters"]; is {
				parameters = append(parameters, value)
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				find(value[key])
			}
		case []any:
			for _, item := range value {
				find(item)
			}
		}
	}
	find(object)
	at := objects[w.IntN(len(objects))]
	switch n := w.IntN(4); {
	case n == 0 && len(parameters) > 0:
		if inner, is := parameters[w.IntN(len(parameters))]["parameters"].(map[string]any); is && len(inner) > 0 { // parameters that are not empty may be right
			inner["unreadable"] = bad
		}
	case n == 1 && at["deviceClassName"] != nil && at["capacity"] == nil:
		at["capacity"] = map[string]any{"requests": map[string]any{"memory": bad}}
	case n == 2:
		if list, is := at["config"].([]any); is {
			at["config"] = append(list, map[string]any{"opaque": map[string]any{"driver": "gpu.nvidia.com", "parameters": bad}})
		}
	default:
		at["unreadable"] = bad
	}
}
