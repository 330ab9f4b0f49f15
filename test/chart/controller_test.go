package chart

import (
	"slices"
	"strings"
	"testing"
)

// TestControllerRights: observing writes nothing but the Lease, and the status of
// patches and policies; every mode beyond it gets the verbs of its calls and no more.
func TestControllerRights(t *testing.T) {
	for mode, want := range map[string]string{
		"observe": "create events, delete devicetaintrules, patch devicetaintrules/status, patch resourceslicepatches/status, Role:create configmaps, Role:create events, Role:create leases, " +
			"Role:get configmaps dra-steward-policies, Role:get leases dra-steward-controller, Role:patch events, Role:update configmaps dra-steward-policies, Role:update leases dra-steward-controller",
		"full": "create events, delete devicetaintrules, delete pods, patch devicetaintrules/status, patch events, patch pods/status, patch resourceslicepatches/status, " +
			"Role:create configmaps, Role:create configmaps, Role:create events, Role:create leases, Role:get configmaps dra-steward-controller, Role:get configmaps dra-steward-controller-evictions, " +
			"Role:get configmaps dra-steward-policies, Role:get leases dra-steward-controller, Role:patch configmaps dra-steward-controller-evictions, Role:patch events, Role:update configmaps dra-steward-policies, Role:update leases dra-steward-controller",
	} {
		t.Run(mode, func(t *testing.T) {
			c := render(t, with(values{"controller": values{"mode": mode, "drains": values{"enabled": false}, "history": values{"enabled": false}}, "extendedResources": values{"enabled": false}}), Options{Namespace: "devices"}).controller
			var got []string
			for _, rule := range c.clusterRole.Rules {
				for _, verb := range rule.Verbs {
					if verb != "list" && verb != "watch" {
						got = append(got, verb+" "+strings.Join(rule.Resources, "+"))
					}
				}
			}
			slices.Sort(got)
			got = slices.Compact(got) // events have two reasons
			var own []string
			for _, rule := range c.role.Rules {
				for _, verb := range rule.Verbs {
					own = append(own, strings.Join(append([]string{"Role:" + verb, strings.Join(rule.Resources, "+")}, rule.ResourceNames...), " "))
				}
			}
			slices.Sort(own)
			if got := strings.Join(append(got, own...), ", "); got != want {
				t.Errorf("got:  %s\nwant: %s", got, want)
			}
			for _, subject := range c.subjects {
				if subject.Name != c.serviceAccount.Name || subject.Namespace != "devices" {
					t.Errorf("rights for %+v", subject)
				}
			}
			if len(c.subjects) != 2 || c.deployment.Spec.Template.Spec.ServiceAccountName != c.serviceAccount.Name {
				t.Errorf("account %s of %v", c.deployment.Spec.Template.Spec.ServiceAccountName, c.subjects)
			}
		})
	}
}

// TestDrainRights: drains add what they write and evict, and nothing else; the deletions
// are those at a deadline.
func TestDrainRights(t *testing.T) {
	var got []string
	for _, rule := range render(t, with(values{"controller": values{"patchStatus": false, "expireRules": false, "drains": values{"deadlineDelete": true}}, "extendedResources": values{"enabled": false}}), Options{}).controller.clusterRole.Rules {
		for _, verb := range rule.Verbs {
			if verb != "list" && verb != "watch" {
				got = append(got, verb+" "+strings.Join(rule.Resources, "+"))
			}
		}
	}
	want := []string{"patch devicetaintrules/status", "update devicedrains/status", "create devicetaintrules", "patch devicetaintrules", "delete devicetaintrules",
		"get customresourcedefinitions", "create events", "patch events", "create pods/eviction", "delete pods"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestControllerOff(t *testing.T) {
	c := render(t, with(values{"controller": values{"enabled": false}}), Options{}).controller
	if c.deployment != nil || c.clusterRole != nil || c.role != nil || c.serviceAccount != nil || c.subjects != nil {
		t.Errorf("objects of a controller that is switched off: %+v", c)
	}
}

// TestControllerIsApart: the Service and the budget of the webhook select its pods only.
func TestControllerIsApart(t *testing.T) {
	r := render(t, with(nil), Options{})
	selects := true
	for key, value := range r.service.Spec.Selector {
		selects = selects && r.controller.deployment.Spec.Template.Labels[key] == value
	}
	if selects {
		t.Error("the Service of the webhook selects pods of the controller")
	}
	if args := r.controller.deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--mode=observe") {
		t.Errorf("a first install must only observe: %q", args)
	}
}

// TestModeOfEvictions: only the last step of the ladder evicts, and what is set for the
// controller counts more.
func TestModeOfEvictions(t *testing.T) {
	for name, tt := range map[string]struct {
		values values
		want   string
	}{
		"a first install":    {nil, "observe"},
		"observe":            {values{"mode": "observe"}, "observe"},
		"warn":               {values{"mode": "warn"}, "observe"},
		"enforce":            {values{"mode": "enforce"}, "auto"},
		"enforce, overruled": {values{"mode": "enforce", "controller": values{"mode": "observe"}}, "observe"},
		"observe, overruled": {values{"mode": "observe", "controller": values{"mode": "full"}}, "full"},
	} {
		r := render(t, with(tt.values), Options{})
		if got := argument(t, r.controller.deployment.Spec.Template.Spec.Containers[0], "--mode"); got != tt.want {
			t.Errorf("%s: the controller runs in %s, want %s", name, got, tt.want)
		}
		deletes := false
		for _, rule := range r.controller.clusterRole.Rules {
			deletes = deletes || slices.Contains(rule.Resources, "pods") && slices.Contains(rule.Verbs, "delete")
		}
		if deletes != (tt.want != "observe") {
			t.Errorf("%s: may delete pods: %v", name, deletes)
		}
	}
	if _, err := Render(with(values{"mode": "strict"}), Options{}); err == nil || !strings.Contains(err.Error(), "/mode") {
		t.Errorf("a mode that there is not: %v", err)
	}
}
