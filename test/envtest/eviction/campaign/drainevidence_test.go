package campaign

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/drainoracle"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

const (
	// drainWork is the time that an undisturbed leader has for a step of a drain. After a refusal by a budget
	// it tries again after 10 s.
	drainWork = 20 * time.Second
	// flight is the time from a decision until the API server receives the request.
	flight = 2 * time.Second
	// leaving is how much longer than its grace period a pod takes to leave.
	leaving = 2 * time.Second
	// cordonKey is the key of the taint of a cordon.
	cordonKey = "dra-steward.io/drain"
)

// submit creates a drain, and learns its time.
func (s *drainScene) submit(ctx context.Context, d *drain, object *v1alpha1.DeviceDrain) (err error) {
	object.APIVersion, object.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	d.Begin, err = s.w.write(ctx, func(ctx context.Context) error {
		created, err := s.client.Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = s.client.Get(ctx, d.Name, metav1.GetOptions{})
		}
		if err == nil {
			d.created = created.GetCreationTimestamp().Time
		}
		return err
	})
	return err
}

// sample reads the rules, then the drains, then the pods.
func (s *drainScene) sample(ctx context.Context) error {
	var rules *resourceapi.DeviceTaintRuleList
	var drains *unstructured.UnstructuredList
	var pods *corev1.PodList
	m, err := s.w.write(ctx, func(ctx context.Context) (err error) {
		if rules, err = s.w.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		if drains, err = s.client.List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		pods, err = s.w.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: mineLabel})
		return err
	})
	if err != nil {
		return err
	}
	one := drainoracle.Sample{Moment: m, Drains: map[string]drainoracle.State{}}
	s.stored = map[string]drainoracle.Rule{}
	for i := range rules.Items {
		if rule, is := cordonOf(&rules.Items[i]); is {
			s.stored[rules.Items[i].Name] = rule
			one.Rules = append(one.Rules, rule)
		}
	}
	s.ended = map[string]bool{}
	for i := range drains.Items {
		name := drains.Items[i].GetName()
		state, err := stateOf(&drains.Items[i])
		if err != nil {
			return err
		}
		one.Drains[name], s.ended[name] = state, state.Drained || state.Failed
	}
	s.h.Samples = append(s.h.Samples, one)
	return s.follow(ctx, pods)
}

// cordonOf returns which device a rule cordons, and for which drain.
func cordonOf(rule *resourceapi.DeviceTaintRule) (drainoracle.Rule, bool) {
	taint, selector := rule.Spec.Taint, rule.Spec.DeviceSelector
	if taint.Key != cordonKey || taint.Effect != resourceapi.DeviceTaintEffectNoSchedule || selector == nil || selector.Driver == nil || selector.Pool == nil {
		return drainoracle.Rule{}, false
	}
	device := oracle.Device{Driver: *selector.Driver, Pool: *selector.Pool}
	if selector.Device != nil {
		device.Name = *selector.Device
	}
	return drainoracle.Rule{Drain: taint.Value, Device: device}, true
}

func stateOf(object *unstructured.Unstructured) (state drainoracle.State, err error) {
	d := &v1alpha1.DeviceDrain{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
		return state, err
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainDrained); c != nil && c.Status == metav1.ConditionTrue {
		state.Drained, state.Since = true, c.LastTransitionTime.Time
	}
	state.Failed = meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainFailed)
	return state, nil
}

// follow wakes the faults when pods leave, and forgets those that are gone.
func (s *drainScene) follow(ctx context.Context, pods *corev1.PodList) error {
	there := map[string]bool{}
	clear(s.h.Left)
	for i := range pods.Items {
		uid := string(pods.Items[i].UID)
		there[uid] = true
		if pods.Items[i].DeletionTimestamp == nil {
			s.h.Left[uid] = true
		} else if !s.ending[uid] {
			s.ending[uid] = true
			select {
			case s.working <- struct{}{}:
			default:
			}
		}
	}
	return s.prune(ctx, there)
}

// tamper deletes a rule of a drain, or takes its effect away, as a user does it.
func (s *drainScene) tamper(ctx context.Context) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if slices.ContainsFunc(s.active, func(d *drain) bool { return d.Name == s.stored[name].Drain }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	name, rules := pick(s, names...), s.w.ResourceV1().DeviceTaintRules()
	change := func(ctx context.Context) error { return missing(rules.Delete(ctx, name, metav1.DeleteOptions{})) }
	if s.chance(50) {
		body := fmt.Appendf(nil, `{"spec": {"taint": {"effect": %q}}}`, resourceapi.DeviceTaintEffectNone)
		change = func(ctx context.Context) error {
			_, err := rules.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			return missing(err)
		}
	}
	m, err := s.w.write(ctx, change)
	s.h.Tampered = append(s.h.Tampered, drainoracle.Tampering{Rule: s.stored[name], Moment: m})
	return err
}

