package webhook_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// TestUnreadableByMode: a mode that refuses nothing does not refuse what cannot be read, either.
func TestUnreadableByMode(t *testing.T) {
	wrong := bytes.Replace(claim(1), []byte(`"exactly":{`), []byte(`"exactly":{"capacity":{"requests":{"a":"1e99999"}},`), 1)
	for mode, want := range map[v1alpha1.Mode]struct {
		allowed  bool
		warnings int
	}{v1alpha1.ModeObserve: {true, 0}, v1alpha1.ModeWarn: {true, 1}, v1alpha1.ModeEnforce: {false, 0}} {
		reviewer, err := review.New(v1alpha1.StewardConfiguration{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		server := start(t, reviewer, nil)
		got := server.review(t, "/validate", by("jane", "team-a", create("ResourceClaim", wrong)))
		if got.Allowed != want.allowed || len(got.Warnings) != want.warnings || got.Allowed && got.AuditAnnotations["unchecked"] != "error" {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

// TestUnreadableOld: an update that corrects what cannot be read passes, with a warning, and what is wrong in it is denied.
func TestUnreadableOld(t *testing.T) {
	server := start(t, enforcing(t), nil)
	wrong := bytes.Replace(claim(1), []byte(`"exactly":{`), []byte(`"exactly":{"capacity":{"requests":{"a":"1e99999"}},`), 1)
	right := bytes.Replace(claim(1), []byte(`"metadata":{`), []byte(`"metadata":{"labels":{"a":"b"},`), 1)
	for name, req := range map[string]*admissionv1.AdmissionRequest{"claim": update("ResourceClaim", wrong, right)} {
		if got := server.review(t, "/validate", by("jane", "team-a", req)); !got.Allowed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	denied := withParameters(fmt.Sprintf(nvidia, "1e4194967296"))
	if got := server.review(t, "/validate", by("jane", "team-a", update("ResourceClaim", wrong, denied))); got.Allowed || len(got.Warnings) == 0 {
		t.Errorf("a wrong correction: %+v", got)
	}
}

// A written is a write of an object, and whether it is denied.
type written struct {
	from, kind  string
	object, old map[string]any
}

// write is a request, of an object that may be written in another way.
func (e written) write(t *testing.T, text []byte) *admissionv1.AdmissionRequest {
	t.Helper()
	if e.old == nil {
		return by("jane", "team-a", create(e.kind, text))
	}
	old, err := json.Marshal(e.old)
	if err != nil {
		t.Fatal(err)
	}
	return by("jane", "team-a", update(e.kind, old, text))
}

// allWritten are the examples of the rules, and of the parameters of a driver.
func allWritten(t *testing.T) (all []written) {
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
		texts := map[string][]byte{}
		for _, file := range archive.Files {
			texts[file.Name] = file.Data
		}
		for _, file := range archive.Files {
			base, is := strings.CutSuffix(file.Name, ".yaml")
			e := written{from: filepath.Base(name) + " " + file.Name}
			if !is || strings.HasSuffix(base, ".old") || yaml.Unmarshal(file.Data, &e.object) != nil || e.object["apiVersion"] != "resource.k8s.io/v1" || len(file.Data) > 32<<10 {
				continue
			}
			if old := texts[base+".old.yaml"]; old != nil {
				if err := yaml.Unmarshal(old, &e.old); err != nil {
					t.Fatal(name, err)
				}
			}
			switch kind := e.object["kind"]; kind {
			case "ResourceClaim", "ResourceClaimTemplate", "DeviceClass":
				e.kind = kind.(string)
				all = append(all, e)
			}
		}
	}
	return slices.Concat(all, parameterExamples(t), policyExamples(t))
}

// policyExamples are claims and templates with what policies of the library look at, one each.
func policyExamples(t *testing.T) (all []written) {
	t.Helper()
	for name, text := range map[string]string{
		"any key":         `{"deviceClassName": "gpu", "tolerations": [{"operator": "Exists"}]}`,
		"any effect":      `{"deviceClassName": "gpu", "tolerations": [{"key": "example.com/health", "operator": "Exists"}]}`,
		"forever":         `{"deviceClassName": "gpu", "tolerations": [{"key": "example.com/health", "operator": "Exists", "effect": "NoExecute"}]}`,
		"a reserved key":  `{"deviceClassName": "gpu", "tolerations": [{"key": "dra-steward.io/drain", "operator": "Exists", "effect": "NoSchedule"}]}`,
		"an empty key":    `{"deviceClassName": "gpu", "tolerations": [{"key": "", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]}`,
		"admin access":    `{"deviceClassName": "gpu", "adminAccess": true, "allocationMode": "All"}`,
		"all devices":     `{"deviceClassName": "gpu", "allocationMode": "All"}`,
		"many devices":    `{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 31}`,
		"a long time":     `{"deviceClassName": "gpu", "tolerations": [{"key": "example.com/health", "operator": "Equal", "value": "bad", "effect": "NoExecute", "tolerationSeconds": 9000000}]}`,
		"what is allowed": `{"deviceClassName": "gpu", "tolerations": [{"key": "example.com/health", "operator": "Equal", "value": "slow", "effect": "NoSchedule"}]}`,
	} {
		var request map[string]any
		if err := json.Unmarshal([]byte(text), &request); err != nil {
			t.Fatal(name, err)
		}
		spec := map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "gpu", "exactly": request}}}}
		metadata := map[string]any{"name": "training", "namespace": "team-a"}
		all = append(all,
			written{from: name, kind: "ResourceClaim", object: map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}},
			written{from: name, kind: "ResourceClaimTemplate", object: map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": map[string]any{"spec": spec}}})
	}
	slices.SortFunc(all, func(a, b written) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.kind, b.kind)) })
	return all
}

