package evictor

import (
	"context"
	"fmt"
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
)

const (
	// ProbeCount is how many probes in a row must have had no answer until the
	// controller in kube-controller-manager is called absent, and ProbeSpan how far at
	// least the first and the last of them are apart: a failover takes less.
	ProbeCount = 3
	ProbeSpan  = 2 * time.Minute
	// ProbePeriod is the time between two probes that count.
	ProbePeriod = ProbeSpan / (ProbeCount - 1)
	// ProbeAnswer is how long the other controller has to answer one.
	ProbeAnswer = 20 * time.Second
)

// A Source is where taints come from.
type Source uint8

const (
	// SliceSource are taints that drivers publish.
	SliceSource Source = iota
	// RuleSource are taints of DeviceTaintRules.
	RuleSource
)

// String is what metrics and logs say.
func (s Source) String() string { return [...]string{"slices", "rules"}[s] }

// A Presence says whether the controller in kube-controller-manager evicts.
type Presence uint8

const (
	// Unknown is the beginning: then nobody is evicted.
	Unknown Presence = iota
	// Present means that it does.
	Present
	// Absent means that it does not.
	Absent
)

// String is what metrics and logs say.
func (p Presence) String() string { return [...]string{"unknown", "present", "absent"}[p] }

// Coexistence finds out, for each source of taints, whether the controller in
// kube-controller-manager evicts, from what is seen of it. The first sign of it counts at
// once; its absence only after [ProbeCount] probes without an answer over [ProbeSpan].
// The zero value knows nothing. It has no clock: times come with what was seen, and do
// not run backwards.
type Coexistence struct {
	slices, rules sourceCoexistence
}

type sourceCoexistence struct {
	presence Presence
	// unanswered probes in a row, from first to last.
	unanswered  int
	first, last time.Time
}

func (c *Coexistence) of(s Source) *sourceCoexistence {
	if s == RuleSource {
		return &c.rules
	}
	return &c.slices
}

// Presence is what is known of a source.
func (c *Coexistence) Presence(s Source) Presence { return c.of(s).presence }

// Seen notes that the other controller has done something for a source. The one that
// evicts for rules evicts for slices, too: it is one controller, with a feature gate.
func (c *Coexistence) Seen(s Source) {
	c.slices = sourceCoexistence{presence: Present}
	if s == RuleSource {
		c.rules = sourceCoexistence{presence: Present}
	}
}

// Unanswered notes a probe that the other controller has not answered. Those that
// follow another by less than [ProbePeriod] do not count.
func (c *Coexistence) Unanswered(s Source, now time.Time) {
	of := c.of(s)
	switch {
	case of.unanswered == 0:
		of.first = now
	case now.Sub(of.last) < ProbePeriod:
		return
	}
	of.unanswered++
	of.last = now
	if of.unanswered >= ProbeCount && now.Sub(of.first) >= ProbeSpan {
		of.presence = Absent
	}
}

// Shares are our part.
func (c *Coexistence) Shares() Shares {
	return Shares{Slices: c.slices.shares(), Rules: c.rules.shares()}
}

func (s sourceCoexistence) shares() ClassShares {
	switch s.presence {
	case Present:
		return presentShare
	case Absent:
		return absentShare
	}
	return ClassShares{}
}

// A Prober asks the controller in kube-controller-manager for a sign of life.
type Prober interface {
	// Probe returns whether there was an answer within [ProbeAnswer]. An error is no
	// answer, and not the lack of one either: nobody could ask.
	Probe(context.Context) (answered bool, err error)
}

