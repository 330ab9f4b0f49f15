package apiserver

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// ResourceSlice returns the rules of the API server for ResourceSlices.
func ResourceSlice() Table[*resourceapi.ResourceSlice] { return slices.Clone(sliceRules) }

var sliceRules = slices.Concat(sliceMetadata, slicePlaceRules, deviceRules, attributeRules, attributeValueRules,
	capacityRules, counterRules, bindingRules, deviceNodeRules, nodeAllocatableRules, partitionRules, lift(slicePart, taintRules))

// DeviceTaintRule returns the rules of the API server for DeviceTaintRules.
func DeviceTaintRule() Table[*resourceapi.DeviceTaintRule] {
	return slices.Concat(taintRuleMetadata, taintRuleRules, lift(rulePart, taintRules))
}

// DeviceTaintRuleStatus returns its rules for the status of a DeviceTaintRule.
func DeviceTaintRuleStatus() Table[*resourceapi.DeviceTaintRule] {
	return slices.Concat(liftReset(metadataRules, taintRuleStatusPart), taintRuleStatusRules)
}

// ResourceClaim returns its rules for what is written to a ResourceClaim itself.
//
// They leave out what depends on who writes and where. adminAccess needs the label
// resource.kubernetes.io/admin-access on the namespace; the rules assume that label. Since
// 1.36 a status update also needs permission for resourceclaims/binding or
// resourceclaims/driver.
func ResourceClaim() Table[*resourceapi.ResourceClaim] {
	at := field.NewPath("spec")
	spec := func(claim *resourceapi.ResourceClaim) walk.ClaimSpec {
		return walk.ClaimSpec{At: at, ResourceClaimSpec: &claim.Spec}
	}
	return slices.Concat(claimMetadata, onceStored(lift(spec, claimRules)), claimUpdateRules)
}

// ResourceClaimTemplate returns its rules for ResourceClaimTemplates.
func ResourceClaimTemplate() Table[*resourceapi.ResourceClaimTemplate] {
	return slices.Concat(templateMetadata, templateRules, liftTemplate(claimRules))
}

// ResourceClaimStatus returns its rules for the status of a ResourceClaim.
func ResourceClaimStatus() Table[*resourceapi.ResourceClaim] {
	return slices.Concat(claimStatusMetadata, liftStatus(slices.Concat(
		reservedRules, resultRules, liftFor(statusWrite.checkedTolerations, slices.Concat(singleTolerationRules, tolerationValueRules)),
		grantRules, liftFor(statusWrite.checkedConfigs, configRules), deviceStatusRules,
	)))
}

// DeviceClass returns its rules for DeviceClasses.
func DeviceClass() Table[*resourceapi.DeviceClass] {
	return slices.Concat(classMetadata, classRules, liftClass(selectorRules, classSelectors), liftClass(configRules, classConfigs))
}

// ResourceSlicePatch returns what the CustomResourceDefinition demands of
// ResourceSlicePatches.
func ResourceSlicePatch() Table[*v1alpha1.ResourceSlicePatch] {
	return defined(patchMirror)
}

// DeviceRoll returns what the CustomResourceDefinition demands of DeviceRolls.
func DeviceRoll() Table[*v1alpha1.DeviceRoll] {
	return defined(rollMirror)
}

// DeviceReaction returns what the CustomResourceDefinition demands of DeviceReactions.
func DeviceReaction() Table[*v1alpha1.DeviceReaction] {
	return defined(reactionMirror)
}

// DeviceDrain returns what the CustomResourceDefinition demands of DeviceDrains.
func DeviceDrain() Table[*v1alpha1.DeviceDrain] {
	return defined(drainMirror)
}

// defined returns the rules for a kind of a CustomResourceDefinition, given those that its schema has.
func defined[T metav1.ObjectMetaAccessor](schema Table[T]) Table[T] {
	rules := slices.Clone(schema)
	for i := range rules {
		rules[i].Upstream = "the same, by the schema of the CustomResourceDefinition"
	}
	return slices.Concat(lift(func(object T) metadata {
		return metadata{ObjectMeta: object.GetObjectMeta().(*metav1.ObjectMeta), numbered: true, named: true}
	}, metadataRules), rules)
}

// claimRules are the rules that claims and templates share.
var claimRules = slices.Concat(requestSelectorRules, requestRules, liftFor(walk.ClaimSpec.CheckedSelectors, selectorRules),
	tolerationRules, derivedRules, referenceRules, liftFor(walk.ClaimSpec.CheckedConfigs, configRules))

// tolerationRules are the rules for the tolerations of a claim or a template.
var tolerationRules = slices.Concat(
	liftFor(func(spec walk.ClaimSpec, server walk.Server) walk.TolerationWalk {
		return spec.CheckedTolerations(walk.Declarative, server)
	}, singleTolerationRules),
	liftFor(func(spec walk.ClaimSpec, server walk.Server) walk.TolerationWalk {
		return spec.CheckedTolerations(walk.Handwritten, server)
	}, tolerationValueRules),
)

// claimUpdateRules are the rules about the change of a claim.
var claimUpdateRules = Table[*resourceapi.ResourceClaim]{{
	ID:       specImmutable,
	Doc:      specImmutableDoc,
	Upstream: "the same, since 1.31; 1.34 checks the new spec too",
	Source:   "KEP-4381, ValidateResourceClaimUpdate",
	Update: func(old, claim *resourceapi.ResourceClaim, c Pass) field.ErrorList {
		return frozen(field.NewPath("spec"), &old.Spec, &claim.Spec, c)
	},
}}
