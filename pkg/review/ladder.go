package review

import (
	"slices"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// ruleSeverity is what becomes in a mode of the severity that a rule has by itself. A rule
// that only warns does not know enough to refuse: no mode makes it an error.
func ruleSeverity(m v1alpha1.Mode, own validate.Severity) validate.Severity {
	switch m {
	case v1alpha1.ModeObserve:
		return max(own, validate.Audit)
	case v1alpha1.ModeWarn:
		return max(own, validate.Warning)
	}
	return own
}

// policyMode is what becomes in a mode of the mode that a policy has by itself. A policy
// that is off stays off, since it needs parameters; one in audit stays there.
func policyMode(m v1alpha1.Mode, own policy.Mode) policy.Mode {
	says := own == policy.Deny || own == policy.Warn
	switch {
	case says && m == v1alpha1.ModeObserve:
		return policy.Audit
	case says && m == v1alpha1.ModeWarn:
		return policy.Warn
	case says && m == v1alpha1.ModeEnforce:
		return policy.Deny
	}
	return own
}

// inMode applies the mode to what rules have by themselves.
func (s severities) inMode(m v1alpha1.Mode) severities {
	all := severities{}
	for _, id := range ruleIDs() {
		if severity := ruleSeverity(m, s.of(id)); severity != validate.Error {
			all[id] = severity
		}
	}
	return all
}

// ruleIDs are those of everything that has a severity.
func ruleIDs() []string {
	ids := []string{ruleid.FieldDropped}
	for _, rule := range validate.Rules() {
		ids = append(ids, rule.ID)
	}
	for _, d := range mutate.Defaults() {
		ids = append(ids, d.ID)
	}
	return ids
}

// always are the defaults that go on in the mode observe: a DeviceDrain, which is our own, keeps
// the settings that it began with, and patches are written into slices and taken out as
// patches.mode says, which an administrator sets for that alone.
var always = []string{"drain-settings", materializeID}

// onUpdate are those that go on for what is stored: who re-applies the manifest of a claim whose
// tolerations were rewritten must not be refused.
var onUpdate = []string{rewriting}

// withheld reports whether the mode observe withholds what a default fills in.
func withheld(id string, update bool) bool {
	return !slices.Contains(always, id) && (!update || !slices.Contains(onUpdate, id))
}