// parameterExamples are the changes of a driver's parameters that the tests of its schema make, in claims.
func parameterExamples(t *testing.T) (all []written) {
	t.Helper()
	const file = "gpu.nvidia.com_GpuConfig.txt"
	text, err := os.ReadFile("../internal/parameters/testdata/mutations/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, " | ")
		if len(fields) < 3 {
			continue
		}
		e := written{from: file + " " + fields[0], kind: "ResourceClaim"}
		if err := json.Unmarshal(withParameters(fmt.Sprintf(nvidia, "1Gi")), &e.object); err != nil {
			t.Fatal(err)
		}
		config := e.object["spec"].(map[string]any)["devices"].(map[string]any)["config"].([]any)[0].(map[string]any)["opaque"].(map[string]any)["parameters"].(map[string]any)
		path, is := strings.Split(strings.TrimSpace(fields[1]), "."), true
		for _, key := range path[:len(path)-1] {
			if config, is = config[key].(map[string]any); !is {
				break
			}
		}
		var value any
		switch last := path[len(path)-1]; {
		case !is:
			continue
		case strings.TrimSpace(fields[2]) == "-":
			delete(config, last)
		case json.Unmarshal([]byte(fields[2]), &value) != nil:
			continue
		default:
			config[last] = value
		}
		all = append(all, e)
	}
	return all
}

// seeds is where cases are kept that were found: each is replayed first.
const seeds = "testdata/unreadable"

// A seed is one of them.
type seed struct {
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old,omitempty"`
	Denied bool            `json:"denied"`
}

