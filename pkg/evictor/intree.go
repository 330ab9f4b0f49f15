package evictor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

const (
	// probeCount is the number of unanswered probes in a row after which the in-tree
	// controller counts as absent, and probeSpan the least time between the first and the
	// last. A failover takes less.
	probeCount = 3
	probeSpan  = 2 * time.Minute
	// probePeriod is the least time between two probes that count.
	probePeriod = probeSpan / (probeCount - 1)
	// probeAnswer is the time to answer a probe.
	probeAnswer = 20 * time.Second
)

// A taintSource is the origin of a taint.
type taintSource uint8

const (
	// fromSlices: drivers publish the taint.
	fromSlices taintSource = iota
	// fromRules: a DeviceTaintRule sets the taint.
	fromRules
)

// String returns the name in metrics and logs.
func (s taintSource) String() string { return [...]string{"slices", "rules"}[s] }

// A presence is the detected state of the in-tree controller.
type presence uint8

const (
	// unknown is the initial state: no pods are evicted.
	unknown presence = iota
	// present: it evicts pods.
	present
	// absent: it does not evict pods.
	absent
)

// String returns the name in metrics and logs.
func (p presence) String() string { return [...]string{"unknown", "present", "absent"}[p] }

// inTreeState is the detected state of the in-tree controller for each source of taints.
// Its first action counts at once, its absence only after [probeCount] unanswered probes
// over [probeSpan]. The zero value is unknown. Times are arguments and do not run
// backwards.
type inTreeState struct {
	slices, rules inTreeSource
}

// An inTreeSource is the state for one source, separately for ordinary pods and for those
// with extended resources, which the in-tree controller of Kubernetes 1.37 misses, and that of
// a later version may evict (kubernetes#142289).
type inTreeSource struct{ ordinary, extended inTreeClass }

// An inTreeClass is the state for one class of pods.
type inTreeClass struct {
	presence presence
	// count is the number of unanswered probes in a row, from first to last.
	count       int
	first, last time.Time
}

func (c *inTreeState) of(s taintSource) *inTreeSource {
	if s == fromRules {
		return &c.rules
	}
	return &c.slices
}

// presence returns the state for a source of taints.
func (c *inTreeState) presence(s taintSource) presence { return c.of(s).ordinary.presence }

// seen records an action of the in-tree controller for a source. If it evicts for rules it
// also evicts for slices: it is one controller, and a feature gate adds rules.
func (c *inTreeState) seen(s taintSource) {
	c.slices.ordinary = inTreeClass{presence: present}
	if s == fromRules {
		c.rules.ordinary = inTreeClass{presence: present}
	}
}

// seenExtended records that the in-tree controller evicts pods with extended resources, for
// whatever source it evicts.
func (c *inTreeState) seenExtended() {
	c.seen(fromSlices)
	c.slices.extended, c.rules.extended = inTreeClass{presence: present}, inTreeClass{presence: present}
}

// unanswered records an unanswered probe.
func (c *inTreeState) unanswered(s taintSource, now time.Time) { c.of(s).ordinary.unanswered(now) }

// unansweredExtended records a pod with extended resources that the in-tree controller has
// left.
func (c *inTreeState) unansweredExtended(s taintSource, now time.Time) {
	c.of(s).extended.unanswered(now)
}

// unanswered ignores probes that follow another one by less than [probePeriod].
func (c *inTreeClass) unanswered(now time.Time) {
	switch {
	case c.count == 0:
		c.first = now
	case now.Sub(c.last) < probePeriod:
		return
	}
	c.count++
	c.last = now
	if c.count >= probeCount && now.Sub(c.first) >= probeSpan {
		c.presence = absent
	}
}

// shares returns the part of the evictions that is left for this controller.
func (c *inTreeState) shares() shares {
	return shares{Slices: c.slices.shares(), Rules: c.rules.shares()}
}

// shares leaves pods with extended resources to the in-tree controller only once it was seen
// to evict one.
func (s inTreeSource) shares() classShares {
	switch {
	case s.complete():
		return classShares{}
	case s.ordinary.presence == present:
		return presentShare
	case s.ordinary.presence == absent:
		return absentShare
	}
	return classShares{}
}

// An InTreeDetector detects the in-tree eviction controller.
type InTreeDetector interface {
	// Probe reports whether the in-tree controller answered in time. After an error the
	// state is unknown.
	Probe(context.Context) (answered bool, err error)
}

