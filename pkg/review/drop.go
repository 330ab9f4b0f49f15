package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// drop removes from obj what the API server of profile does not keep and reports
// every value that is lost.
func drop[T any](drops apiserver.Drops[*T], old, obj *T, profile apiserver.Profile) ([]Finding, error) {
	var findings []Finding
	for i := range drops {
		if !drops[i].Uses(obj) {
			continue
		}
		before, err := tree(obj)
		if err != nil {
			return nil, err
		}
		for _, lost := range drops[i:i+1].Apply(old, obj, old != nil, profile) {
			after, err := tree(obj)
			if err != nil {
				return nil, err
			}
			_, why, _ := strings.Cut(lost, " are ")
			for _, path := range missing("", before, after) {
				findings = append(findings, Finding{ruleid.FieldDropped, validate.Warning, field.ErrorTypeForbidden, path,
					fmt.Sprintf("%s in Kubernetes 1.%d: the object would be stored without it", why, profile.EffectiveMinor())})
			}
		}
	}
	return findings, nil
}

func tree(obj any) (out any, err error) {
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// missing lists the paths of the values that before has and after has not. Items of a
// list that has become shorter are not told apart: then it is the list that is named.
func missing(path string, before, after any) (paths []string) {
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if kept, ok := after[key]; ok {
				paths = append(paths, missing(at, before[key], kept)...)
			} else {
				paths = append(paths, at)
			}
		}
	case []any:
		after, _ := after.([]any)
		if len(after) != len(before) {
			return []string{path}
		}
		for i := range before {
			paths = append(paths, missing(itemPath(path, i, before[i]), before[i], after[i])...)
		}
	}
	return paths
}

// itemPath names an item as the rules do: by its name, if it has one.
func itemPath(list string, index int, item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	switch {
	case name == "":
		return fmt.Sprintf("%s[%d]", list, index)
	case strings.Trim(name, "0123456789") == "":
		return fmt.Sprintf("%s[name=%s]", list, name)
	default:
		return fmt.Sprintf("%s[%s]", list, name)
	}
}

// preAdmission finds what only a mutating webhook sees, for it comes before the API server has
// looked: the fields that the server is about to drop in silence, so far as its version
// is known, and what would crash it. Whatever a driver publishes, that fields are dropped
// is only worth a warning.
func (k kindOf[T]) preAdmission(r Reviewer, answer *Answer, obj *T, req Request, old func() (*T, error), severities severities) error {
	answer.add(k.rules.PreAdmission(obj, validate.Conditions{Profile: r.Profile}), k.warnOnly, severities)
	if r.Profile.Minor == 0 || !k.drops.Threatens(obj, r.Profile) {
		return nil
	}
	obj, err := k.object(r, req) // once more, for what is dropped is taken out
	if err != nil {
		return err
	}
	own := Answer{}
	if err := k.drop(r, &own, obj, old, severities); err != nil {
		return err
	}
	for i := range own.Findings {
		if k.warnOnly != nil {
			own.Findings[i].Severity = max(own.Findings[i].Severity, validate.Warning)
		}
	}
	answer.Findings = slices.Concat(answer.Findings, own.Findings)
	return nil
}
