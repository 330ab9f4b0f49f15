package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/storage"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/test/chart"
)

// recorded are series for every alert, a sample per minute in the notation of promtool:
// those on which it fires within an hour, with what it says, and those on which it does
// not.
var recorded = map[string]struct{ fires, says, silent string }{
	"DraStewardWebhookDown": {
		// One that runs and is not ready does not count, nor do the replicas of another release.
		fires:  "dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"a\"} 1x10 stale\n  dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"b\"} 1x10 0x50\n  dra_steward_webhook_ready{job=\"other/other\",pod=\"c\"} 1x60",
		says:   "pass unchecked",
		silent: "dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"a\"} 1x10 stale\n  dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"b\"} _x12 1x60",
	},
	"DraStewardWebhookNotRedundant": {
		// The replicas of another release do not count.
		fires:  "dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"a\"} 1x60\n  dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"b\"} 1x10 0x20 stale\n  dra_steward_webhook_ready{job=\"other/other\",pod=\"c\"} 1x60",
		says:   "one more node",
		silent: "dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"a\"} 1x60\n  dra_steward_webhook_ready{job=\"dra-steward/dra-steward\",pod=\"b\"} 1x10 stale _x10 1x40",
	},
	"DraStewardConfigurationRefused": {
		fires:  `dra_steward_config_load_failed{namespace="n",pod="a"} 0x10 1x50`,
		says:   "in a. If this pod restarts",
		silent: `dra_steward_config_load_failed{namespace="n",pod="a"} 0x10 1x4 0x50`,
	},
	"DraStewardPoliciesRefused": {
		fires:  `dra_steward_policies_load_failed{namespace="n",pod="a"} 0x10 1x50`,
		says:   "in a.",
		silent: `dra_steward_policies_load_failed{namespace="n",pod="a"} 0x10 1x4 0x50`,
	},
	"DraStewardExemptionsExpired": {
		fires:  `dra_steward_config_exemptions_expired{pod="a"} 2x80`,
		says:   "2 exemptions",
		silent: `dra_steward_config_exemptions_expired{pod="a"} 0x80`,
	},
	"DraStewardExemptionExpires": {
		fires:  "dra_steward_config_next_exemption_expiry_timestamp_seconds{pod=\"a\"} 600000x60\n  dra_steward_config_next_exemption_expiry_timestamp_seconds{pod=\"b\"} 0x60",
		says:   "The next exemption expires in 6d",
		silent: "dra_steward_config_next_exemption_expiry_timestamp_seconds{pod=\"a\"} 700000x60\n  dra_steward_config_next_exemption_expiry_timestamp_seconds{pod=\"b\"} 0x60",
	},
	"DraStewardCertificateNotRenewed": {
		fires:  `dra_steward_managed_certificate_failed{namespace="n",pod="a"} 0x10 1x50`,
		says:   "The log of a has the reason",
		silent: `dra_steward_managed_certificate_failed{namespace="n",pod="a"} 0x10 1x10 0x40`,
	},
	"DraStewardWebhookCallsFail": {
		// The series appears with the first event.
		fires: "up{job=\"apiserver\",instance=\"i\"} 1x60\n  apiserver_admission_webhook_rejection_count{job=\"apiserver\",instance=\"i\",name=\"claims.validate.dra-steward.io\",error_type=\"calling_webhook_error\"} _x15 3x44",
		says:  "3 writes for claims.validate.dra-steward.io were refused",
		// A denial, and the webhook of another.
		silent: "apiserver_admission_webhook_rejection_count{name=\"claims.validate.dra-steward.io\",error_type=\"no_error\"} 0+3x60\n  apiserver_admission_webhook_rejection_count{name=\"claims.example.com\",error_type=\"calling_webhook_error\"} 0+3x60",
	},
	"DraStewardCertificateExpires": {
		fires: `dra_steward_serving_certificate_expiry_timestamp_seconds{namespace="n",pod="a"} 80000x60`,
		says:  "trusting a in 21h",
		// One that is valid for long, and one that is not there yet.
		silent: "dra_steward_serving_certificate_expiry_timestamp_seconds{namespace=\"n\",pod=\"a\"} 8000000x60\n  dra_steward_serving_certificate_expiry_timestamp_seconds{namespace=\"n\",pod=\"b\"} 0x60",
	},
	"DraStewardAdmissionErrors": {
		fires:  `dra_steward_admission_answers_total{endpoint="validate",verdict="errored"} 0+6x60`,
		says:   "0.10 requests per second to validate",
		silent: "dra_steward_admission_answers_total{endpoint=\"validate\",verdict=\"errored\"} 0x10 1x50\n  dra_steward_admission_answers_total{endpoint=\"validate\",verdict=\"allowed\"} 0+600x60",
	},
	"DraStewardWritesUnchecked": {
		// The series appears with the first event.
		fires:  "up{job=\"apiserver\",instance=\"i\"} 1x60\n  apiserver_admission_webhook_fail_open_count{job=\"apiserver\",instance=\"i\",name=\"system-claims.validate.dra-steward.io\",type=\"validating\"} _x15 3x44",
		says:   "writes for system-claims.validate.dra-steward.io were admitted",
		silent: "apiserver_admission_webhook_fail_open_count{name=\"claims.validate.dra-steward.io\",type=\"validating\"} 3x60\n  apiserver_admission_webhook_fail_open_count{name=\"claims.mutate.dra-steward.io\",type=\"admit\"} 0+3x60\n  apiserver_admission_webhook_fail_open_count{name=\"claims.example.com\",type=\"validating\"} 0+3x60",
	},
	"DraStewardComponentsUnchecked": {
		fires:  `dra_steward_admission_unchecked_total{endpoint="mutate",reason="deadline"} 0x10 1x50`,
		says:   "requests to mutate were admitted in 10 minutes without all checks (deadline)",
		silent: `dra_steward_admission_unchecked_total{endpoint="mutate",reason="busy"} 7x60`,
	},
	"DraStewardOverloaded": {
		fires:  `dra_steward_admission_refused_total{endpoint="validate",reason="busy"} 0x10 50x50`,
		says:   "requests were refused in 10 minutes because of a limit of the webhook (busy)",
		silent: "dra_steward_admission_refused_total{endpoint=\"validate\",reason=\"size\"} 0+60x60\n  dra_steward_admission_refused_total{endpoint=\"validate\",reason=\"deadline\"} 0x10 3x50",
	},
	"DraStewardAdmissionSlow": {
		fires:  buckets("0.1=0+90x60", "0.4=0+100x60", "+Inf=0+100x60"),
		says:   "validate takes more than 370ms",
		silent: buckets("0.1=0+100x60", "0.4=0+100x60", "+Inf=0+100x60"),
	},
	"DraStewardManyDenials": {
		fires: answers("denied", "0+60x60") + answers("allowed", "0+30x60"),
		says:  "1.0 writes of ResourceClaim per second are refused",
		// As many, but few beside those that pass; and a burst that ends.
		// Pods have an endpoint of their own.
		silent: answers("denied", "0+60x60") + answers("allowed", "0+600x60") +
			`  dra_steward_admission_answers_total{endpoint="validate",kind="DeviceTaintRule",verdict="denied"} 0x20 0+60x5 300x40
  dra_steward_admission_answers_total{endpoint="pods",kind="Pod",verdict="denied"} 0+60x60
  dra_steward_admission_answers_total{endpoint="pods",kind="Pod",verdict="allowed"} 0+600x60`,
	},
	"DraStewardPolicyErrors": {
		fires:  `dra_steward_policy_results_total{code="DRA-TOL-001",mode="warn",result="timeout"} 0+1x60`,
		says:   "DRA-TOL-001 ended 6 times with timeout",
		silent: `dra_steward_policy_results_total{code="DRA-TOL-001",mode="warn",result="violation"} 0+1x60`,
	},
	"DraStewardControllerNotLeading": {
		fires:  `dra_steward_controller_leading{job="dra-steward/dra-steward",pod="a"} 1x10 0x50`,
		says:   "Pods are not evicted from tainted devices",
		silent: "dra_steward_controller_leading{job=\"dra-steward/dra-steward\",pod=\"a\"} 1x10 0x50\n  dra_steward_controller_leading{job=\"dra-steward/dra-steward\",pod=\"b\"} 0x12 1x50",
	},
	"DraStewardDrainBlocked": {
		// The clock of the test begins at 0: blocked four hours before that.
		fires:  `dra_steward_drain_blocked_timestamp_seconds{drain="maintenance",reason="BudgetBlocked"} -14400x60`,
		says:   "DeviceDrain maintenance has been blocked by BudgetBlocked for 4h",
		silent: `dra_steward_drain_blocked_timestamp_seconds{drain="maintenance",reason="BudgetBlocked"} 0x60`,
	},
	"DraStewardReactionPaused": {
		fires:  `dra_steward_reaction_paused_timestamp_seconds{reaction="xid",reason="Brake"} _x10 600x50`,
		says:   "DeviceReaction xid is paused by Brake",
		silent: `dra_steward_reaction_devices{reaction="xid",state="waiting"} 4x60`,
	},
	"DraStewardProofFailed": {
		fires:  `dra_steward_reaction_proofs{reaction="xid",state="failed"} 0x10 1x50`,
		says:   "1 drained devices of DeviceReaction xid have a proof that is failed",
		silent: `dra_steward_reaction_proofs{reaction="xid",state="running"} 1x60`,
	},
	"DraStewardRollFailed": {
		fires:  `dra_steward_roll_held_timestamp_seconds{roll="gpu-570",reason="NodeFailed"} _x10 600x50`,
		says:   "DeviceRoll gpu-570 has stopped",
		silent: `dra_steward_roll_held_timestamp_seconds{roll="gpu-570",reason="Canary"} 600x60`,
	},
	"DraStewardManyEvictions": {
		fires:  `dra_steward_evictor_pod_deletions_total{pod="a"} 0x10 0+8x10 80x40`,
		says:   "pods were evicted in 10 minutes",
		silent: `dra_steward_evictor_pod_deletions_total{pod="a"} 0+4x60`,
	},
	"DraStewardEvictionsFail": {
		fires:  `dra_steward_evictor_evictions_total{driver="gpu",result="error"} 0+1x60`,
		says:   "11 attempts",
		silent: "dra_steward_evictor_evictions_total{driver=\"gpu\",result=\"gone\"} 0+10x60\n  dra_steward_evictor_evictions_total{driver=\"gpu\",result=\"error\"} 0x10 1x50",
	},
	"DraStewardEvictionsPaused": {
		fires:  `dra_steward_evictor_paused_causes{pod="a"} 0x10 1x50`,
		says:   "1 DeviceTaintRules or drivers",
		silent: `dra_steward_evictor_paused_causes{pod="a"} 0x60`,
	},
	"DraStewardEvictionJournalFails": {
		fires:  `dra_steward_evictor_journal_failed{pod="a"} 0x10 1x50`,
		says:   "cannot read or write the ConfigMap",
		silent: `dra_steward_evictor_journal_failed{pod="a"} 0x60`,
	},
	"DraStewardDriverTaintsItsDevices": {
		fires: driverDevices("gpu", "published", "8x60") + driverDevices("gpu", "tainted", "0x10 5x50"),
		says:  "Driver gpu has added NoExecute taints to 5 of its devices",
		// Half of them, all for less than a minute, and a driver with a single device.
		silent: driverDevices("gpu", "published", "8x60") + driverDevices("gpu", "tainted", "4x30 8 4x30") +
			driverDevices("nic", "published", "1x60") + driverDevices("nic", "tainted", "1x60"),
	},
	"DraStewardDeviceUnresolvable": {
		fires:  `dra_steward_node_cdi_unresolvable{namespace="n",pod="p",container="c",cdi="v/c=0",reason="no-spec"} _x10 1x10`,
		says:   "v/c=0 of n/p, container c: no-spec",
		silent: `dra_steward_node_cdi_unresolvable{namespace="n",pod="p",container="c",cdi="v/c=0",reason="no-spec"} _x10 1 stale`,
	},
	"DraStewardDeviceHeldTwice": {
		fires:  `dra_steward_node_findings{namespace="n",pod="a",kind="held-twice"} 0x10 1x10`,
		says:   "1 devices of the node of a",
		silent: `dra_steward_node_findings{namespace="n",pod="a",kind="prepared-gone"} 0x10 1x10`,
	},
	"DraStewardDriverGone": {
		fires:  `dra_steward_node_findings{namespace="n",pod="a",kind="driver-gone"} 0x10 2x10`,
		says:   "2 findings on the node of a",
		silent: `dra_steward_node_findings{namespace="n",pod="a",kind="prepared-gone"} 0x10 1x10`,
	},
	"DraStewardPodResourcesLarge": {
		fires:  `dra_steward_node_podresources_bytes{namespace="n",pod="a"} 1000x10 17800000x10`,
		says:   "the node of a has 16.98MiB",
		silent: `dra_steward_node_podresources_bytes{namespace="n",pod="a"} 4000000x20`,
	},
	"DraStewardTaintedDeviceInUse": {
		fires: `dra_steward_node_device_taint_added_timestamp_seconds{namespace="n",pod="p",driver="d",pool="l",device="x",key="k",effect="NoExecute",tolerated="false"} 60x60`,
		says:  "n/p has d/l/x for",
		// A toleration that ends after half an hour, and then the eviction.
		silent: `dra_steward_node_device_taint_added_timestamp_seconds{namespace="n",pod="p",driver="d",pool="l",device="x",key="k",effect="NoExecute",tolerated="true"} 60x30 stale
  dra_steward_node_device_taint_added_timestamp_seconds{namespace="n",pod="p",driver="d",pool="l",device="x",key="k",effect="NoExecute",tolerated="false"} _x30 60x5 stale`,
	},
	"DraStewardNodeSourceDown": {
		fires:  `dra_steward_node_source_up{namespace="n",pod="a",source="podresources"} 1x10 0x30`,
		says:   "a cannot read podresources",
		silent: `dra_steward_node_source_up{namespace="n",pod="a",source="podresources"} 1x10 0x5 1x30`,
	},
	"DraStewardNodeAgentStuck": {
		fires:  `dra_steward_node_look_timestamp_seconds{namespace="n",pod="a"} 0+60x20 1200x40`,
		says:   "a last checked its node 21m",
		silent: `dra_steward_node_look_timestamp_seconds{namespace="n",pod="a"} 0+60x20 1200x15 2160+60x24`,
	},
	"DraStewardPatchesNotWritten": {
		fires:  `dra_steward_materialize_slices{state="differing"} 0x10 3x30`,
		says:   "3 ResourceSlices",
		silent: `dra_steward_materialize_slices{state="differing"} 0x10 3x5 0x40`,
	},
	"DraStewardClassRoomLow": {
		// Other classes and sizes have less.
		fires:  fits("gpu", "8", "9x20 1x40") + fits("gpu", "4", "1x60") + fits("nic.example.com", "1", "5x60") + fits("nic.example.com", "2", "0x60"),
		says:   "1 claims for 8 devices of class gpu fit",
		silent: fits("gpu", "8", "2x10 1x4 2x40") + fits("nic.example.com", "1", "5x30 Inf Inf 5x20") + fits("other", "1", "0x60"),
	},
	"DraStewardCapacityUnknown": {
		fires:  fits("gpu", "8", "2x60") + fits("nic.example.com", "1", "5x60") + "  dra_steward_capacity_last_success_timestamp_seconds{pod=\"a\"} 0+60x20 1200x40",
		says:   "The devices were counted 26m 0s ago",
		silent: fits("gpu", "8", "2x60") + fits("nic.example.com", "1", "5x60") + "  dra_steward_capacity_last_success_timestamp_seconds{pod=\"a\"} 0+60x20 1200x9 1860+60x30",
	},
	"DraStewardClaimsStuckInDeletion": {
		fires:  `dra_steward_claims_stuck_in_deletion{pod="a"} 0x10 3x10`,
		says:   "3 ResourceClaims",
		silent: `dra_steward_claims_stuck_in_deletion{pod="a"} 0x60`,
	},
}

