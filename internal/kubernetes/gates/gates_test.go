package gates

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"k8s.io/dynamic-resource-allocation/structured"
)

const sample = `# HELP apiserver_storage_size_bytes Size of the storage.
apiserver_storage_size_bytes{cluster="etcd"} 12
# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value.
# TYPE kubernetes_build_info gauge
kubernetes_build_info{build_date="2026-10-13T00:00:00Z",compiler="gc",git_commit="a",git_version="v1.37.1",major="1",minor="37"} 1
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 1
kubernetes_feature_enabled{name="DRAPartitionableDevices",stage="BETA"} 0
# HELP process_open_fds Files.
process_open_fds 1e+99999
`

func TestParse(t *testing.T) {
	reported, err := Parse(strings.NewReader(sample))
	if want := (Reported{map[string]bool{"DRADeviceTaints": true, "DRAPartitionableDevices": false}, "v1.37.1"}); err != nil || !reflect.DeepEqual(reported, want) {
		t.Errorf("%v, %v; want %v", reported, err, want)
	}
	line := `kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 1` + "\n"
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"nothing":               {"", ErrNone.Error()},
		"a page":                {"<html>\n", ErrNone.Error()},
		"a long line of others": {"x{a=\"" + strings.Repeat("y", 3*maxLine) + "\"} 1\n" + line, ""},
		"no newline at the end": {strings.TrimSpace(line), ""},
		"a long line":           {`kubernetes_feature_enabled{name="` + strings.Repeat("y", 2*maxLine) + `"} 1`, "longer than"},
		"too many":              {strings.Repeat(line, maxLines+1), "more than"},
		"twice":                 {line + line, ""},
		"no number":             {`kubernetes_feature_enabled{name="DRADeviceTaints"} on` + "\n", "metric kubernetes_feature_enabled"},
		"without a name":        {`kubernetes_feature_enabled{stage="BETA"} 1` + "\n", ErrNone.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			reported, err := Parse(strings.NewReader(tt.text))
			if tt.want == "" && (err != nil || !reported.Gates["DRADeviceTaints"]) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, %v; want %q", reported, err, tt.want)
			}
		})
	}
}

// TestParseStops: nothing is read after the gates, and not more than the limit before them.
func TestParseStops(t *testing.T) {
	if _, err := Parse(io.MultiReader(strings.NewReader(sample), failing{})); err != nil {
		t.Error(err)
	}
	if _, err := Parse(endless{}); err == nil || !strings.Contains(err.Error(), "not in the first 256 MiB") {
		t.Errorf("%v", err)
	}
	if _, err := Parse(failing{}); !errors.Is(err, errFailing) {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = 'x'
		if i%64 == 0 {
			into[i] = '\n'
		}
	}
	return len(into), nil
}

var errFailing = errors.New("the connection was lost")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// TestFeatures: each feature of the allocator has its gates, and no field is forgotten.
func TestFeatures(t *testing.T) {
	all := map[string]bool{}
	for _, f := range features() {
		for _, gate := range f.gates {
			all[gate] = true
		}
	}
	if got := With(all, 0, ""); len(got.Features.Set()) != len(features()) || reflect.TypeFor[structured.Features]().NumField() != len(features()) {
		t.Errorf("%+v", got)
	}
	for _, f := range features() {
		on := map[string]bool{}
		for gate := range all {
			on[gate] = false
		}
		for _, gate := range f.gates {
			on[gate] = true
		}
		if got := With(on, 0, "").Features.Set().UnsortedList(); len(got) != 1 || got[0] != strings.Join(f.gates, "+") {
			t.Errorf("%q gives %q", f.gates, got)
		}
		on[f.gates[0]] = false
		if got := With(on, 0, "").Features; got != (structured.Features{}) {
			t.Errorf("%v gives %+v", on, got)
		}
	}
}

// TestGatesThatAreNotReported count as in the defaults of the version: they are not there
// yet, or cannot be switched off any more.
func TestGatesThatAreNotReported(t *testing.T) {
	for _, minor := range []int{34, 36, 37, 40} {
		if got, want := With(map[string]bool{"Other": true}, minor, ""), Defaults(minor); got.Features != want.Features || !got.Read {
			t.Errorf("1.%d: %+v, want %+v", minor, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for minor, want := range map[int]string{
		0:  "1.37: DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions+DRAResourceClaimDeviceStatus DRADeviceTaints DRAPartitionableDevices DRAPrioritizedList",
		37: "1.37: DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions+DRAResourceClaimDeviceStatus DRADeviceTaints DRAPartitionableDevices DRAPrioritizedList",
		99: "1.37: DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions+DRAResourceClaimDeviceStatus DRADeviceTaints DRAPartitionableDevices DRAPrioritizedList",
		35: "1.35: DRAAdminAccess DRAPrioritizedList",
		20: "1.34: DRAAdminAccess DRAPrioritizedList",
	} {
		g := Defaults(minor)
		var on []string
		for _, f := range features() {
			if *f.field(&g.Features) {
				on = append(on, strings.Join(f.gates, "+"))
			}
		}
		if got := strings.TrimPrefix(g.Source, "the defaults of Kubernetes ") + ": " + strings.Join(on, " "); got != want || g.Read {
			t.Errorf("%d: %s", minor, got)
		}
	}
}

// FuzzParse: whatever a server answers, the result has only gates that stand in it.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`kubernetes_feature_enabled{name="A\"",stage=""} 1`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		reported, err := Parse(strings.NewReader(string(answer)))
		if (err == nil) != (len(reported.Gates) > 0) {
			t.Fatalf("%v, %v", reported, err)
		}
		for gate := range reported.Gates {
			if quoted := fmt.Sprintf("%q", gate); !strings.Contains(string(answer), gate) && !strings.ContainsAny(quoted, `\`) {
				t.Errorf("%q is not in the answer", gate)
			}
		}
	})
}
