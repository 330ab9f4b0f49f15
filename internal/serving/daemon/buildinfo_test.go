package daemon

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBuildInfo(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if err := RegisterBuildInfo(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 1 {
		t.Fatalf("got %v, %v", families, err)
	}
	m := families[0].Metric[0]
	if m.GetGauge().GetValue() != 1 || m.Label[0].GetValue() == "" || m.Label[1].GetValue() != runtime.Version() || m.Label[2].GetValue() == "" {
		t.Errorf("got %v", m)
	}
}
