package review

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// Exempted is a finding that does not count for this write.
type Exempted struct {
	Finding
	// Reason is that of the exemption.
	Reason string
	// Place is where the configuration has the exemption, such as exemptions[0].
	Place string
}

// DefaultSystemUsers are the components whose writes are never denied where a site
// says nothing else: what they write follows from what others have written, which was
// checked then.
func DefaultSystemUsers() []string {
	return []string{
		"system:kube-scheduler",
		"system:serviceaccount:kube-system:resource-claim-controller",
		"system:kube-controller-manager",
	}
}

const systemReason = "written by a component of Kubernetes (systemUsers)"

// everyRule in the list of an exemption stands for all rules.
const everyRule = "*"

// exemptions are those of a site. The zero value exempts the default system users.
type exemptions struct {
	systemUsers []string
	list        []v1alpha1.Exemption
	// selectors are those of the list, at the same places.
	selectors []labels.Selector
}

// siteExemptions refuses exemptions that say too little; all of them in one error.
func siteExemptions(c v1alpha1.StewardConfiguration) (exemptions, error) {
	var errs []error
	var selectors []labels.Selector
	for i, e := range c.Exemptions {
		at := field.NewPath("exemptions").Index(i)
		required := func(name, what string) { errs = append(errs, field.Required(at.Child(name), what)) }
		if e.Reason == "" {
			required("reason", "say why, for who finds it in the audit log")
		}
		if e.Expires.IsZero() {
			required("expires", "set the end, such as 2026-12-31T00:00:00Z")
		}
		if len(e.Rules) == 0 {
			required("rules", `name the rules, or "*" for all`)
		}
		for j, id := range e.Rules {
			if !known(id) && !ruleid.IsPolicy(id) && !(id == everyRule && len(e.Rules) == 1) {
				errs = append(errs, field.Invalid(at.Child("rules").Index(j), id, noSuchRule(id)))
			}
		}
		if len(e.Namespaces)+len(e.Users)+len(e.Groups) == 0 && e.NamespaceSelector == nil {
			errs = append(errs, field.Required(at, "name namespaces, users or groups; for everybody there is rules.<ID>.severity"))
		}
		errs = append(errs, checkNamespaces(e.Namespaces, at.Child("namespaces")))
		selector, err := protectedSelector(c.ProtectedLabels, e.NamespaceSelector, at.Child("namespaceSelector"))
		errs, selectors = append(errs, err), append(selectors, selector)
	}
	return exemptions{c.SystemUsers, c.Exemptions, selectors}, errors.Join(errs...)
}

// Expired returns the exemptions that do not count any more at a time, by their places
// in the configuration.
func (r Reviewer) Expired(now time.Time) (places []int) {
	for i, e := range r.exemptions.list {
		if !e.Expires.After(now) {
			places = append(places, i)
		}
	}
	return places
}

// NextExpiry returns when the first of the exemptions in force expires, and the zero time if there is none.
func (r Reviewer) NextExpiry(now time.Time) (next time.Time) {
	for _, e := range r.exemptions.list {
		if e.Expires.After(now) && (next.IsZero() || e.Expires.Time.Before(next)) {
			next = e.Expires.Time
		}
	}
	return next
}

// reason returns why a rule does not count for a write, and the place of that in the
// configuration; no place if it counts. What policies say of a claim from a template has
// been weighed already.
func (r Reviewer) reason(rule string, req Request) (reason, place string) {
	x := r.exemptions
	if x.system(req) && !(ruleid.IsPolicy(rule) && x.generated(req)) {
		return systemReason, "systemUsers"
	}
	for i, e := range x.list {
		if e.Expires.After(req.Now) && names(e, rule) && r.inNamespace(i, req.Namespace) && by(e, req) {
			return e.Reason, field.NewPath("exemptions").Index(i).String()
		}
	}
	return "", ""
}

// SystemUser reports whether a user is one of the components of Kubernetes whose writes are
// never denied.
func (r Reviewer) SystemUser(name string) bool { return r.exemptions.systemUser(name) }

func (x exemptions) system(req Request) bool {
	return req.User != nil && x.systemUser(req.User.Username)
}

func (x exemptions) systemUser(name string) bool {
	users := x.systemUsers
	if users == nil {
		users = DefaultSystemUsers()
	}
	return slices.Contains(users, name)
}

// author is the user of req as the defaults see them.
func (r Reviewer) author(req Request) mutate.Author {
	if req.User == nil {
		return mutate.Author{}
	}
	return mutate.Author{User: req.User.Username, Groups: req.User.Groups, Component: r.exemptions.system(req) || r.keepsTolerations(req)}
}

// rewriting is the ID of the default that changes tolerations.
const rewriting = "toleration-rewrite"

// keepsTolerations reports whether an exemption names the rewriting of tolerations. "*" does not: it
// is for rules, and an author whom no rule refuses still gets the tolerations of the site.
func (r Reviewer) keepsTolerations(req Request) bool {
	for i, e := range r.exemptions.list {
		if slices.Contains(e.Rules, rewriting) && e.Expires.After(req.Now) && r.inNamespace(i, req.Namespace) && by(e, req) {
			return true
		}
	}
	return false
}

// names reports whether an exemption is one from a rule.
func names(e v1alpha1.Exemption, rule string) bool {
	return slices.Contains(e.Rules, rule) || slices.Contains(e.Rules, everyRule)
}

// inNamespace reports whether the exemption at a place is one in a namespace.
func (r Reviewer) inNamespace(place int, namespace string) bool {
	e, selector := r.exemptions.list[place], r.exemptions.selectors[place]
	if len(e.Namespaces) == 0 && selector == nil {
		return true
	}
	if namespace == "" {
		return false
	}
	if slices.Contains(e.Namespaces, namespace) {
		return true
	}
	if selector == nil || r.ClusterData == nil {
		return false
	}
	known := r.ClusterData.NamespaceLabels(namespace)
	return known != nil && selector.Matches(labels.Set(known))
}

// by reports whether an exemption is one for the author of a write.
func by(e v1alpha1.Exemption, req Request) bool {
	return len(e.Users)+len(e.Groups) == 0 || req.User != nil && (slices.Contains(e.Users, req.User.Username) ||
		slices.ContainsFunc(req.User.Groups, func(group string) bool { return slices.Contains(e.Groups, group) }))
}
