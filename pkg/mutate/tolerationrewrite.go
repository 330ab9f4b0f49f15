package mutate

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// tolerationRewrite makes the default that applies the site's settings for tolerations,
// for a kind that contains the spec of a claim. It is one default and not three, since
// what is recorded is the list before all of them.
func tolerationRewrite[T any](specOf func(*T) claimSpec) Default[T] {
	return Default[T]{
		ID: "toleration-rewrite",
		Doc: `A new claim or template gets the tolerations that the site configures.

Off unless defaults.tolerations is set. expandEmptyEffect writes a toleration without an
effect as one for NoSchedule and one for NoExecute, because the eviction controller of
Kubernetes 1.37 ignores tolerations without an effect and the scheduler does not: such a pod
is scheduled and evicted in a loop. rules add tolerations, and set and cap tolerationSeconds,
by namespace, device class and author. A rule with defaultSeconds or maxSeconds expands an empty
effect, too, because its tolerationSeconds are ignored and it has no end. A change that would lead
to more than 16 tolerations is skipped with a warning. Claims of the scheduler and the claim
controller do not change: what they copy was checked when its author wrote it. Nor do those of authors
with an exemption that names toleration-rewrite, as the claims of proofs have; "*" does not name it.

Specs are immutable. The annotation dra-steward.io/original-tolerations records what the
author wrote, and an update that repeats it gets the stored tolerations, whatever the current
settings are. So the same manifest can be applied again.`,
		Upstream: "does nothing like it",
		Source:   "kubernetes/enhancements#6290; KEP-5055, DeviceToleration.Effect",
		Apply: func(w Write[T], settings Settings) (Result, error) {
			old, err := w.old()
			if err != nil {
				return Result{}, err
			}
			spec := specOf(w.Object)
			switch {
			case old != nil:
				return restore(spec, specOf(old))
			case settings.Tolerations == nil || w.Author.Component:
				return Result{}, nil
			default:
				return rewrite(spec, w.Author, settings.Tolerations)
			}
		},
	}
}

func rewrite(spec claimSpec, author Author, site *v1alpha1.Tolerations) (Result, error) {
	edits := edits(spec, author, site)
	if !slices.ContainsFunc(edits, func(e tolerationEdit) bool { return len(e.Changes) > 0 }) {
		return warningsOf(edits), nil
	}
	text, err := recordText(spec, edits, func(list tolerationList) tolerationEdit {
		return edit(list, spec.meta.Namespace, author, site)
	})
	if err != nil {
		return Result{}, err
	}
	if n := annotationBytes(spec.meta.Annotations) + len(v1alpha1.TolerationsAnnotation) + len(text); n > validation.TotalAnnotationSizeLimitB {
		return Result{Warnings: []Warning{{Path: "metadata.annotations", Message: fmt.Sprintf(
			"the tolerations of this site were not set: with their record the annotations would be %d bytes, over the limit of %d", n, validation.TotalAnnotationSizeLimitB)}}}, nil
	}
	result := warningsOf(edits)
	for _, e := range edits {
		*e.list.items = e.items
		result.Changes = append(result.Changes, e.Changes...)
	}
	result.Changes = append(result.Changes, annotate(spec.meta, text))
	return result, nil
}

// edits leaves out requests without a unique name, which a record could not identify; the
// rules refuse such requests.
func edits(spec claimSpec, author Author, site *v1alpha1.Tolerations) (all []tolerationEdit) {
	seen := map[string]int{}
	for list := range spec.lists() {
		seen[list.name]++
	}
	for list := range spec.lists() {
		if seen[list.name] == 1 && !strings.HasPrefix(list.name, "/") && !strings.HasSuffix(list.name, "/") && list.name != "" {
			all = append(all, edit(list, spec.meta.Namespace, author, site))
		}
	}
	return all
}

func warningsOf(edits []tolerationEdit) (result Result) {
	for _, e := range edits {
		result.Warnings = append(result.Warnings, e.Warnings...)
	}
	return result
}

// recordText is the record of the lists before edits. An existing record stays where it
// leads to the same list: an earlier call for the same write has recorded it. It is kept apart where
// another webhook has added to that list since.
func recordText(spec claimSpec, edits []tolerationEdit, again func(tolerationList) tolerationEdit) (string, error) {
	earlier, _ := readRecord(spec.meta.Annotations) // a foreign text is replaced
	record := tolerationRecord{Lists: map[string][]resourceapi.DeviceToleration{}, Earlier: map[string][]resourceapi.DeviceToleration{}}
	for _, e := range edits {
		if original, ok := earlier.Lists[e.list.name]; ok && len(original) <= resourceapi.DeviceTolerationsMaxLength {
			list := e.list
			list.items = &original
			made := again(list)
			if same(made.items, e.items) {
				record.Lists[e.list.name] = original
				continue
			}
			if len(made.Changes) > 0 && includes(*e.list.items, made.items) {
				record.Earlier[e.list.name] = original
			}
		}
		if len(e.Changes) > 0 {
			record.Lists[e.list.name] = *e.list.items
		}
	}
	return record.text()
}

// includes reports whether a list has all tolerations of another one.
func includes(list, all []resourceapi.DeviceToleration) bool {
	return !slices.ContainsFunc(all, func(one resourceapi.DeviceToleration) bool {
		return !slices.ContainsFunc(list, func(t resourceapi.DeviceToleration) bool { return equality.Semantic.DeepEqual(t, one) })
	})
}

func annotationBytes(annotations map[string]string) (n int) {
	for key, value := range annotations {
		if key != v1alpha1.TolerationsAnnotation {
			n += len(key) + len(value)
		}
	}
	return n
}
