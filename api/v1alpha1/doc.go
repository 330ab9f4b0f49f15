// Package v1alpha1 holds the API types of dra-steward, group dra-steward.io: the
// configuration file, ResourceSlicePatch and DeviceDrain.
//
// +groupName=dra-steward.io
package v1alpha1
