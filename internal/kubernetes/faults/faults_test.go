package faults

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestOf(t *testing.T) {
	for of, want := range map[string]int{
		"v1.35.9": 0, "v1.36.0": 1, "v1.36.2": 1, "v1.36.2-gke.1234": 1, "v1.36.1+k3s1": 1, "1.36.2": 1,
		"v1.36.3": 0, "v1.36.3-eks-1": 0, "v1.36.10": 0, "v1.37.0": 0, "": 0, "unknown": 0,
	} {
		if got := Of(of, RuleExists); len(got) != want {
			t.Errorf("%q: %v", of, got)
		}
	}
	if got := Of("v1.36.1", "something else"); got != nil {
		t.Errorf("%v", got)
	}
}

// TestOfScheduler: the first versions of each fix, and the last before them, as the source code of
// these versions has it.
func TestOfScheduler(t *testing.T) {
	for of, want := range map[string]string{
		"v1.34.3":  "136269 139034 133705 135022 140438 133366 141620",
		"v1.34.4":  "139034 133705 135022 140438 133366 141620",
		"v1.35.0":  "138882 136269 139034 140438 141620",
		"v1.35.4":  "138882 139034 140438 141620",
		"v1.35.5":  "138882 139034 140438 141620",
		"v1.35.6":  "139034 140438 141620",
		"v1.36.0":  "139651 138882 139034 140438 141620",
		"v1.36.1":  "139651 138882 139034 140438 141620",
		"v1.36.2":  "139651 140438 141620",
		"v1.36.3":  "140438 141620",
		"v1.37.0":  "141620",
		"v1.37.1":  "",
		"v1.38.0":  "",
		"v1.36.12": "140438 141620",
	} {
		numbers := func(faults []Fault) string {
			return strings.ReplaceAll(strings.ReplaceAll(References(faults), "kubernetes#", ""), ",", "")
		}
		kubelet := " 141335"
		if of == "v1.34.3" || of == "v1.35.0" {
			kubelet = " 135901 141335"
		}
		if got := numbers(At(of)); got != strings.TrimSpace(want+" 141471"+kubelet) {
			t.Errorf("%s: %s; want %s 141471%s", of, got, want, kubelet)
		}
		if got := numbers(OfScheduler(of)); got != strings.TrimSpace(strings.TrimSuffix(want, "141620")) {
			t.Errorf("%s: of kube-scheduler %s; want %s", of, got, want)
		}
	}
}

// TestKnown: each fault has what a user needs, and ranges of versions in order.
func TestKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Known() {
		if seen[f.Reference] || !strings.HasPrefix(f.Reference, "kubernetes#") || f.Component == "" || f.Effect == "" || f.Remedy == "" || len(f.Versions) == 0 {
			t.Errorf("%+v", f)
		}
		seen[f.Reference] = true
		last := version.MustParseGeneric("1.0.0")
		for _, r := range f.Versions {
			if from := version.MustParseGeneric(r.From); !last.LessThan(from) {
				t.Errorf("%s: %s is not after %s", f.Reference, from, last)
			}
			if last = version.MustParseGeneric("1.999.0"); r.Fixed != "" {
				last = version.MustParseGeneric(r.Fixed)
			}
		}
	}
}

func TestReleased(t *testing.T) {
	for of, want := range map[string]bool{
		"v1.36.1": true, "1.37.2": true, "v1.36.1-gke.12": false, "v1.36.1+k3s1": false, "v1.38.0-alpha.1": false, "": false,
	} {
		if got := Released(of); got != want {
			t.Errorf("%q: %v", of, got)
		}
	}
}

func ExampleOf() {
	for _, fault := range Of("v1.36.1", RuleExists) {
		fmt.Println(fault)
	}
	// Output: kube-scheduler 1.36.0 to before 1.36.3: with the feature gate DRADeviceTaintRules it panics when a DeviceTaintRule exists and a ResourceSlice changes (kubernetes#139651); upgrade kube-scheduler to 1.36.3 first
}
