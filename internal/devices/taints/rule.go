package taints

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// ManagedBy is the label of the rules that "dra-steward taint" writes.
const (
	ManagedBy      = "app.kubernetes.io/managed-by"
	ManagedByTaint = "dra-steward-taint"
)

// Name is that of the rule for a key on a target, always the same: to taint again is to
// change the rule.
func Name(t Target, key string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{t.Driver, t.Pool, t.Device, key}, "\x00")))
	return "taint-" + readable(t) + "-" + hex.EncodeToString(sum[:5])
}

// readable is what people recognise of a target in a name: its last part.
func readable(t Target) string {
	part := t.Driver
	for _, p := range []string{t.Pool, t.Device} {
		if p != "" {
			part = p
		}
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(part))
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// An Intent is a taint rule that a user wants.
type Intent struct {
	Target Target
	Taint  resourceapi.DeviceTaint
	// Expires is when the rule shall go by itself; zero is never.
	Expires time.Time
	// Acknowledged is the ceiling of what it may hit; empty is none.
	Acknowledged string
	// Owner, Reason and Ticket are annotations for people; empty is none.
	Owner, Reason, Ticket string
}

// Rule is what is applied.
func (i Intent) Rule() *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: Name(i.Target, i.Taint.Key), Labels: map[string]string{ManagedBy: ManagedByTaint}},
		Spec:       resourceapi.DeviceTaintRuleSpec{DeviceSelector: i.Target.Selector(), Taint: i.Taint},
	}
	rule.Annotations = map[string]string{}
	if !i.Expires.IsZero() {
		rule.Annotations[v1alpha1.ExpiresAnnotation] = i.Expires.UTC().Format(time.RFC3339)
	}
	for name, value := range map[string]string{v1alpha1.AcknowledgementAnnotation: i.Acknowledged,
		v1alpha1.OwnerAnnotation: i.Owner, v1alpha1.ReasonAnnotation: i.Reason, v1alpha1.TicketAnnotation: i.Ticket} {
		if value != "" {
			rule.Annotations[name] = value
		}
	}
	return rule
}

// Cordons are the rules that keep new pods off targets, as those of a drain do.
func Cordons(targets []Target) (rules []any) {
	for _, target := range targets {
		rules = append(rules, Intent{Target: target, Taint: resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Effect: resourceapi.DeviceTaintEffectNoSchedule}}.Rule())
	}
	return rules
}

// Expiry returns when a rule expires; false for one that does not. A time that cannot be read
// is an error, and the rule stays.
func Expiry(rule *resourceapi.DeviceTaintRule) (time.Time, bool, error) {
	text, has := rule.Annotations[v1alpha1.ExpiresAnnotation]
	if !has {
		return time.Time{}, false, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("DeviceTaintRule %s: annotation %s: %q: must be a time such as 2026-12-31T18:00:00Z", rule.Name, v1alpha1.ExpiresAnnotation, text)
	}
	return at, true, nil
}

// Same reports whether a taint is the one that is asked for: value and effect count if they
// are asked for.
func Same(taint, asked resourceapi.DeviceTaint) bool {
	return taint.Key == asked.Key && (asked.Value == "" || asked.Value == taint.Value) && (asked.Effect == "" || asked.Effect == taint.Effect)
}

// Others says of each source of a taint on devices of a target, once, why "dra-steward
// untaint" leaves it alone and what can be done. The rule called ours is left out.
func Others(devices iter.Seq[tracker.Device], target Target, asked resourceapi.DeviceTaint, ours string) (problems []error) {
	seen := map[tracker.Source]bool{}
	for d := range devices {
		id := usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}
		if !target.Has(id) {
			continue
		}
		for _, taint := range d.Taints() {
			if !Same(taint.DeviceTaint, asked) || seen[taint.Source] {
				continue
			}
			seen[taint.Source] = true
			if taint.Source.Kind != tracker.DriverSource && taint.Source.Name == ours {
				continue
			}
			if taint.Source.Kind == tracker.DriverSource {
				problems = append(problems, fmt.Errorf("%s: the driver %s publishes the taint %s, and only the driver can remove it: "+
					"repair the device, or have the driver acknowledge it (many drivers forget taints when their kubelet plugin restarts); "+
					"to use the device anyway, let the claims tolerate %s", id, d.Driver(), taint.Key, taint.Key))
				continue
			}
			problems = append(problems, fmt.Errorf("%s: the taint %s comes from the DeviceTaintRule %s, which \"dra-steward taint\" did not write for %s: "+
				"kubectl delete devicetaintrule %s, if it is not needed", id, taint.Key, taint.Source.Name, target, taint.Source.Name))
		}
	}
	return problems
}