func buckets(series ...string) (text string) {
	for _, s := range series {
		le, samples, _ := strings.Cut(s, "=")
		text += `  dra_steward_admission_seconds_bucket{endpoint="validate",le="` + le + `"} ` + samples + "\n"
	}
	return text
}

func fits(class, devices, samples string) string {
	return `  dra_steward_capacity_fits{class="` + class + `",devices="` + devices + `"} ` + samples + "\n"
}

func driverDevices(driver, state, samples string) string {
	return `  dra_steward_evictor_driver_devices{driver="` + driver + `",state="` + state + `"} ` + samples + "\n"
}

func answers(verdict, samples string) string {
	return `  dra_steward_admission_answers_total{endpoint="validate",kind="ResourceClaim",verdict="` + verdict + `"} ` + samples + "\n"
}

func TestAlerts(t *testing.T) {
	all := alerts(t, nil)
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		t.Run(name, func(t *testing.T) {
			rule, ok := all[name]
			if !ok {
				t.Fatal("there is no such alert")
			}
			series := recorded[name]
			if got := fired(t, rule, series.silent); got != "" {
				t.Errorf("fires where it should not: %s", got)
			}
			if got := fired(t, rule, series.fires); !strings.Contains(got, series.says) || strings.Contains(got, "<error") {
				t.Errorf("says %q, want %q in it", got, series.says)
			}
		})
	}
	for name := range all {
		if _, ok := recorded[name]; !ok {
			t.Errorf("%s: add series to recorded on which it fires, and on which it does not", name)
		}
	}
}