// keep writes a case that was found.
func keep(t *testing.T, name string, req *admissionv1.AdmissionRequest, denied bool) {
	t.Helper()
	text, err := json.Marshal(seed{req.Kind.Kind, req.Object.Raw, req.OldObject.Raw, denied})
	if err == nil {
		err = os.WriteFile(filepath.Join(seeds, name+".json"), text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestUnreadableSeeds replays the cases that were found.
func TestUnreadableSeeds(t *testing.T) {
	server := start(t, enforcing(t), nil)
	files, err := filepath.Glob(seeds + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var s seed
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(name, err)
		}
		req := create(s.Kind, s.Object)
		if len(s.Old) > 0 {
			req = update(s.Kind, s.Old, s.Object)
		}
		if got := server.review(t, "/validate", by("jane", "team-a", req)); got.Allowed == s.Denied {
			t.Errorf("%s: %+v", name, got)
		}
	}
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
	ask := func(e written, text []byte) *admissionv1.AdmissionResponse {
		request := reviewOf(t, "v1", e.write(t, text))
		for begin := time.Now(); ; t.Logf("%s: no verdict after %s: %.2000s", e.from, time.Since(begin), text) {
			response, err := server.client.Post("https://"+server.address+"/validate", "application/json", bytes.NewReader(request))
			if err != nil {
				t.Logf("asks again: %v", err) // so is one that gets no answer within 20 s
				continue
			}
			answer, err := io.ReadAll(response.Body)
			if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode == http.StatusOK {
				if got := parse(t, answer).Response; got.Allowed || got.Result.Code != http.StatusTooManyRequests {
					return got
				}
			}
			t.Logf("asks again: %s, %v", response.Status, err)
		}
	}
	verdicts := map[bool][]written{}
	for _, e := range allWritten(t) {
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
	random := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("DRA_STEWARD_SEED"), 10, 64); err == nil {
		random = given
	}
	t.Logf("seed %d; %d examples are denied, %d admitted; %d objects of each", random, len(verdicts[false]), len(verdicts[true]), cases())
	for i := range cases() {
		if i%1_000 == 999 {
			t.Logf("%d objects of each", i+1)
		}
		w := writer{rand.New(rand.NewPCG(random, uint64(i))), new(bytes.Buffer), true}
		e := verdicts[false][i%len(verdicts[false])]
		w.value(w.spoiled(e.object))
		if got := ask(e, w.out.Bytes()); got.Allowed {
			t.Errorf("seed %d, %d: %s was denied, and is admitted as %s", random, i, e.from, w.out)
			keep(t, fmt.Sprint("admitted-", random, "-", i), e.write(t, w.out.Bytes()), true)
		}
		w = writer{rand.New(rand.NewPCG(random, uint64(i))), new(bytes.Buffer), false}
		e = verdicts[true][i%len(verdicts[true])]
		w.value(e.object)
		if got := ask(e, w.out.Bytes()); !got.Allowed {
			t.Errorf("seed %d, %d: %s was admitted, and is denied as %s: %v", random, i, e.from, w.out, got.Result)
			keep(t, fmt.Sprint("denied-", random, "-", i), e.write(t, w.out.Bytes()), false)
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
	// spoils writes some keys twice, first with a value that cannot be read. The last one counts.
	spoils bool
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
			if w.spoils && w.IntN(20) == 0 {
				w.text(key)
				w.out.WriteString(":" + unreadable[w.IntN(len(unreadable))] + ",")
			}
			w.text(key)
			w.out.WriteByte(':')
			if key == "requests" && w.quantities(value[key]) {
				continue
			}
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

// quantities writes the amounts that a request asks for as other numbers and texts of the same value.
func (w writer) quantities(value any) bool {
	amounts, is := value.(map[string]any)
	if !is {
		return false
	}
	w.out.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(amounts)) {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.text(name)
		w.out.WriteByte(':')
		parsed, err := resource.ParseQuantity(strings.Trim(quoted(fmt.Sprint(amounts[name])), `"`))
		n, whole := parsed.AsInt64()
		if err != nil || !whole {
			w.value(amounts[name])
			continue
		}
		fmt.Fprintf(w.out, []string{`%d`, `"%d"`, `"%d.0"`, `"%de0"`, `%d.000`, `%de0`, `%dE+00`, `"+%d"`, `"0%d"`, `"%d000m"`}[w.IntN(10)], n)
	}
	w.out.WriteByte('}')
	return true
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