// probe asks again and again, and looks whether pods are left alone that the other
// controller would have evicted.
func (c *Controller) probe(ctx context.Context) {
	for {
		answered, err := c.options.Prober.Probe(ctx)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		c.coexistence(func(o *Coexistence) {
			switch {
			case err != nil:
			case answered:
				o.Seen(RuleSource)
			default:
				o.Unanswered(RuleSource, now)
			}
			for source, left := range c.leftAlone(now) {
				if left {
					o.Unanswered(source, now)
				}
			}
		})
		if err != nil {
			c.options.Logger.V(1).Info("Asking for the other controller failed", "error", err.Error())
		}
		wait := time.NewTimer(ProbePeriod)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// coexistence changes what is known of the other controller, and what is ours with it.
func (c *Controller) coexistence(learn func(*Coexistence)) {
	var before, after Coexistence
	c.finish(func() {
		before = c.coexist
		learn(&c.coexist)
		after = c.coexist
	})
	if before.Shares() == after.Shares() {
		return
	}
	shares := after.Shares()
	c.options.Logger.Info("What kube-controller-manager evicts has changed", "slices", after.slices.presence.String(), "rules", after.rules.presence.String())
	c.options.Metrics.inTree(after)
	c.report(corev1.EventTypeNormal, "ModeChanged", "The controller in kube-controller-manager is "+
		after.slices.presence.String()+" for taints in slices, and "+after.rules.presence.String()+" for DeviceTaintRules.")
	c.look(func(o *outlook) { o.shares = shares })
}

// leftAlone says for which sources there are pods without extended resources that have
// been due, and known to be, for so long that the other controller would have evicted
// them. Such a pod is a probe that nobody had to make. The mutex is held.
func (c *Controller) leftAlone(now time.Time) map[Source]bool {
	left := map[Source]bool{}
	for known := range c.cases.all() {
		if known.stage == done || known.stage == acting {
			continue
		}
		for _, r := range known.verdict.verdict().Reasons {
			due := r.At
			if seen := c.cases.clock.time(known.seen); seen.After(due) {
				due = seen
			}
			if !r.ExtendedResource && now.Sub(due) >= ProbeAnswer && !known.taken {
				left[sourceOf(r)] = true
			}
		}
	}
	return left
}

func sourceOf(r Reason) Source {
	if r.Taint.FromRule() {
		return RuleSource
	}
	return SliceSource
}

// notice learns from a pod which the other controller evicts. Old conditions say
// nothing: whoever wrote them can be gone. The mutex is held.
func (c *Controller) notice(pod *corev1.Pod, now time.Time) (seen bool) {
	condition := disruption(pod)
	if known := c.cases.of(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); known != nil && known.uid == pod.UID {
		known.taken = disrupted(pod)
	}
	return c.options.Mode == ModeAuto && condition != nil && condition.Reason == inTreeReason &&
		now.Sub(condition.LastTransitionTime.Time) < ProbeSpan
}

// noticeRule learns from the status of a rule, which the other controller writes.
func (c *Controller) noticeRule(before, after *resourceapi.DeviceTaintRule, wrote *metav1.Condition) bool {
	if c.options.Mode != ModeAuto || before == nil || after == nil {
		return false
	}
	had := findCondition(before, resourceapi.DeviceTaintConditionEvictionInProgress)
	has := findCondition(after, resourceapi.DeviceTaintConditionEvictionInProgress)
	return has != nil && !sameCondition(had, has) && !sameCondition(wrote, has)
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration &&
		strings.TrimSpace(a.Message) == strings.TrimSpace(b.Message) && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// ProbeName is the DeviceTaintRule that a [RuleProber] makes and removes. It selects a
// driver that does not exist and has the effect None.
const ProbeName = "dra-steward-probe"

// RuleProber makes a DeviceTaintRule that does nothing: the controller in
// kube-controller-manager writes a condition into its status, if it knows rules.
type RuleProber struct {
	Client dynamic.Interface
	// Answer is how long to wait, [ProbeAnswer] if zero.
	Answer time.Duration
}

// Probe implements [Prober]. It takes the newest version of the API that is served.
func (p RuleProber) Probe(ctx context.Context) (answered bool, err error) {
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		client := p.Client.Resource(schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"})
		if answered, err = p.probe(ctx, client, version); !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("DeviceTaintRule %s: %w", ProbeName, err)
	}
	return answered, nil
}

func (p RuleProber) probe(ctx context.Context, client dynamic.NamespaceableResourceInterface, version string) (answered bool, err error) {
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourceapi.GroupName + "/" + version, "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": ProbeName},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": "probe.dra-steward.io", "pool": "none", "device": "none"},
			"taint":          map[string]any{"key": "dra-steward.io/probe", "effect": string(resourceapi.DeviceTaintEffectNone)},
		},
	}}
	// One that was left behind could have an answer from long ago.
	if err := client.Delete(ctx, ProbeName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	if _, err := client.Create(ctx, rule, metav1.CreateOptions{FieldManager: FieldManager}); err != nil {
		return false, err
	}
	defer func() {
		// What is left behind is deleted by the next one.
		_ = client.Delete(context.WithoutCancel(ctx), ProbeName, metav1.DeleteOptions{})
	}()
	return p.wait(ctx, client)
}

// wait looks once a second whether somebody has written a condition.
func (p RuleProber) wait(ctx context.Context, client dynamic.NamespaceableResourceInterface) (bool, error) {
	limit := p.Answer
	if limit == 0 {
		limit = ProbeAnswer
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
		rule, err := client.Get(ctx, ProbeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if conditions, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions"); len(conditions) > 0 {
			return true, nil
		}
	}
}
