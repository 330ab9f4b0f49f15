package drain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// Labels and annotations that name the drain of a rule. They are not an owner reference: with the
// type DeviceDrain the garbage collector would delete the rules, too, and put devices back into
// use that a user has taken out.
const (
	// DrainLabel is the name of the drain.
	DrainLabel = v1alpha1.Group + "/drain"
	// UIDAnnotation is its UID.
	UIDAnnotation = v1alpha1.Group + "/drain-uid"
)

// Taint is the taint that cordons the devices of a drain.
func Taint(d *v1alpha1.DeviceDrain) resourceapi.DeviceTaint {
	taint := resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: d.Name, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if cordon := d.Spec.Cordon; cordon != nil {
		if cordon.Key != "" {
			taint.Key = cordon.Key
		}
		if cordon.Value != "" {
			taint.Value = cordon.Value
		}
	}
	return taint
}

// Rule is the rule that cordons one device of a drain. Its name depends only on the drain
// and the device, so that two controllers create it once.
func Rule(d *v1alpha1.DeviceDrain, device v1alpha1.DeviceName) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{
		Name:        ruleName(d, device),
		Labels:      map[string]string{DrainLabel: d.Name},
		Annotations: map[string]string{UIDAnnotation: string(d.UID), v1alpha1.OwnerAnnotation: v1alpha1.DeviceDrainKind + "/" + d.Name, v1alpha1.ReasonAnnotation: "keeps new pods off devices that are drained"},
	}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: &device.Driver, Pool: &device.Pool, Device: &device.Device}
	rule.Spec.Taint = Taint(d)
	return rule
}

// PoolRule is the rule that cordons a pool all of whose devices belong to a drain.
func PoolRule(d *v1alpha1.DeviceDrain, pool Pool) *resourceapi.DeviceTaintRule {
	rule := Rule(d, v1alpha1.DeviceName{Driver: pool.Driver, Pool: pool.Name}) // no device has an empty name
	rule.Spec.DeviceSelector.Device = nil
	return rule
}

// cordonRules are the rules that cordon groups of devices.
func cordonRules(d *v1alpha1.DeviceDrain, groups []v1alpha1.DrainDevices) iter.Seq[*resourceapi.DeviceTaintRule] {
	return func(yield func(*resourceapi.DeviceTaintRule) bool) {
		for _, group := range groups {
			for _, pool := range group.Pools {
				if group.WholePools {
					if !yield(PoolRule(d, Pool{group.Driver, pool})) {
						return
					}
					continue
				}
				for _, device := range group.Devices {
					if !yield(Rule(d, v1alpha1.DeviceName{Driver: group.Driver, Pool: pool, Device: device})) {
						return
					}
				}
			}
		}
	}
}

func ruleName(d *v1alpha1.DeviceDrain, device v1alpha1.DeviceName) string {
	sum := sha256.Sum256([]byte(string(d.UID) + "/" + device.String()))
	return namePrefix(d) + hex.EncodeToString(sum[:5])
}

func namePrefix(d *v1alpha1.DeviceDrain) string { return "drain-" + d.Name + "-" }

// ruleNames are the names of all rules that a drain can have.
func ruleNames(d *v1alpha1.DeviceDrain, devices Devices) map[string]bool {
	names := map[string]bool{}
	for _, device := range devices.Names {
		names[ruleName(d, device)] = true
		device.Device = ""
		names[ruleName(d, device)] = true
	}
	return names
}

// OwnerOf says to which drain a rule belongs, "" if to none.
func OwnerOf(rule *resourceapi.DeviceTaintRule) (name string, uid types.UID) {
	name, uid = rule.Labels[DrainLabel], types.UID(rule.Annotations[UIDAnnotation])
	if name == "" || uid == "" {
		return "", ""
	}
	return name, uid
}

// Rules are those of a drain among all: those that name it, and those whose label a user has
// removed.
func Rules(d *v1alpha1.DeviceDrain, devices Devices, all iter.Seq[*resourceapi.DeviceTaintRule]) (rules []*resourceapi.DeviceTaintRule) {
	names := sync.OnceValue(func() map[string]bool { return ruleNames(d, devices) })
	for rule := range all {
		_, uid := OwnerOf(rule)
		if uid == d.UID || strings.HasPrefix(rule.Name, namePrefix(d)) && names()[rule.Name] {
			rules = append(rules, rule)
		}
	}
	return rules
}

