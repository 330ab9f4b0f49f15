package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestFailurePolicy: without a value, claims and templates follow the mode. With Fail, each
// write is sent to exactly one webhook: that of system users is Ignore, that of others Fail.
func TestFailurePolicy(t *testing.T) {
	ours := "system:serviceaccount:dra-steward:dra-steward-scheduler"
	for name, tt := range map[string]struct {
		values values
		fails  string // kinds
		system []string
	}{
		"observe":            {values{"mode": "observe"}, "", nil},
		"warn":               {values{"mode": "warn"}, "", nil},
		"default":            {values{"mode": "default"}, "", nil},
		"enforce":            {values{"mode": "enforce"}, "claims,templates", review.DefaultSystemUsers()},
		"enforce, Ignore":    {values{"mode": "enforce", "webhooks": values{"claims": values{"failurePolicy": "Ignore"}}}, "templates", review.DefaultSystemUsers()},
		"default, Fail":      {values{"webhooks": values{"claims": values{"failurePolicy": "Fail"}}}, "claims", review.DefaultSystemUsers()},
		"our own scheduler":  {values{"mode": "enforce", "scheduler": values{"enabled": true}}, "claims,templates", append(review.DefaultSystemUsers(), ours)},
		"other system users": {values{"mode": "enforce", "systemUsers": []any{"a", "b"}}, "claims,templates", []string{"a", "b"}},
		"no system users":    {values{"mode": "enforce", "systemUsers": []any{}}, "claims,templates", nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(with(tt.values), Options{})
			if err != nil {
				t.Fatal(err)
			}
			hooks := validatingHooks(t, objects)
			for _, kind := range []string{"claims", "templates"} {
				fails := slices.Contains(strings.Split(tt.fails, ","), kind)
				for _, user := range append([]string{"jane", "system:serviceaccount:ml:resource-claim-controller"}, tt.system...) {
					want := admissionv1.Ignore
					if fails && !slices.Contains(tt.system, user) {
						want = admissionv1.Fail
					}
					var got []string
					for _, h := range hooks {
						if strings.HasSuffix(h.Name, kind+".validate.dra-steward.io") && sendsAs(t, h, user, "", object("", one)) {
							got = append(got, fmt.Sprint(*h.FailurePolicy))
						}
					}
					if !slices.Equal(got, []string{string(want)}) {
						t.Errorf("%s by %s: %v, want %s", kind, user, got, want)
					}
				}
			}
		})
	}
}

// TestNotesNameTheExposure: the notes say for each kind what happens while no replica
// answers, and warn where tenants profit from it.
func TestNotesNameTheExposure(t *testing.T) {
	const warning = "can store what your policies deny"
	for mode, warned := range map[string]bool{"observe": false, "warn": false, "default": true, "enforce": false} {
		files, err := Manifests(with(values{"mode": mode}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		notes := files["templates/NOTES.txt"]
		if strings.Contains(notes, warning) != warned {
			t.Errorf("mode %s: warned should be %v:\n%s", mode, warned, notes)
		}
		if fails := strings.Contains(notes, "ResourceClaims          refused"); fails != (mode == "enforce") {
			t.Errorf("mode %s: claims are refused: %v\n%s", mode, fails, notes)
		}
	}
}

// TestNotesNameWhoMayAsk: the notes name what keeps strangers from asking the webhook, until it is set.
func TestNotesNameWhoMayAsk(t *testing.T) {
	for name, test := range map[string]struct {
		values values
		warned bool
	}{
		"default":         {nil, true},
		"client CA":       {values{"certificates": values{"clientCA": "-----BEGIN CERTIFICATE-----"}}, false},
		"pod networks":    {values{"networkPolicy": values{"enabled": true, "podNetworks": []any{"10.244.0.0/16"}}}, false},
		"brief answers":   {values{"webhooks": values{"briefAnswers": true}}, false},
		"no pod networks": {values{"networkPolicy": values{"enabled": true}}, true},
		"policies off":    {values{"networkPolicy": values{"podNetworks": []any{"10.244.0.0/16"}}}, true},
	} {
		files, err := Manifests(with(test.values), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if notes := files["templates/NOTES.txt"]; strings.Contains(notes, "Each pod can ask the webhook, as any user, what it allows.") != test.warned {
			t.Errorf("%s: warned should be %v:\n%s", name, test.warned, notes)
		}
	}
}

// TestNotesNameTheFaults: the notes name the known faults of kube-scheduler in the cluster's
// version, also in that of a vendor, of which helm drops the suffix.
func TestNotesNameTheFaults(t *testing.T) {
	for version, want := range map[string]string{
		"1.37.2":              "",
		"v1.36.5-gke.1234000": "Kubernetes v1.36.5. kube-scheduler of that version has known faults:\nkubernetes#140438, kubernetes#141620 (docs/faults.md).",
		"1.36.1+k3s1":         "\nkubernetes#139651, kubernetes#138882, kubernetes#139034, kubernetes#140438, kubernetes#141620 (docs/faults.md).",
		"v1.34.4":             "\nkubernetes#139034, kubernetes#133705, kubernetes#135022, kubernetes#140438, kubernetes#133366, kubernetes#141620 (docs/faults.md).",
	} {
		files, err := Manifests(with(nil), Options{KubeVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		notes := files["templates/NOTES.txt"]
		if !strings.Contains(notes, want) || strings.Contains(notes, "known faults") != (want != "") {
			t.Errorf("%s: want %q:\n%s", version, want, notes)
		}
	}
}

// TestNotes: the notes name what the mode does, the next step of the ladder, and the first
// commands, which exist.
func TestNotes(t *testing.T) {
	for mode, want := range map[string][]string{
		"observe": {"refuses nothing, warns about nothing, fills in nothing", "--set mode=warn"},
		"warn":    {"refuses nothing and evicts nothing. It warns, and it fills in defaults", "--set mode=default"},
		"default": {"refuses what contradicts the API, warns", "--set mode=enforce"},
		"enforce": {"refuses what contradicts the API or your policies and fills in defaults"},
	} {
		files, err := Manifests(with(values{"mode": mode}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		notes := files["templates/NOTES.txt"]
		for _, text := range append(want, "in mode "+mode+".", "rollout status deployment/dra-steward", "\n  dra-steward devices\n", "\n  dra-steward report -n ") {
			if !strings.Contains(notes, text) {
				t.Errorf("mode %s: the notes lack %q:\n%s", mode, text, notes)
			}
		}
		if next := strings.Contains(notes, "Next step"); next != (mode != "enforce") {
			t.Errorf("mode %s: a next step %v:\n%s", mode, next, notes)
		}
		if fills := strings.Contains(notes, "fills in nothing"); fills != (mode == "observe") {
			t.Errorf("mode %s: fills in nothing %v", mode, fills)
		}
	}
}
