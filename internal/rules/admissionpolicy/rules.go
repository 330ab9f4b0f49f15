package admissionpolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// FileName is the file next to a policy.rego that says the same in CEL.
const FileName = "admission.yaml"

// rules are the content of an admission.yaml.
type rules struct {
	// Violations say when an object violates the policy; one is enough.
	Violations []violation `json:"violations,omitempty"`
	// Partly is what the violations leave out, or report in addition.
	Partly string `json:"partly,omitempty"`
	// Impossible says why CEL cannot express the policy.
	Impossible string `json:"impossible,omitempty"`
}

type violation struct {
	// When is a CEL expression that is true for an object that violates the policy.
	When string `json:"when"`
	// Message is the problem and its remedy.
	Message string `json:"message"`
}

// errNone says that a policy has no admission.yaml.
var errNone = errors.New("there is no " + FileName + " next to it")

// rulesOf reads the rules from the source of the policy: what another source says is
// about another policy, even if that has the same code.
func rulesOf(m policy.Metadata, sources []policy.Collection) (r rules, _ error) {
	for _, source := range sources {
		file, of := strings.CutPrefix(m.File, source.Name+"/")
		if !of {
			continue
		}
		name := path.Join(path.Dir(file), FileName)
		data, err := fs.ReadFile(source.Files, name)
		at := source.Name + ": " + name
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return r, err
		}
		if err := yaml.UnmarshalStrict(data, &r); err != nil {
			return r, fmt.Errorf("%s: %w", at, err)
		}
		return r, r.check(at)
	}
	return r, errNone
}

func (r rules) check(at string) error {
	if (len(r.Violations) == 0) == (r.Impossible == "") {
		return fmt.Errorf("%s: needs either violations, each with when and message, or impossible with the reason", at)
	}
	if r.Partly != "" && r.Impossible != "" {
		return fmt.Errorf("%s: partly is about violations, and there are none", at)
	}
	for i, v := range r.Violations {
		if v.When == "" || v.Message == "" {
			return fmt.Errorf("%s: violations[%d]: needs when and message", at, i)
		}
	}
	return nil
}
