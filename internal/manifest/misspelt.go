package manifest

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// misspelt returns what is wrong with the apiVersion of a document whose kind is one that
// [Decode] knows, and whose group is missing, is the core group or is almost the right one.
// Other groups may have kinds of the same name.
func (d *Document) misspelt() (p Problem, ok bool) {
	kind := knownKind(d.Kind)
	group, version, grouped := strings.Cut(d.APIVersion, "/")
	if kind == "" || (grouped && !similar(group)) || d.inGroup() {
		return p, false
	}
	right := kinds[kind][0].group + "/" + kinds[kind][0].name
	if slices.ContainsFunc(kinds[kind], func(f form) bool { return grouped && f.name == version }) {
		right = kinds[kind][0].group + "/" + version
	}
	if d.APIVersion != "" {
		return d.problem(UnknownVersion, "apiVersion", fmt.Sprintf("%q has no kind %s: did you mean %s?", d.APIVersion, d.Kind, right)), true
	}
	fields := rawFields(d.Raw)
	if _, written := fields["apiVersion"]; written {
		return d.problem(WrongType, "apiVersion", fmt.Sprintf("must be the string %q", right)), true
	}
	for key := range fields {
		if key != "apiVersion" && Nearest(key, []string{"apiVersion"}) != "" {
			return d.problem(UnknownVersion, key, fmt.Sprintf("unknown field %q: did you mean apiVersion: %s?", key, right)), true
		}
	}
	return d.problem(UnknownVersion, "apiVersion", fmt.Sprintf("the field is missing: add apiVersion: %s", right)), true
}

// similar reports whether a group is probably meant to be one of ours.
func similar(group string) bool {
	ours := []string{resourcev1.GroupName, v1alpha1.Group}
	return Nearest(group, ours) != ""
}

// knownKind returns the kind that a word names, whatever its case.
func knownKind(word string) string {
	for kind := range kinds {
		if strings.EqualFold(kind, word) {
			return kind
		}
	}
	return ""
}
