package config_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
)

// TestBareOff reads off without quotes, which is a boolean in YAML.
func TestBareOff(t *testing.T) {
	c, err := config.Parse("site.yaml", []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"+
		"defaults: {finalizer: off}\nrules: {claim-devices-max: {severity: off}}\n"))
	if err != nil || c.Defaults.Finalizer != v1alpha1.FinalizerOff || c.Rules["claim-devices-max"].Severity != "off" {
		t.Errorf("got %+v, %v", c, err)
	}
}
