package mutate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A tolerationRecord is the content of v1alpha1.TolerationsAnnotation: the lists of
// tolerations as their author wrote them, of those requests in which they were changed.
type tolerationRecord struct {
	Hash  string                                    `json:"hash"`
	Lists map[string][]resourceapi.DeviceToleration `json:"lists"`
	// Earlier are the lists of an earlier call for the same write, of those to which another webhook
	// has added before the API server called again.
	Earlier map[string][]resourceapi.DeviceToleration `json:"earlier,omitempty"`
}

// readRecord returns no lists if there is no record.
func readRecord(annotations map[string]string) (tolerationRecord, error) {
	var record tolerationRecord
	text, ok := annotations[v1alpha1.TolerationsAnnotation]
	if !ok {
		return record, nil
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return tolerationRecord{}, err
	}
	hash, err := record.hash()
	if err != nil {
		return tolerationRecord{}, err
	}
	if hash != record.Hash {
		return tolerationRecord{}, errors.New("the lists do not have the recorded hash")
	}
	return record, nil
}

func (r tolerationRecord) text() (string, error) {
	hash, err := r.hash()
	if err != nil {
		return "", err
	}
	r.Hash = hash
	data, err := json.Marshal(r)
	return string(data), err
}

// hash relies on encoding/json sorting the keys of maps. Without earlier lists it is that of
// the lists alone, as in the records that are stored.
func (r tolerationRecord) hash() (string, error) {
	var content any = r.Lists
	if len(r.Earlier) > 0 {
		content = []any{r.Lists, r.Earlier}
	}
	data, err := json.Marshal(content)
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// restore replaces tolerations that repeat what the author wrote by those that were stored
// when the object was created. Specs are immutable: the API server refuses any other
// difference.
func restore(spec, old claimSpec) (Result, error) {
	record, err := readRecord(old.meta.Annotations)
	if err != nil {
		return Result{Warnings: []Warning{{
			Path:    fmt.Sprintf("metadata.annotations[%s]", v1alpha1.TolerationsAnnotation),
			Message: fmt.Sprintf("cannot be read (%v), so a manifest with the original tolerations is not recognized: write the stored ones", err),
		}}}, nil
	}
	if record.Lists == nil && record.Earlier == nil {
		return Result{}, nil
	}
	stored := map[string]*[]resourceapi.DeviceToleration{}
	for list := range old.lists() {
		stored[list.name] = list.items
	}
	var result Result
	for list := range spec.lists() {
		original, changed := record.Lists[list.name]
		earlier, twice := record.Earlier[list.name]
		is, known := stored[list.name]
		written := changed && same(*list.items, original) || twice && same(*list.items, earlier)
		if written && known && !same(*list.items, *is) {
			*list.items = *is
			result.Changes = append(result.Changes, Change{Pointer: list.pointer, Value: *is})
		}
	}
	text := old.meta.Annotations[v1alpha1.TolerationsAnnotation]
	if spec.meta.Annotations[v1alpha1.TolerationsAnnotation] != text {
		result.Changes = append(result.Changes, annotate(spec.meta, text))
	}
	return result, nil
}

func same(a, b []resourceapi.DeviceToleration) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}

func annotate(meta *metav1.ObjectMeta, text string) Change {
	if len(meta.Annotations) == 0 {
		meta.Annotations = map[string]string{v1alpha1.TolerationsAnnotation: text}
		return Change{Pointer: "/metadata/annotations", Value: map[string]string{v1alpha1.TolerationsAnnotation: text}}
	}
	meta.Annotations[v1alpha1.TolerationsAnnotation] = text
	return Change{Pointer: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.TolerationsAnnotation, "/", "~1"), Value: text}
}
