package chart

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestGuardConditions writes every pair of rules of a small world, before any timeAdded: what the
// API server sends to the guard is what [guard.Widens] calls wider, and nothing else.
func TestGuardConditions(t *testing.T) {
	h := hookOf(t, "taintrules.guard.dra-steward.io")
	d, other, p := "d", "e", "p"
	now := time.Unix(1e9, 0)
	selectors := []*resourceapi.DeviceTaintSelector{nil, {}, {Driver: &d}, {Driver: &other}, {Pool: &p}, {Driver: &d, Pool: &p}, {Driver: &d, Pool: &p, Device: &d}}
	var rules []*resourceapi.DeviceTaintRule
	for _, selector := range selectors {
		for _, effect := range []resourceapi.DeviceTaintEffect{"None", "NoSchedule", "NoExecute"} {
			rules = append(rules, guardRule(selector, resourceapi.DeviceTaint{Key: "k", Effect: effect}))
		}
		rules = append(rules, guardRule(selector, resourceapi.DeviceTaint{Key: "k", Value: "v", Effect: "NoExecute"}),
			guardRule(selector, resourceapi.DeviceTaint{Key: "l", Effect: "NoExecute"}))
		for hours := range 2 {
			waits := resourceapi.DeviceTaint{Key: "k", Effect: "NoExecute", TimeAdded: &metav1.Time{Time: now.Add(time.Duration(hours+1) * time.Hour)}}
			rules = append(rules, guardRule(selector, waits))
		}
	}
	sent := 0
	for _, rule := range rules {
		for _, old := range append(rules, nil) {
			before := ""
			if old != nil {
				before = manifest(t, old)
			}
			got, want := sends(t, h, before, manifest(t, rule)), guard.Widens(old, rule, now)
			if got != want {
				t.Errorf("from %s to %s: sent is %v, want %v", before, manifest(t, rule), got, want)
			}
			if got {
				sent++
			}
		}
	}
	t.Logf("%d of %d writes are sent to the guard", sent, len(rules)*(len(rules)+1))
}

// TestGuardNeverSees what stops an eviction, and what does not concern it.
func TestGuardNeverSees(t *testing.T) {
	const rule = `spec: {deviceSelector: %s, taint: {key: k, effect: %s}}`
	for name, tt := range map[string]struct {
		hook, old, new string
		sent           bool
	}{
		"stopped":           {"taintrules", object("", fmt.Sprintf(rule, "{}", "NoExecute")), object("", fmt.Sprintf(rule, "{}", "None")), false},
		"applied again":     {"taintrules", object("", fmt.Sprintf(rule, "{}", "NoExecute")), object("labels: {a: b}", fmt.Sprintf(rule, "{}", "NoExecute")), false},
		"other timeAdded":   {"taintrules", object("", fmt.Sprintf(rule, "{}", "NoExecute, timeAdded: '2026-01-02T03:04:05Z'")), object("", fmt.Sprintf(rule, "{}", "NoExecute, timeAdded: '2026-01-02T03:04:04Z'")), true},
		"stopped later":     {"taintrules", object("", fmt.Sprintf(rule, "{}", "NoExecute, timeAdded: '2026-01-02T03:04:05Z'")), object("", fmt.Sprintf(rule, "{}", "None, timeAdded: '2026-01-02T03:04:06Z'")), false},
		"being deleted":     {"taintrules", object(deleting, fmt.Sprintf(rule, "{}", "None")), object(deleting, fmt.Sprintf(rule, "{}", "NoExecute")), true},
		"its finalizer":     {"taintrules", object(deleting+"\n"+other, fmt.Sprintf(rule, "{}", "NoExecute")), object(deleting, fmt.Sprintf(rule, "{}", "NoExecute")), false},
		"class of 1.34":     {"taintrules", object("", fmt.Sprintf(rule, "{deviceClassName: a}", "NoExecute")), object("", fmt.Sprintf(rule, "{}", "NoExecute")), true},
		"narrowed by class": {"taintrules", object("", fmt.Sprintf(rule, "{}", "NoExecute")), object("", fmt.Sprintf(rule, "{deviceClassName: a}", "NoExecute")), false},

		"drain":               {"drains", "", object("", "spec: {selector: {driver: d}}"), true},
		"paused drain":        {"drains", "", object("", "spec: {selector: {driver: d}, paused: true}"), false},
		"drain as a dry run":  {"drains", "", object("", "spec: {selector: {driver: d}, dryRun: true}"), false},
		"drain goes on":       {"drains", object("", "spec: {paused: true}"), object("", "spec: {paused: false}"), true},
		"drain is made real":  {"drains", object("", "spec: {dryRun: true}"), object("", "spec: {}"), true},
		"drain is paused":     {"drains", object("", "spec: {}"), object("", "spec: {paused: true}"), false},
		"slower":              {"drains", object("", "spec: {}"), object("", "spec: {evictionsPerMinute: 1}"), false},
		"faster":              {"drains", object("", "spec: {evictionsPerMinute: 1}"), object("", "spec: {evictionsPerMinute: 2}"), true},
		"without a rate":      {"drains", object("", "spec: {evictionsPerMinute: 1}"), object("", "spec: {}"), true},
		"at the same rate":    {"drains", object("", "spec: {evictionsPerMinute: 2}"), object("", "spec: {evictionsPerMinute: 2}"), false},
		"other windows":       {"drains", object("", "spec: {windows: [{from: '10:00', to: '11:00'}]}"), object("", "spec: {windows: [{from: '22:00', to: '11:00'}]}"), true},
		"without windows":     {"drains", object("", "spec: {windows: [{from: '10:00', to: '11:00'}]}"), object("", "spec: {}"), true},
		"with windows":        {"drains", object("", "spec: {}"), object("", "spec: {windows: [{from: '10:00', to: '11:00'}]}"), true},
		"the same windows":    {"drains", object("", "spec: {windows: [{from: '10:00', to: '11:00'}]}"), object("labels: {a: b}", "spec: {windows: [{from: '10:00', to: '11:00'}]}"), false},
		"windows of a paused": {"drains", object("", "spec: {}"), object("", "spec: {paused: true, windows: [{from: '10:00', to: '11:00'}]}"), false},
		"drain being deleted": {"drains", object(deleting, "spec: {paused: true}"), object(deleting, "spec: {}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if sent := sends(t, hookOf(t, tt.hook+".guard.dra-steward.io"), tt.old, tt.new); sent != tt.sent {
				t.Errorf("sent is %v", sent)
			}
		})
	}
}

func hookOf(t *testing.T, name string) hook {
	t.Helper()
	for _, h := range render(t, with(nil), Options{}).hooks() {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("no webhook %s", name)
	return hook{}
}

func guardRule(selector *resourceapi.DeviceTaintSelector, taint resourceapi.DeviceTaint) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: taint}}
}

func manifest(t *testing.T, object any) string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
