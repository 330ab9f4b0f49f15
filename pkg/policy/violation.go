package policy

import (
	"fmt"
	"slices"
)

// decode reads what a policy objects to. Anything but violations of the documented form
// is an error: a policy that says nothing intelligible has not judged.
func decode(policy Metadata, mode Mode, result any) ([]Violation, error) {
	list, is := result.([]any)
	if !is {
		return nil, fmt.Errorf("%s: deny is %T, must be a set of violations", policy.Code, result)
	}
	var violations []Violation
	for _, one := range list {
		fields, is := one.(map[string]any)
		if !is {
			return nil, fmt.Errorf("%s: a violation is %v, must be an object with message and paths", policy.Code, one)
		}
		v := Violation{Code: policy.Code, Mode: mode}
		var problem error
		v.Message, problem = word(fields, "message", problem)
		v.Hint, problem = word(fields, "hint", problem)
		below, problem := word(fields, "field", problem)
		v.Paths, problem = words(fields, "paths", problem)
		v.Allowed, problem = words(fields, "allowed", problem)
		if problem == nil && v.Message == "" {
			problem = fmt.Errorf("message is missing")
		}
		if problem != nil {
			return nil, fmt.Errorf("%s: a violation %v: %w", policy.Code, fields, problem)
		}
		if below != "" {
			for i := range v.Paths {
				v.Paths[i] += "." + below
			}
		}
		violations = append(violations, v)
	}
	slices.SortFunc(violations, compareViolations)
	return violations, nil
}

func word(fields map[string]any, name string, before error) (string, error) {
	value, there := fields[name]
	text, is := value.(string)
	if before == nil && there && !is {
		before = fmt.Errorf("%s is %v, must be a string", name, value)
	}
	return text, before
}

func words(fields map[string]any, name string, before error) ([]string, error) {
	value, there := fields[name]
	if !there || before != nil {
		return nil, before
	}
	list, is := value.([]any)
	if !is {
		return nil, fmt.Errorf("%s is %v, must be a list of strings", name, value)
	}
	var all []string
	for _, one := range list {
		text, is := one.(string)
		if !is {
			return nil, fmt.Errorf("%s has %v, must be strings", name, one)
		}
		all = append(all, text)
	}
	return all, nil
}
