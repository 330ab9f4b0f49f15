package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules for the metadata of each kind.
var (
	sliceMetadata = lift(func(o *resourceapi.ResourceSlice) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true}
	}, metadataRules)
	taintRuleMetadata = lift(func(o *resourceapi.DeviceTaintRule) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true}
	}, metadataRules)
	claimMetadata = lift(func(o *resourceapi.ResourceClaim) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true, named: true}
	}, metadataRules)
	templateMetadata = lift(func(o *resourceapi.ResourceClaimTemplate) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true, named: true}
	}, metadataRules)
	classMetadata = lift(func(o *resourceapi.DeviceClass) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true, class: true, named: true}
	}, metadataRules)

	claimStatusMetadata = liftReset(metadataRules, claimStatusPart)
)

func claimStatusPart(o *resourceapi.ResourceClaim) metadata {
	return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true}
}

// liftReset is lift for an update of the status, which takes most of the metadata from
// the stored object.
func liftReset[T any](rules Table[metadata], part func(T) metadata) Table[T] {
	reset := make(Table[metadata], len(rules))
	for i, rule := range rules {
		judge := rule.Update
		if judge == nil {
			judge = func(_, m metadata, c Conditions) field.ErrorList { return rule.Check(m, c) }
		}
		reset[i] = rule
		reset[i].Update = func(old, m metadata, c Conditions) field.ErrorList {
			return judge(old, m.resetTo(old), c)
		}
	}
	return lift(part, reset)
}

// resetTo is m after an API server has prepared an update of the status.
func (m metadata) resetTo(old metadata) metadata {
	changed := *m.ObjectMeta
	metav1.ResetObjectMetaForStatus(&changed, old.ObjectMeta)
	m.ObjectMeta = &changed
	return m
}
