package review_test

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

const tooManyDevices = `{"metadata":{"name":"a","namespace":"b"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":40}}]}}}`

// TestSeverities lets a site soften a rule, switch it off and leave it as it is.
func TestSeverities(t *testing.T) {
	for severity, want := range map[v1alpha1.Severity][]string{
		"":        {"error"},
		"error":   {"error"},
		"warning": {"warning"},
		"off":     nil,
	} {
		t.Run(string(severity), func(t *testing.T) {
			var c v1alpha1.StewardConfiguration
			if severity != "" {
				c.Rules = map[string]v1alpha1.Rule{"claim-devices-max": {Severity: severity}}
			}
			reviewer, err := review.New(c)
			if err != nil {
				t.Fatal(err)
			}
			reviewer.InCluster = true // leaves the rules that a complete claim needs offline
			answer, err := reviewer.Validate(review.Request{
				Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), Object: []byte(tooManyDevices), Now: time.Now(),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, finding := range answer.Findings {
				got = append(got, finding.Severity.String())
			}
			if strings.Join(got, ",") != strings.Join(want, ",") || answer.Denied() != (len(want) > 0 && want[0] == "error") {
				t.Errorf("got %v, denied %v, want %v", got, answer.Denied(), want)
			}
		})
	}
}

func TestUnknownSeverities(t *testing.T) {
	_, err := review.New(v1alpha1.StewardConfiguration{Rules: map[string]v1alpha1.Rule{
		"claim-device-max": {Severity: "off"}, "claim-devices-max": {Severity: "deny"},
	}})
	for _, want := range []string{`rules[claim-device-max]: Invalid value: "claim-device-max": there is no such rule`, `rules[claim-devices-max].severity: Unsupported value: "deny": supported values: "error", "warning", "audit", "off"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
