package mutate

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// tolerationEdit follows the changes of one list of tolerations. The list of the object
// stays as it is until the edit is done.
type tolerationEdit struct {
	list  tolerationList
	items []resourceapi.DeviceToleration
	Result
}

// edit returns what the site's settings make of list. Where a rule sets seconds, empty effects
// are expanded first: seconds count with NoExecute only. All rules add before the first
// one sets seconds, so that these hold for what was added, too, and a second time
// changes nothing.
func edit(list tolerationList, namespace string, author Author, site *v1alpha1.Tolerations) tolerationEdit {
	e := tolerationEdit{list: list, items: slices.Clone(*list.items)}
	expand := site.ExpandEmptyEffect
	var rules []*v1alpha1.TolerationRule
	for i := range site.Rules {
		if rule := &site.Rules[i]; selects(rule, list.class, namespace, author) {
			rules = append(rules, rule)
			expand = expand || rule.DefaultSeconds != nil || rule.MaxSeconds != nil
		}
	}
	if expand {
		e.expand()
	}
	for _, rule := range rules {
		e.add(rule.Add)
	}
	for _, rule := range rules {
		e.setSeconds(rule)
	}
	return e
}

func selects(rule *v1alpha1.TolerationRule, class, namespace string, author Author) bool {
	named := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return named(rule.Namespaces, namespace) && named(rule.DeviceClasses, class) && writtenBy(rule, author)
}

// MaxTolerationSeconds returns the smallest maxSeconds of the rules of a site that select a
// class, a namespace and an author, nil without any: no toleration that they have changed is longer.
func MaxTolerationSeconds(site *v1alpha1.Tolerations, class, namespace string, author Author) (limit *int64) {
	if site == nil || author.Component {
		return nil
	}
	for i := range site.Rules {
		rule := &site.Rules[i]
		if rule.MaxSeconds != nil && (limit == nil || *rule.MaxSeconds < *limit) && selects(rule, class, namespace, author) {
			limit = rule.MaxSeconds
		}
	}
	return limit
}

func writtenBy(rule *v1alpha1.TolerationRule, author Author) bool {
	return len(rule.Users)+len(rule.Groups) == 0 || slices.Contains(rule.Users, author.User) ||
		slices.ContainsFunc(author.Groups, func(group string) bool { return slices.Contains(rule.Groups, group) })
}

// expand leaves a list as it is in which the tolerations for NoExecute have no room.
func (e *tolerationEdit) expand() {
	var without []int
	for i, toleration := range e.items {
		if toleration.Effect == "" {
			without = append(without, i)
		}
	}
	if n := len(e.items) + len(without); n > resourceapi.DeviceTolerationsMaxLength {
		if len(without) > 0 {
			e.warn("%d tolerations have no effect and were not expanded into NoSchedule and NoExecute: %d tolerations would be more than %d; write the effects that are needed",
				len(without), n, resourceapi.DeviceTolerationsMaxLength)
		}
		return
	}
	for _, i := range without {
		e.set(i, "effect", resourceapi.DeviceTaintEffectNoSchedule)
		e.items[i].Effect = resourceapi.DeviceTaintEffectNoSchedule
		if e.items[i].TolerationSeconds != nil {
			e.set(i, "tolerationSeconds", nil)
			e.items[i].TolerationSeconds = nil
		}
		evicting := e.items[i]
		evicting.Effect = resourceapi.DeviceTaintEffectNoExecute
		e.append(evicting)
	}
}

// add appends those of tolerations that the list does not have, all or none of them.
func (e *tolerationEdit) add(tolerations []resourceapi.DeviceToleration) {
	var missing []resourceapi.DeviceToleration
	for _, toleration := range tolerations {
		if toleration.Operator == "" {
			toleration.Operator = resourceapi.DeviceTolerationOpEqual
		}
		same := func(other resourceapi.DeviceToleration) bool {
			other.TolerationSeconds = toleration.TolerationSeconds
			return equality.Semantic.DeepEqual(other, toleration)
		}
		if !slices.ContainsFunc(e.items, same) && !slices.ContainsFunc(missing, same) {
			missing = append(missing, toleration)
		}
	}
	if n := len(e.items) + len(missing); n > resourceapi.DeviceTolerationsMaxLength {
		e.warn("%d tolerations of this site were not added: %d would be more than %d", len(missing), n, resourceapi.DeviceTolerationsMaxLength)
		return
	}
	for _, toleration := range missing {
		e.append(toleration)
	}
}