// fired evaluates a rule every minute and returns the description of the first alert that
// fires; empty if none does.
func fired(t *testing.T, rule rulefmt.Rule, series string) string {
	t.Helper()
	alerting := newAlerting(t, rule, scraped(t, load(t, time.Minute, series)))
	for minute := range 80 {
		if err := alerting.eval(t.Context(), time.Unix(0, 0).Add(time.Duration(minute)*time.Minute)); err != nil {
			t.Fatal(err)
		}
		// The series end after an hour: what is absent from then on says nothing.
		for _, alert := range alerting.active {
			if alert.firing && (minute <= 60 || strings.Contains(series, "x80")) {
				return alert.annotations["description"]
			}
		}
	}
	return ""
}

// scraped are series as Prometheus stores them: with the labels of the target, which the chart's
// PodMonitor lets the metric's own labels win over. A label of a recorded series that the metric does not
// have is one of its target.
func scraped(t *testing.T, series memory) (stored memory) {
	t.Helper()
	all, err := cli.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	endpoints, _, err := unstructured.NestedSlice(rendered(t, "PodMonitor", "dra-steward", nil).Object, "spec", "podMetricsEndpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("%d endpoints, %v", len(endpoints), err)
	}
	honors, _ := endpoints[0].(map[string]any)["honorLabels"].(bool)
	for _, s := range series {
		set := labels.NewBuilder(s.Labels())
		if name := s.Labels().Get("__name__"); strings.HasPrefix(name, "dra_steward_") {
			i := slices.IndexFunc(all, func(m cli.Metric) bool { return m.Name == strings.TrimSuffix(name, "_bucket") })
			if i < 0 {
				t.Fatalf("there is no metric %s", name)
			}
			for label, value := range map[string]string{"namespace": "dra-steward", "pod": "scraped", "container": "dra-steward", "endpoint": "metrics", "job": "dra-steward/dra-steward"} {
				if own := slices.Contains(all[i].Labels, label); set.Get(label) == "" || own && !honors {
					set.Set(label, value)
				}
			}
		}
		stored = append(stored, target{s, set.Labels()})
	}
	return stored
}

