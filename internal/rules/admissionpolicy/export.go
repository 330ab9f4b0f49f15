package admissionpolicy

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Options select what is exported.
type Options struct {
	// Sources are what the policies are compiled from.
	Sources []policy.Collection
	// Engine knows the modes and parameters of the site.
	Engine *policy.Engine
	// Overridden are the namespaces in which the site has other modes or parameters.
	Overridden []string
	// Exemptions are those of the site, SystemUsers the components of Kubernetes that
	// are not checked.
	Exemptions  []v1alpha1.Exemption
	SystemUsers []string
	// ExcludedNamespaces are not checked at all.
	ExcludedNamespaces []string
	// Tolerations is the number of tolerations in all requests of a claim that are checked:
	// the policies.limits.tolerations of the site. 0 is the default.
	Tolerations int
	// Now is the time by which exemptions have expired.
	Now time.Time
}

// An Exported is what CEL can say of a site's policies.
type Exported struct {
	Policies []admissionv1.ValidatingAdmissionPolicy
	Bindings []admissionv1.ValidatingAdmissionPolicyBinding
	// Left is what is not the same or not there.
	Left []Left
}

// A Left is something that CEL cannot say.
type Left struct {
	// Code is that of the policy.
	Code string
	// Reason is what is missing, and why.
	Reason string
}

// Export writes all policies that are in force somewhere.
func Export(o Options) (Exported, error) {
	var out Exported
	var errs []error
	for _, m := range o.Engine.Set().Policies() {
		scopes := o.scopes(m.Code)
		if len(scopes) == 0 {
			continue
		}
		r, err := rulesOf(m, o.Sources)
		switch {
		case errors.Is(err, errNone):
			out.Left = append(out.Left, Left{m.Code, err.Error()})
		case err != nil:
			errs = append(errs, err)
		case r.Impossible != "":
			out.Left = append(out.Left, Left{m.Code, r.Impossible})
		default:
			if r.Partly != "" {
				out.Left = append(out.Left, Left{m.Code, r.Partly})
			}
			errs = append(errs, out.add(o, m, r, scopes))
		}
	}
	return out, errors.Join(errs...)
}

// A scope is where a policy has one mode and one set of parameters.
type scope struct {
	mode       policy.Mode
	parameters map[string]any
	// namespaces are those of the scope, or with others all but these.
	namespaces []string
	others     bool
}

// scopes are those in which a policy is in force. The first one is that of the cluster.
func (o Options) scopes(code string) []scope {
	at := func(namespace string) scope {
		return scope{mode: o.Engine.Mode(code, namespace), parameters: o.Engine.Parameters(code, namespace)}
	}
	all := []scope{at("")}
	all[0].others = true
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(o.Overridden))) {
		here := at(namespace)
		same := func(s scope) bool { return s.mode == here.mode && reflect.DeepEqual(s.parameters, here.parameters) }
		if same(all[0]) {
			continue
		}
		all[0].namespaces = append(all[0].namespaces, namespace)
		if i := slices.IndexFunc(all[1:], same); i >= 0 {
			all[1+i].namespaces = append(all[1+i].namespaces, namespace)
			continue
		}
		here.namespaces = []string{namespace}
		all = append(all, here)
	}
	return slices.DeleteFunc(all, func(s scope) bool { return s.mode == policy.Off })
}

func (e *Exported) add(o Options, m policy.Metadata, r rules, scopes []scope) error {
	for i, s := range scopes {
		name := "dra-steward-" + strings.ToLower(m.Code)
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		exempt, left := o.exempt(m.Code)
		if i == 0 {
			e.Left = append(e.Left, left...)
		}
		for _, p := range partsOf(name, m.Kinds) {
			one, err := o.policy(p, m, r, s, exempt)
			if err != nil {
				return fmt.Errorf("%s: %w", m.Code, err)
			}
			e.Policies = append(e.Policies, one)
			e.Bindings = append(e.Bindings, binding(p.name, m, p.mode(s.mode)))
		}
	}
	return nil
}

// exempt returns the match conditions of the exemptions that hold now.
func (o Options) exempt(code string) (conditions []admissionv1.MatchCondition, left []Left) {
	for i, e := range o.Exemptions {
		if !e.Expires.After(o.Now) || !slices.Contains(e.Rules, code) && !slices.Contains(e.Rules, "*") {
			continue
		}
		if e.NamespaceSelector != nil {
			left = append(left, Left{code, fmt.Sprintf("the exemption %q selects namespaces by labels, which match conditions do not see: it is left out", e.Reason)})
			continue
		}
		var who []string
		if len(e.Users) > 0 {
			who = append(who, "request.userInfo.username in "+literal(e.Users))
		}
		if len(e.Groups) > 0 {
			who = append(who, "request.userInfo.groups.exists(group, group in "+literal(e.Groups)+")")
		}
		all := []string{"true"}
		if len(who) > 0 {
			all = []string{"(" + strings.Join(who, " || ") + ")"}
		}
		if len(e.Namespaces) > 0 {
			all = append(all, requestNamespace+" in "+literal(e.Namespaces))
		}
		conditions = append(conditions, admissionv1.MatchCondition{
			Name: fmt.Sprintf("exemption-%d", i), Expression: "!(" + strings.Join(all, " && ") + ")"})
		left = append(left, Left{code, fmt.Sprintf("the exemption %q ends at %s, which CEL cannot know: export again by then",
			e.Reason, e.Expires.UTC().Format(time.RFC3339))})
	}
	return conditions, left
}

// parameterNames are the names of a scope's parameters in order.
func (s scope) parameterNames() []string { return slices.Sorted(maps.Keys(s.parameters)) }