func (e *tolerationEdit) setSeconds(rule *v1alpha1.TolerationRule) {
	for i := range e.items {
		if e.items[i].Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue
		}
		seconds := e.items[i].TolerationSeconds
		if seconds == nil {
			seconds = rule.DefaultSeconds
		}
		if rule.MaxSeconds != nil && (seconds == nil || *seconds > *rule.MaxSeconds) {
			seconds = rule.MaxSeconds
		}
		if !equality.Semantic.DeepEqual(seconds, e.items[i].TolerationSeconds) {
			e.set(i, "tolerationSeconds", *seconds)
			e.items[i].TolerationSeconds = new(*seconds)
		}
	}
}

// set notes the change of one field, so that fields which we do not know survive.
func (e *tolerationEdit) set(item int, field string, value any) {
	e.Changes = append(e.Changes, Change{Pointer: fmt.Sprintf("%s/%d/%s", e.list.pointer, item, field), Value: value})
}

func (e *tolerationEdit) append(toleration resourceapi.DeviceToleration) {
	change := Change{Pointer: e.list.pointer + "/-", Value: toleration}
	if len(e.items) == 0 {
		change = Change{Pointer: e.list.pointer, Value: []resourceapi.DeviceToleration{toleration}}
	}
	e.items = append(e.items, toleration)
	e.Changes = append(e.Changes, change)
}

func (e *tolerationEdit) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, Warning{Path: e.list.path, Message: fmt.Sprintf(format, args...)})
}

// checkNamespaces refuses what no namespace is named, such as a pattern: it would match nothing.
func checkNamespaces(names []string, at *field.Path) error {
	for i, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return field.Invalid(at.Index(i), name, "no namespace has this name, and patterns are not supported: list the names")
		}
	}
	return nil
}

// validateTolerations refuses what could not be written or could never hold.
func validateTolerations(site *v1alpha1.Tolerations) error {
	if site == nil {
		return nil
	}
	for i, rule := range site.Rules {
		at := fmt.Sprintf("defaults.tolerations.rules[%d]", i)
		if len(rule.Add) > resourceapi.DeviceTolerationsMaxLength {
			return fmt.Errorf("%s.add: %d tolerations: must have at most %d", at, len(rule.Add), resourceapi.DeviceTolerationsMaxLength)
		}
		if len(rule.Add) == 0 && rule.DefaultSeconds == nil && rule.MaxSeconds == nil {
			return fmt.Errorf("%s: changes nothing: set add, defaultSeconds or maxSeconds", at)
		}
		if err := checkNamespaces(rule.Namespaces, settingsPath.Child("tolerations", "rules").Index(i).Child("namespaces")); err != nil {
			return err
		}
		for name, seconds := range map[string]*int64{"defaultSeconds": rule.DefaultSeconds, "maxSeconds": rule.MaxSeconds} {
			if seconds != nil && *seconds < 0 {
				return fmt.Errorf("%s.%s: %d: must be 0 or more", at, name, *seconds)
			}
		}
		if rule.DefaultSeconds != nil && rule.MaxSeconds != nil && *rule.DefaultSeconds > *rule.MaxSeconds {
			return fmt.Errorf("%s.defaultSeconds: %d: must not be more than maxSeconds, %d", at, *rule.DefaultSeconds, *rule.MaxSeconds)
		}
		for j, toleration := range rule.Add {
			if err := validateAdded(toleration); err != nil {
				return fmt.Errorf("%s.add[%d]%w", at, j, err)
			}
		}
	}
	return nil
}

func validateAdded(t resourceapi.DeviceToleration) error {
	switch {
	case t.Key == "":
		return fmt.Errorf(".key: is empty: a toleration for every taint would be added to every claim; name the key")
	case t.Operator != "" && t.Operator != resourceapi.DeviceTolerationOpEqual && t.Operator != resourceapi.DeviceTolerationOpExists:
		return fmt.Errorf(".operator: %q: must be Equal or Exists", t.Operator)
	case t.Operator == resourceapi.DeviceTolerationOpExists && t.Value != "":
		return fmt.Errorf(".value: %q: must be empty with the operator Exists", t.Value)
	case t.Effect != resourceapi.DeviceTaintEffectNoSchedule && t.Effect != resourceapi.DeviceTaintEffectNoExecute:
		return fmt.Errorf(".effect: %q: must be NoSchedule or NoExecute", t.Effect)
	case t.TolerationSeconds != nil && t.Effect != resourceapi.DeviceTaintEffectNoExecute:
		return fmt.Errorf(".tolerationSeconds: only tolerations for NoExecute have seconds")
	}
	return nil
}