// A target is a series with the labels of its target.
type target struct {
	storage.Series
	set labels.Labels
}

func (s target) Labels() labels.Labels { return s.set }

// TestCertificateRenewedLate: a certificate that is renewed within its last day is not alarming until it
// should have been replaced.
func TestCertificateRenewedLate(t *testing.T) {
	expires := func(seconds string) string {
		return `dra_steward_serving_certificate_expiry_timestamp_seconds{namespace="n",pod="a"} ` + seconds + "x60"
	}
	for _, c := range []struct {
		certificates  values
		silent, fires string
	}{
		{values{"mode": "selfManaged", "selfManaged": values{"renewBefore": "24h"}}, "48000", "40000"},
		{values{"mode": "selfManaged", "selfManaged": values{"renewBefore": "1h30m20s", "waitAfterChange": "45m"}}, "7000", "4000"},
		{values{"mode": "selfManaged"}, "91000", "80000"},
		{values{"mode": "certManager", "certManager": values{"renewBefore": "30h"}}, "58000", "53000"},
		{values{"mode": "provided", "existingSecret": "tls", "caBundle": pem, "selfManaged": values{"renewBefore": "1h"}}, "91000", "80000"},
	} {
		rule := alerts(t, values{"certificates": c.certificates})["DraStewardCertificateExpires"]
		if got := fired(t, rule, expires(c.silent)); got != "" {
			t.Errorf("%v: fires where it should not: %s", c.certificates, got)
		}
		if got := fired(t, rule, expires(c.fires)); got == "" {
			t.Errorf("%v: does not fire: %s", c.certificates, rule.Expr)
		}
	}
}