// probe detects the in-tree controller periodically. Overdue pods that it has not evicted
// count as unanswered probes.
func (c *Controller) probe(ctx context.Context) {
	for {
		answered, err := c.options.InTreeDetector.Probe(ctx)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		c.learn(func(o *inTreeState) {
			switch {
			case err != nil:
			case answered:
				o.seen(fromRules)
			default:
				o.unanswered(fromRules, now)
			}
			for left := range c.overdue(now) {
				if left.extended {
					o.unansweredExtended(left.source, now)
				} else {
					o.unanswered(left.source, now)
				}
			}
		})
		if err != nil {
			c.options.Logger.V(1).Info("Cannot detect the in-tree eviction controller", "error", err.Error())
		}
		wait := time.NewTimer(probePeriod)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// learn updates the state of the in-tree controller, and the shares that depend on it. Both change
// in one step: of two goroutines that learn at the same time, the last one stores what both know.
func (c *Controller) learn(learn func(*inTreeState)) {
	var after inTreeState
	if !c.rescope(func(o *scope) {
		learn(&c.inTree)
		after, o.shares, o.rulesInTree = c.inTree, c.inTree.shares(), c.inTree.rules.complete()
		c.options.Metrics.inTree(after)
	}) {
		return
	}
	c.options.Logger.Info("Detected state of the in-tree eviction controller", "slices", after.slices.String(), "rules", after.rules.String())
	c.report(corev1.EventTypeNormal, "ModeChanged", "The in-tree eviction controller is "+after.slices.String()+
		" for taints in slices and "+after.rules.String()+" for DeviceTaintRules.")
}

// complete reports whether the in-tree controller evicts pods with extended resources, too.
func (s inTreeSource) complete() bool {
	return s.ordinary.presence == present && s.extended.presence == present
}

// String returns the state in logs and events.
func (s inTreeSource) String() string {
	if s.complete() {
		return "present, also for extended resources,"
	}
	return s.ordinary.presence.String()
}

// A class is a class of pods with taints from one source.
type class struct {
	source   taintSource
	extended bool
}

// overdue returns the classes of pods that have been due for so long that a present in-tree
// controller would have evicted them. Such a pod counts as an unanswered probe. The mutex is
// held.
func (c *Controller) overdue(now time.Time) map[class]bool {
	left := map[class]bool{}
	for known := range c.states.all() {
		if known.stage == done || known.stage == acting {
			continue
		}
		for _, r := range known.verdict.verdict().Reasons {
			due := r.At
			if seen := c.states.clock.time(known.seen); seen.After(due) {
				due = seen
			}
			if now.Sub(due) >= probeAnswer && !known.disrupted {
				left[class{sourceOf(r), r.ExtendedResource}] = true
			}
		}
	}
	return left
}

func sourceOf(r Reason) taintSource {
	if r.Taint.FromRule() {
		return fromRules
	}
	return fromSlices
}

// observePod reports whether the in-tree controller has just marked a pod. An old condition
// is no evidence: its writer can be gone. The mutex is held.
func (c *Controller) observePod(pod *corev1.Pod, now time.Time) (seen bool) {
	condition := disruption(pod)
	if known := c.states.of(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); known != nil && known.uid == pod.UID {
		known.disrupted = disrupted(pod)
	}
	return c.options.Mode == ModeAuto && condition != nil && condition.Reason == inTreeReason &&
		now.Sub(condition.LastTransitionTime.Time) < probeSpan
}

// observeRule reports whether the in-tree controller has written the status of a rule: its condition
// is new, and none of those that this controller wrote.
func (c *Controller) observeRule(before, after *resourceapi.DeviceTaintRule, wrote []metav1.Condition) bool {
	if c.options.Mode != ModeAuto || before == nil || after == nil {
		return false
	}
	had := findCondition(before, resourceapi.DeviceTaintConditionEvictionInProgress)
	has := findCondition(after, resourceapi.DeviceTaintConditionEvictionInProgress)
	return has != nil && !sameCondition(had, has) &&
		!slices.ContainsFunc(wrote, func(w metav1.Condition) bool { return sameCondition(&w, has) })
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration &&
		strings.TrimSpace(a.Message) == strings.TrimSpace(b.Message) && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// RuleProbe detects the in-tree controller with a DeviceTaintRule that has no effect: that
// controller writes a condition to its status, if it handles rules.
type RuleProbe struct {
	Client dynamic.Interface
	// Answer is how long to wait for the condition, 20 seconds if zero.
	Answer time.Duration
}

// Probe implements [InTreeDetector]. It uses the newest served version of the API.
func (p RuleProbe) Probe(ctx context.Context) (answered bool, err error) {
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		client := p.Client.Resource(schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"})
		if answered, err = p.probe(ctx, client, version); !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("DeviceTaintRule %s: %w", taints.ProbeName, err)
	}
	return answered, nil
}

func (p RuleProbe) probe(ctx context.Context, client dynamic.NamespaceableResourceInterface, version string) (answered bool, err error) {
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourceapi.GroupName + "/" + version, "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": taints.ProbeName},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": "probe.dra-steward.io", "pool": "none", "device": "none"},
			"taint":          map[string]any{"key": "dra-steward.io/probe", "effect": string(resourceapi.DeviceTaintEffectNone)},
		},
	}}
	// A remaining rule can have an old condition.
	if err := client.Delete(ctx, taints.ProbeName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	if _, err := client.Create(ctx, rule, metav1.CreateOptions{FieldManager: FieldManager}); err != nil {
		return false, err
	}
	defer func() {
		// The next probe deletes a rule that remains.
		_ = client.Delete(context.WithoutCancel(ctx), taints.ProbeName, metav1.DeleteOptions{})
	}()
	return p.wait(ctx, client)
}

// wait checks once a second whether the rule has a condition.
func (p RuleProbe) wait(ctx context.Context, client dynamic.NamespaceableResourceInterface) (bool, error) {
	limit := p.Answer
	if limit == 0 {
		limit = probeAnswer
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-tick.C:
		}
		rule, err := client.Get(ctx, taints.ProbeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if conditions, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions"); len(conditions) > 0 {
			return true, nil
		}
	}
}
