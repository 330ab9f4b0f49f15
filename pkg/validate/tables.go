package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// ResourceSlice returns the rules for ResourceSlices. Append yours to sliceGaps and put
// its examples into examples/<ID>.txtar.
func ResourceSlice() Table[*resourceapi.ResourceSlice] {
	return slices.Concat(mirrored(apiserver.ResourceSlice()), sliceLimits, gaps(sliceGaps, lift(sliceTaints, taintGaps), poolGaps, authorGaps))
}

// DeviceTaintRule returns the rules for DeviceTaintRules. A rule that holds for the
// taints in slices as well belongs in taintGaps.
func DeviceTaintRule() Table[*resourceapi.DeviceTaintRule] {
	return slices.Concat(mirrored(apiserver.DeviceTaintRule()), gaps(taintRuleGaps, lift(ruleTaint, taintGaps)))
}

// DeviceTaintRuleStatus returns the rules for the status of a DeviceTaintRule.
func DeviceTaintRuleStatus() Table[*resourceapi.DeviceTaintRule] {
	return mirrored(apiserver.DeviceTaintRuleStatus())
}

// ResourceClaim returns the rules for what is written to a ResourceClaim itself. A rule
// that holds for templates as well belongs in claimGaps.
func ResourceClaim() Table[*resourceapi.ResourceClaim] {
	at := field.NewPath("spec")
	spec := func(claim *resourceapi.ResourceClaim, _ Pass) walk.ClaimSpec {
		return walk.ClaimSpec{At: at, ResourceClaimSpec: &claim.Spec}
	}
	return slices.Concat(mirrored(apiserver.ResourceClaim()), onceStored(lift(spec, claimLimits)), lift(spec, ownClaimRules()))
}

// ResourceClaimTemplate returns the rules for ResourceClaimTemplates.
func ResourceClaimTemplate() Table[*resourceapi.ResourceClaimTemplate] {
	at := field.NewPath("spec", "spec")
	spec := func(template *resourceapi.ResourceClaimTemplate, _ Pass) walk.ClaimSpec {
		return walk.ClaimSpec{At: at, ResourceClaimSpec: &template.Spec.Spec}
	}
	limits := lift(spec, claimLimits)
	for i, rule := range claimLimits {
		limits[i].Update = func(old, template *resourceapi.ResourceClaimTemplate, c Pass) field.ErrorList {
			return rule.Check(walk.ClaimSpec{At: at, ResourceClaimSpec: &template.Spec.Spec, Old: &old.Spec.Spec}, c)
		}
	}
	return slices.Concat(mirrored(apiserver.ResourceClaimTemplate()), limits, lift(spec, ownClaimRules()))
}

// ResourceClaimStatus returns the rules for the status of a ResourceClaim.
func ResourceClaimStatus() Table[*resourceapi.ResourceClaim] {
	return slices.Concat(mirrored(apiserver.ResourceClaimStatus()), gaps(allocationGaps))
}

// DeviceClass returns the rules for DeviceClasses.
func DeviceClass() Table[*resourceapi.DeviceClass] {
	configs := func(class *resourceapi.DeviceClass, c Pass) walk.ConfigWalk {
		return walk.ClassConfigs(class, c.walks)
	}
	return slices.Concat(mirrored(apiserver.DeviceClass()), gaps(lift(configs, parameterRules), classGaps))
}

// ResourceSlicePatch returns the rules for ResourceSlicePatches.
func ResourceSlicePatch() Table[*v1alpha1.ResourceSlicePatch] {
	return slices.Concat(mirrored(apiserver.ResourceSlicePatch()), gaps(patchGaps))
}

// DeviceDrain returns the rules for DeviceDrains.
func DeviceDrain() Table[*v1alpha1.DeviceDrain] {
	return slices.Concat(mirrored(apiserver.DeviceDrain()), gaps(drainGaps))
}

// DeviceRoll returns the rules for DeviceRolls.
func DeviceRoll() Table[*v1alpha1.DeviceRoll] {
	return slices.Concat(mirrored(apiserver.DeviceRoll()), gaps(rollGaps))
}

// DeviceReaction returns the rules for DeviceReactions.
func DeviceReaction() Table[*v1alpha1.DeviceReaction] {
	return slices.Concat(mirrored(apiserver.DeviceReaction()), gaps(reactionGaps))
}

// ownClaimRules are the gap rules that claims and templates share.
func ownClaimRules() Table[walk.ClaimSpec] {
	configs := func(spec walk.ClaimSpec, c Pass) walk.ConfigWalk { return spec.CheckedConfigs(c.walks) }
	return gaps(claimGaps, lift(configs, parameterRules))
}

// gaps joins tables of gap rules.
func gaps[T any](tables ...Table[T]) Table[T] {
	all := slices.Concat(tables...)
	for i := range all {
		all[i].Category = Gap
	}
	return all
}

// onceStored makes rules that the API server runs on the creation of a claim only: its
// spec cannot change. 1.34 ran them again.
func onceStored(rules Table[*resourceapi.ResourceClaim]) Table[*resourceapi.ResourceClaim] {
	for i, rule := range rules {
		rules[i].Update = func(_, claim *resourceapi.ResourceClaim, c Pass) field.ErrorList {
			if c.Profile.Since(35) {
				return nil
			}
			return rule.Check(claim, c)
		}
	}
	return rules
}

func sliceTaints(slice *resourceapi.ResourceSlice, _ Pass) walk.Taints {
	return walk.SliceTaints(slice)
}

func ruleTaint(rule *resourceapi.DeviceTaintRule, _ Pass) walk.Taints {
	return walk.RuleTaint(rule)
}

// A Description is what there is to say about a rule, whatever the type of its
// objects.
type Description struct {
	ID, Doc, Upstream, Source string
	Category                  Category
	Severity                  Severity
	// CrossObject is that of the rule.
	CrossObject bool
	// Kinds are the kinds of resource.k8s.io and of dra-steward.io that the rule checks.
	Kinds []string
}

// Rules describes all rules, each once, in the order of the tables.
func Rules() []Description {
	var all []Description
	all = describe(all, "ResourceSlice", ResourceSlice())
	all = describe(all, "DeviceTaintRule", DeviceTaintRule())
	all = describe(all, "DeviceTaintRule", DeviceTaintRuleStatus())
	all = describe(all, "ResourceClaim", ResourceClaim())
	all = describe(all, "ResourceClaimTemplate", ResourceClaimTemplate())
	all = describe(all, "ResourceClaim", ResourceClaimStatus())
	all = describe(all, "DeviceClass", DeviceClass())
	all = describe(all, "ResourceSlicePatch", ResourceSlicePatch())
	all = describe(all, "DeviceDrain", DeviceDrain())
	all = describe(all, "DeviceReaction", DeviceReaction())
	all = describe(all, "DeviceRoll", DeviceRoll())
	all = describe(all, PodDeletionKind, PodDeletions())
	return all
}

func describe[T any](all []Description, kind string, rules Table[T]) []Description {
	for _, rule := range rules {
		at := slices.IndexFunc(all, func(d Description) bool { return d.ID == rule.ID })
		if at < 0 {
			at = len(all)
			all = append(all, Description{ID: rule.ID, Doc: rule.Doc, Category: rule.Category, Severity: rule.Severity, CrossObject: rule.CrossObject, Upstream: rule.Upstream, Source: rule.Source})
		}
		if !slices.Contains(all[at].Kinds, kind) {
			all[at].Kinds = append(all[at].Kinds, kind)
		}
	}
	return all
}