// TestCertificateAlarmInTime: the alert fires before the certificate expires, however late that is renewed.
func TestCertificateAlarmInTime(t *testing.T) {
	for renewBefore, want := range map[string]string{"24h": "15m0s", "90m": "15m0s", "20m": "3m20s"} {
		rule := alerts(t, values{"certificates": values{"mode": "selfManaged", "selfManaged": values{"renewBefore": renewBefore, "validity": "240h"}}})["DraStewardCertificateExpires"]
		if got := time.Duration(rule.For).String(); got != want {
			t.Errorf("renewBefore %s: fires after %s, want %s", renewBefore, got, want)
		}
	}
}

// TestDenialsOfEachEndpoint: what the guard refuses, another endpoint has allowed.
func TestDenialsOfEachEndpoint(t *testing.T) {
	rule := alerts(t, nil)["DraStewardManyDenials"]
	for _, endpoint := range []string{"validate", "pods", "guard"} {
		answered := func(at, verdict, samples string) string {
			return fmt.Sprintf("  dra_steward_admission_answers_total{endpoint=%q,kind=\"DeviceTaintRule\",verdict=%q} %s\n", at, verdict, samples)
		}
		series := answered(endpoint, "denied", "0+60x60") + answered(endpoint, "allowed", "0+30x60") + answered("mutate", "allowed", "0+90x60")
		if got := fired(t, rule, series); !strings.Contains(got, "1.0 writes of DeviceTaintRule") {
			t.Errorf("%s: says %q", endpoint, got)
		}
	}
}

