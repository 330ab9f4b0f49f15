package policyload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// libraryPrefix begins the codes of the library. A site's own codes begin otherwise.
const libraryPrefix = "DRA-"

// Check returns an error for each setting of a policy or a parameter that the set does not
// have, with its place and the nearest name: such a setting has no effect. With
// ownCodesLater, a site's own codes may be missing, because ConfigMaps add and remove them.
func Check(set *policy.Set, c v1alpha1.StewardConfiguration, ownCodesLater bool) error {
	u := unknown{set: set, ownCodesLater: ownCodesLater}
	for _, p := range set.Policies() {
		u.codes = append(u.codes, p.Code)
	}
	at := field.NewPath("policies")
	u.settings(at, c.Policies.Modes, c.Policies.Parameters)
	for i, n := range c.Policies.Namespaces {
		u.settings(at.Child("namespaces").Index(i), n.Modes, n.Parameters)
	}
	for i, e := range c.Exemptions {
		for j, id := range e.Rules {
			if ruleid.IsPolicy(id) {
				u.code(field.NewPath("exemptions").Index(i).Child("rules").Index(j), id)
			}
		}
	}
	return errors.Join(u.errs...)
}

// unknown collects the settings of what the set does not have.
type unknown struct {
	set           *policy.Set
	codes         []string
	ownCodesLater bool
	errs          []error
}

func (u *unknown) settings(at *field.Path, modes map[string]v1alpha1.PolicyMode, parameters map[string]json.RawMessage) {
	for _, code := range slices.Sorted(maps.Keys(modes)) {
		u.code(at.Child("modes").Key(code), code)
	}
	for _, code := range slices.Sorted(maps.Keys(parameters)) {
		u.code(at.Child("parameters").Key(code), code)
		u.parameters(at.Child("parameters").Key(code), code, parameters[code])
	}
}

func (u *unknown) code(at *field.Path, code string) {
	if slices.Contains(u.codes, code) || u.ownCodesLater && !strings.HasPrefix(code, libraryPrefix) {
		return
	}
	hint := `"dra-steward policy list" lists all`
	if near := manifest.Nearest(code, u.codes); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	u.errs = append(u.errs, field.Invalid(at, code, "there is no policy with this code; "+hint))
}

// parameters reports the parameters that a policy of the set does not have. Values of the
// wrong form are reported where the engine is made.
func (u *unknown) parameters(at *field.Path, code string, raw json.RawMessage) {
	p, found := u.set.Policy(code)
	var values map[string]json.RawMessage
	if !found || json.Unmarshal(raw, &values) != nil {
		return
	}
	known, _ := p.Parameters["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(names, name) {
			continue
		}
		hint := "it has no parameters"
		if near := manifest.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		} else if len(names) > 0 {
			hint = "it has " + strings.Join(names, ", ")
		}
		u.errs = append(u.errs, field.Invalid(at.Child(name), name, fmt.Sprintf("policy %s has no parameter of this name; %s", code, hint)))
	}
}
