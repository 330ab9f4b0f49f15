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
func checkNamespaces(names []string, at *field.Path) (errs field.ErrorList) {
	for i, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), name, "no namespace has this name, and patterns are not supported: list the names"))
		}
	}
	return errs
}

// validateTolerations returns what could not be written or could never hold, all of it.
func validateTolerations(site *v1alpha1.Tolerations) (errs field.ErrorList) {
	if site == nil {
		return nil
	}
	for i, rule := range site.Rules {
		at := settingsPath.Child("tolerations", "rules").Index(i)
		if n := len(rule.Add); n > resourceapi.DeviceTolerationsMaxLength {
			errs = append(errs, field.TooMany(at.Child("add"), n, resourceapi.DeviceTolerationsMaxLength))
		}
		if len(rule.Add) == 0 && rule.DefaultSeconds == nil && rule.MaxSeconds == nil {
			errs = append(errs, field.Required(at, "changes nothing: set add, defaultSeconds or maxSeconds"))
		}
		errs = append(errs, checkNamespaces(rule.Namespaces, at.Child("namespaces"))...)
		errs = append(errs, validateSeconds(rule, at)...)
		for j, toleration := range rule.Add {
			if len(rule.Add) > resourceapi.DeviceTolerationsMaxLength {
				break
			}
			if err := validateAdded(toleration, at.Child("add").Index(j)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

func validateSeconds(rule v1alpha1.TolerationRule, at *field.Path) (errs field.ErrorList) {
	for _, seconds := range []struct {
		name  string
		value *int64
	}{{"defaultSeconds", rule.DefaultSeconds}, {"maxSeconds", rule.MaxSeconds}} {
		if seconds.value != nil && *seconds.value < 0 {
			errs = append(errs, field.Invalid(at.Child(seconds.name), *seconds.value, "must be 0 or more"))
		}
	}
	if rule.DefaultSeconds != nil && rule.MaxSeconds != nil && *rule.DefaultSeconds > *rule.MaxSeconds {
		errs = append(errs, field.Invalid(at.Child("defaultSeconds"), *rule.DefaultSeconds, fmt.Sprintf("must not be more than maxSeconds, %d", *rule.MaxSeconds)))
	}
	return errs
}

func validateAdded(t resourceapi.DeviceToleration, at *field.Path) *field.Error {
	switch {
	case t.Key == "":
		return field.Required(at.Child("key"), "a toleration for every taint would be added to every claim; name the key")
	case t.Operator != "" && t.Operator != resourceapi.DeviceTolerationOpEqual && t.Operator != resourceapi.DeviceTolerationOpExists:
		return field.NotSupported(at.Child("operator"), t.Operator, []resourceapi.DeviceTolerationOperator{resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists})
	case t.Operator == resourceapi.DeviceTolerationOpExists && t.Value != "":
		return field.Invalid(at.Child("value"), t.Value, "must be empty with the operator Exists")
	case t.Effect != resourceapi.DeviceTaintEffectNoSchedule && t.Effect != resourceapi.DeviceTaintEffectNoExecute:
		return field.NotSupported(at.Child("effect"), t.Effect, []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute})
	case t.TolerationSeconds != nil && t.Effect != resourceapi.DeviceTaintEffectNoExecute:
		return field.Invalid(at.Child("tolerationSeconds"), *t.TolerationSeconds, "only tolerations for NoExecute have seconds")
	}
	return nil
}