// TestUncheckedWebhooks: each webhook whose failure admits what a site forbids has the alert.
func TestUncheckedWebhooks(t *testing.T) {
	for _, name := range []string{
		"claims.validate", "system-claims.validate", "templates.validate", "extendedresources.pods", "pods.validate",
		"evictions.validate", "deletions.driverpods", "evictions.driverpods",
	} {
		series := fmt.Sprintf("apiserver_admission_webhook_fail_open_count{name=\"%s.dra-steward.io\",type=\"validating\"} 0+1x60", name)
		if got := fired(t, alerts(t, nil)["DraStewardWritesUnchecked"], series); !strings.Contains(got, name) {
			t.Errorf("%s: says %q", name, got)
		}
	}
}

// TestClassWithoutNumber: a class that is gone, or left out, is not a class with room.
func TestClassWithoutNumber(t *testing.T) {
	series := fits("gpu", "8", "2x60") + "  dra_steward_capacity_last_success_timestamp_seconds 0+60x60"
	if got := fired(t, alerts(t, nil)["DraStewardCapacityUnknown"], series); !strings.Contains(got, "no number for claims of class nic.example.com") {
		t.Errorf("says %q", got)
	}
}

// TestNeverCounted: a leader that has not counted the devices since it leads does not end the alert. Without a leader another
// alert fires.
func TestNeverCounted(t *testing.T) {
	room, leads := fits("gpu", "8", "2x60")+fits("nic.example.com", "1", "5x60"), `  dra_steward_controller_leading{job="dra-steward/dra-steward",pod="b"} 1x60`
	if got := fired(t, alerts(t, nil)["DraStewardCapacityUnknown"], room+leads); !strings.Contains(got, "has not counted the devices") {
		t.Errorf("says %q", got)
	}
	if got := fired(t, alerts(t, nil)["DraStewardCapacityUnknown"], room); got != "" {
		t.Errorf("without a leader it says %q", got)
	}
}

