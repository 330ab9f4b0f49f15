package mutate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// ResourceClaim lists the defaults for ResourceClaims. Append yours here and put
// its examples into examples/<ID>.txtar.
func ResourceClaim() Table[resourceapi.ResourceClaim] {
	return Table[resourceapi.ResourceClaim]{
		tolerationOperator(specOfClaim),
		tolerationRewrite(specOfClaim),
		{
			ID: "claim-finalizer",
			Doc: `A new claim gets the finalizer resource.kubernetes.io/delete-protection.

The claim controller releases devices only of claims with this finalizer. The stock scheduler
adds it with a separate update before it allocates. With the finalizer on the new claim the
scheduler saves that update, and an allocator that forgets it does not leak devices. The
claim controller removes it when the claim is deleted.

An allocated claim without the finalizer gets it with the next update. It is never added
while the claim is being deleted, or in the update with which the claim controller removes
it. The setting defaults.finalizer is create (new claims, and repair), repair (only allocated
claims without it) or off.`,
			Upstream: "adds nothing; the scheduler adds it when it allocates",
			Source:   "KEP-4381, resourceapi.Finalizer",
			Apply:    claimFinalizer,
		},
	}
}

// ResourceClaimTemplate lists the defaults for ResourceClaimTemplates.
func ResourceClaimTemplate() Table[resourceapi.ResourceClaimTemplate] {
	return Table[resourceapi.ResourceClaimTemplate]{
		tolerationOperator(specOfTemplate),
		tolerationRewrite(specOfTemplate),
	}
}

func specOfClaim(claim *resourceapi.ResourceClaim) claimSpec {
	return claimSpec{"/spec", &claim.ObjectMeta, &claim.Spec}
}

func specOfTemplate(template *resourceapi.ResourceClaimTemplate) claimSpec {
	return claimSpec{"/spec/spec", &template.ObjectMeta, &template.Spec.Spec}
}

// claimFinalizer and its cost: docs/decisions/0004-the-finalizer-on-create.md.
func claimFinalizer(w Write[resourceapi.ResourceClaim], settings Settings) (Result, error) {
	claim := w.Object
	if settings.Finalizer == v1alpha1.FinalizerOff || claim.DeletionTimestamp != nil || protected(claim) {
		return Result{}, nil
	}
	old, err := w.old()
	if err != nil {
		return Result{}, err
	}
	created := old == nil && settings.Finalizer != v1alpha1.FinalizerRepair
	leaking := old != nil && !protected(old) && old.Status.Allocation != nil
	if !created && !leaking {
		return Result{}, nil
	}
	change := Change{Pointer: "/metadata/finalizers/-", Value: resourceapi.Finalizer}
	if len(claim.Finalizers) == 0 {
		change = Change{Pointer: "/metadata/finalizers", Value: []string{resourceapi.Finalizer}}
	}
	claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	return Result{Changes: []Change{change}}, nil
}

// protected reports whether the claim controller releases the claim's devices.
func protected(claim *resourceapi.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, resourceapi.Finalizer)
}