// evidence reads the audit log.
func (s *drainScene) evidence(t *testing.T) {
	t.Helper()
	s.w.audited(t, func(e *entry) {
		mine := e.User.Username == controller.User
		switch {
		case e.ObjectRef.Resource == "devicetaintrules":
			if d := e.drain(); mine && e.ResponseStatus.Code < 300 && d != "" {
				s.h.Writes = append(s.h.Writes, drainoracle.Write{At: e.RequestReceivedTimestamp, Drain: d})
			}
		case !slices.Contains(drainNamespaces(), e.ObjectRef.Namespace):
		case mine:
			s.removal(t, e)
		case e.Verb == "delete" && e.ResponseStatus.Code < 300 && e.RequestObject.GracePeriodSeconds != nil && *e.RequestObject.GracePeriodSeconds == 0:
			s.gone(e.RequestObject.Preconditions.UID, e.RequestReceivedTimestamp)
		}
	})
	s.instant()
}

// check holds what was done against what the oracle says.
func (s *drainScene) check(t *testing.T) {
	t.Helper()
	s.evidence(t)
	s.checked = s.h.Check()
	for _, v := range s.checked {
		t.Error(v)
	}
}

// drain is the name of the drain of the rule that a request writes.
func (e *entry) drain() string {
	if taint := e.RequestObject.Spec.Taint; e.Verb != "delete" && taint.Key == cordonKey {
		return taint.Value
	}
	return ""
}

// removal adds an eviction or deletion by the controller.
func (s *drainScene) removal(t *testing.T, e *entry) {
	r := drainoracle.Removal{At: e.RequestReceivedTimestamp, Pod: e.RequestObject.DeleteOptions.Preconditions.UID}
	if e.Verb == "delete" {
		r.Delete, r.Pod = true, e.RequestObject.Preconditions.UID
	}
	if r.Pod == "" {
		t.Errorf("%s of %s/%s without the UID as a precondition", e.Verb, e.ObjectRef.Namespace, e.ObjectRef.Name)
	}
	switch code := e.ResponseStatus.Code; {
	case code >= 500 || code == 0:
		r.Unanswered = true
	case code >= 300:
		return
	}
	s.h.Removals = append(s.h.Removals, r)
}

// gone notes the first time when a pod was removed.
func (s *drainScene) gone(uid string, at time.Time) {
	if before, known := s.h.Gone[uid]; uid != "" && (!known || at.Before(before)) {
		s.h.Gone[uid] = at
	}
}

// instant notes that pods without a grace period are gone when they are deleted.
func (s *drainScene) instant() {
	for _, p := range s.h.Pods {
		if _, known := s.h.Gone[p.UID]; known || s.h.Left[p.UID] {
			continue
		}
		for _, r := range s.h.Removals {
			if r.Pod == p.UID {
				s.gone(p.UID, r.At)
			}
		}
		if !p.End.Never() {
			s.gone(p.UID, p.End.Latest)
		}
	}
}

// checkPlanted fails unless the oracle finds what is added to the history and what is left out of it.
func (s *drainScene) checkPlanted(t *testing.T) {
	t.Helper()
	removals := s.h.Removals
	defer func() { s.h.Removals = removals }()
	i := slices.IndexFunc(removals, func(r drainoracle.Removal) bool { return !r.Unanswered })
	kept := slices.IndexFunc(s.h.Pods, func(p *drainoracle.Pod) bool {
		return !slices.ContainsFunc(removals, func(r drainoracle.Removal) bool { return r.Pod == p.UID })
	})
	if i < 0 || kept < 0 {
		t.Error("no pod was evicted, or none was kept")
		return
	}
	unknown := drainoracle.Removal{Pod: s.h.Pods[kept].UID, At: s.h.Pods[kept].Begin.Earliest}
	for kind, planted := range map[drainoracle.Kind][]drainoracle.Removal{
		drainoracle.Wrong: append(slices.Clone(removals), unknown),
		drainoracle.Twice: append(slices.Clone(removals), removals[i]),
		drainoracle.Lost:  slices.Delete(slices.Clone(removals), i, i+1),
	} {
		before := countKinds(s.checked)[kind]
		s.h.Removals = planted
		if countKinds(s.h.Check())[kind] <= before {
			t.Errorf("a planted history that is %s is not found", kind)
		}
	}
}

func countKinds(all []drainoracle.Violation) map[drainoracle.Kind]int {
	counts := map[drainoracle.Kind]int{}
	for _, v := range all {
		counts[v.Kind]++
	}
	return counts
}

// summary is the result in words.
func (s *drainScene) summary() string {
	evicted, deleted, open := s.removed()
	counts, parts := countKinds(s.checked), []string{}
	for _, kind := range drainoracle.Kinds() {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return fmt.Sprintf("%d drains, %d pods, %d evictions, %d deletions, %d without an answer, %d samples: %s",
		len(s.h.Drains), len(s.h.Pods), evicted, deleted, open, len(s.h.Samples), strings.Join(parts, ", "))
}

func (s *drainScene) removed() (evicted, deleted, open int) {
	for _, r := range s.h.Removals {
		switch {
		case r.Unanswered:
			open++
		case r.Delete:
			deleted++
		default:
			evicted++
		}
	}
	return evicted, deleted, open
}