// TestFirstPolicyErrors: a policy that has failed for all pods of a burst fires, though the series appears with the burst.
func TestFirstPolicyErrors(t *testing.T) {
	series := `dra_steward_policy_results_total{code="DRA-TOL-001",mode="deny",result="timeout",pod="new"} _x10 40x50`
	if got := fired(t, alerts(t, nil)["DraStewardPolicyErrors"], series); !strings.Contains(got, "ended 40 times with timeout") {
		t.Errorf("says %q", got)
	}
}

// TestClassRoomIsNullByDefault: there is no minimum that fits every site.
func TestClassRoomIsNullByDefault(t *testing.T) {
	on := values{"monitoring": values{"alerts": values{"enabled": true}}}
	all := alerts(t, on)
	if _, ok := all["DraStewardClassRoomLow"]; ok {
		t.Error("there is an alert without monitoring.alerts.classRoom")
	}
	if rule := all["DraStewardCapacityUnknown"]; strings.Contains(rule.Expr, "capacity_fits") || rule.Expr == "" {
		t.Errorf("%q", rule.Expr)
	}
	on["controller"] = values{"capacityMetrics": false}
	if _, ok := alerts(t, on)["DraStewardCapacityUnknown"]; ok {
		t.Error("there is an alert about numbers that are not counted")
	}
	monitoring := values{"alerts": values{"enabled": true, "classRoom": []any{values{"class": "gpu", "claims": 1}}}}
	if _, err := chart.Render(values{"monitoring": monitoring}, chart.Options{}); err == nil || !strings.Contains(err.Error(), "set controller.enabled=true and controller.capacityMetrics=true") {
		t.Errorf("classRoom without the metrics: %v", err)
	}
}

// TestAlertsOfWhatIsInstalled: an alert about something that is not installed would fire
// without end.
func TestAlertsOfWhatIsInstalled(t *testing.T) {
	if _, ok := alerts(t, values{"controller": values{"enabled": false}, "monitoring": values{"alerts": values{"enabled": true}}})["DraStewardControllerNotLeading"]; ok {
		t.Error("without a controller none can lead")
	}
	if _, ok := alerts(t, values{"replicaCount": 1})["DraStewardWebhookNotRedundant"]; ok {
		t.Error("one replica is what was asked for")
	}
}

func TestMonitoringIsOffUnlessAsked(t *testing.T) {
	for kind, name := range map[string]string{"PrometheusRule": "dra-steward", "PodMonitor": "dra-steward", "ConfigMap": "dra-steward-dashboard"} {
		if rendered(t, kind, name, nil) == nil {
			t.Errorf("%s %s is not there when it is asked for", kind, name)
		}
		if rendered(t, kind, name, values{"monitoring": values{}}) != nil {
			t.Errorf("%s %s is rendered by default: its type may not exist", kind, name)
		}
	}
}
