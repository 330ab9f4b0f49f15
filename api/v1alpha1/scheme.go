package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of the types in this package.
const Group = "dra-steward.io"

// GroupVersion returns the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme registers the types that an API server stores.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &ResourceSlicePatch{}, &ResourceSlicePatchList{}, &DeviceDrain{}, &DeviceDrainList{}, &DeviceReaction{}, &DeviceReactionList{}, &DeviceRoll{}, &DeviceRollList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// Annotations of a DeviceTaintRule that "dra-steward taint" and the controllers write, and that
// "dra-steward taint --list" shows.
const (
	// OwnerAnnotation is who decides about the taint: a person, a team or an object.
	OwnerAnnotation = Group + "/owner"
	// ReasonAnnotation is why the devices are tainted.
	ReasonAnnotation = Group + "/reason"
	// TicketAnnotation is where the work is tracked: a URL or a number.
	TicketAnnotation = Group + "/ticket"
	// ExpiresAnnotation is when the controllers' leader deletes the rule, such as
	// 2026-12-31T18:00:00Z.
	ExpiresAnnotation = Group + "/expires"
)