// cordon decides which rules to write. since is when the last of them was written; complete is
// false while one is missing.
func (d *Decision) cordon(in Input, wanted iter.Seq[*resourceapi.DeviceTaintRule]) (since time.Time, complete bool) {
	have := map[string]*resourceapi.DeviceTaintRule{}
	for _, rule := range in.Rules {
		have[rule.Name] = rule
	}
	complete = true
	for rule := range wanted {
		is := have[rule.Name]
		delete(have, rule.Name)
		switch {
		case is == nil:
			d.Create = append(d.Create, rule)
			complete = false
		case is.DeletionTimestamp != nil:
			complete = false
		case !same(is, rule):
			corrected := is.DeepCopy()
			corrected.Spec = rule.Spec
			metav1.SetMetaDataLabel(&corrected.ObjectMeta, DrainLabel, in.Drain.Name)
			metav1.SetMetaDataAnnotation(&corrected.ObjectMeta, UIDAnnotation, string(in.Drain.UID))
			d.Correct = append(d.Correct, corrected)
			complete = false
		default:
			since = later(since, written(is, in.Now))
		}
	}
	for _, rule := range in.Rules {
		if have[rule.Name] != nil && rule.DeletionTimestamp == nil {
			d.Delete = append(d.Delete, rule)
		}
	}
	return since, complete
}

func same(is, want *resourceapi.DeviceTaintRule) bool {
	taint := is.Spec.Taint
	taint.TimeAdded = nil
	_, owner := OwnerOf(is)
	_, ours := OwnerOf(want)
	return owner == ours && equality.Semantic.DeepEqual(taint, want.Spec.Taint) && equality.Semantic.DeepEqual(is.Spec.DeviceSelector, want.Spec.DeviceSelector)
}

// written is the latest time at which a rule can have got the effect that it has: the API server
// renews the time of a taint whose effect changes, and drops the fraction of the second. A time in
// the future is not the API server's.
func written(rule *resourceapi.DeviceTaintRule, now time.Time) time.Time {
	at := rule.CreationTimestamp.Time
	if added := rule.Spec.Taint.TimeAdded; added != nil && !added.After(now) {
		at = later(at, added.Time)
	}
	return at.Add(time.Second)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cordonCondition decides about the rules, and reports their state. evict reports whether
// pods may be evicted as far as the cordon is concerned, from is when the cordon took
// effect.
func (d *Decision) cordonCondition(in Input, groups []v1alpha1.DrainDevices) (from time.Time, evict bool) {
	spec, c := in.Drain.Spec, conditions{&d.Status, in.Now}
	lifted := d.Status.CompletionTime != nil && spec.AtEnd == v1alpha1.EndUncordon
	cannot := in.CannotCordon != ""
	if spec.DryRun || lifted {
		groups = nil
	}
	since, complete := d.cordon(in, cordonRules(in.Drain, groups))
	switch {
	case spec.DryRun:
		c.set(v1alpha1.DrainCordoned, false, "DryRun", "a dry run cordons nothing")
		return time.Time{}, false
	case lifted:
		c.set(v1alpha1.DrainCordoned, false, "Uncordoned", "the drain has ended")
		return time.Time{}, false
	case cannot && !complete:
		d.Create, d.Correct = nil, nil
		c.set(v1alpha1.DrainCordoned, false, v1alpha1.BlockedCannotCordon, in.CannotCordon)
		return in.Drain.CreationTimestamp.Time, spec.WithoutCordon
	case !complete:
		c.set(v1alpha1.DrainCordoned, false, "Cordoning", fmt.Sprintf("the DeviceTaintRules of %s are being written", plural.Of(len(in.Devices.Names), "device")))
		return time.Time{}, false
	}
	if due := since.Add(in.Settings.schedulerSync()); due.After(in.Now) {
		c.set(v1alpha1.DrainCordoned, false, "WaitingForScheduler", fmt.Sprintf("the rules are written; the scheduler has observed them by %s", clock(due)))
		d.WakeAt(due)
		return time.Time{}, false
	}
	condition := c.set(v1alpha1.DrainCordoned, true, "Cordoned", fmt.Sprintf("%s cordoned by DeviceTaintRules with the taint %s", are(len(in.Devices.Names)), toleration.TaintText(Taint(in.Drain))))
	return condition.LastTransitionTime.Time, true
}

func are(n int) string {
	if n == 1 {
		return "1 device is"
	}
	return fmt.Sprintf("%d devices are", n)
}

// clock is a time as messages have it.
func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }
