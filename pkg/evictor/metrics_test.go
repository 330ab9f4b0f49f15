package evictor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// values are those of a metric, by its labels.
func (b *bubble) values(metric string) map[string]float64 {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, label := range one.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[strings.Join(labels, " ")] = valueOf(one)
		}
	}
	return values
}

func valueOf(m *dto.Metric) float64 {
	if m.GetHistogram() != nil {
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// TestMetrics: what KEP-5055 and the issue ask for is counted, under the labels that the
// page says.
func TestMetrics(t *testing.T) {
	objects := append(both(podOn("ns", "now", "gpu-0")), both(podOn("ns", "later", "gpu-0", tolerate(noExecute, new(int64(3600)))))...)
	objects = append(objects, sliceOf(1), ruleOn("rule", "gpu-0", seconds(0)))
	inBubble(t, full, objects, func(b *bubble) {
		b.pass(time.Minute)
		for metric, want := range map[string]map[string]float64{
			"dra_steward_evictor_pod_deletions_total":           {"": 1},
			"dra_steward_evictor_pod_deletion_duration_seconds": {"": 1},
			"dra_steward_evictor_evictions_total":               {"gpu.example.com rule deleted": 1},
			"dra_steward_evictor_rule_evictions_total":          {"deleted rule": 1},
			"dra_steward_evictor_pods":                          {"held": 0, "observed": 0, "paused": 0, "planned": 1},
			"dra_steward_evictor_paused_causes":                 {"": 0},
		} {
			if got := b.values(metric); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", metric, got, want)
			}
		}
		for _, metric := range []string{"dra_steward_evictor_decision_seconds", "dra_steward_evictor_rule_status_writes_total"} {
			if got := b.values(metric); len(got) != 1 || got[""]+got["written"] == 0 {
				t.Errorf("%s: %v", metric, got)
			}
		}
	})
}

// TestRuleLabelIsBounded: 60 rules have 50 names and one for the others, and a rule that
// is deleted makes room.
func TestRuleLabelIsBounded(t *testing.T) {
	const metric = "dra_steward_evictor_rule_evictions_total"
	objects := append(both(podOn("ns", "pod", "gpu-0")), runtime.Object(sliceOf(1)))
	for i := range 60 {
		objects = append(objects, ruleOn(fmt.Sprint("rule-", i), "gpu-0", seconds(0)))
	}
	inBubble(t, full, objects, func(b *bubble) {
		b.pass(time.Second)
		got := b.values(metric)
		if len(got) != 51 || got["deleted _other"] != 10 {
			t.Errorf("%d series, %v for the others", len(got), got["deleted _other"])
		}
		b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule-0", metav1.DeleteOptions{}))
		b.createRule(ruleOn("rule-60", "gpu-1", seconds(0)))
		b.comesOn("ns", "next", "gpu-1")
		b.pass(time.Minute)
		after := b.values(metric)
		if _, gone := after["deleted rule-0"]; gone || after["deleted rule-60"] != 1 {
			t.Errorf("rule-0 still counts: %t; rule-60: %v", gone, after["deleted rule-60"])
		}
	})
}
