// Package v1alpha1 holds the API types of dra-steward, group dra-steward.io: the
// configuration file (StewardConfiguration), ResourceSlicePatch, DeviceDrain, DeviceReaction
// and DeviceRoll.
//
// +groupName=dra-steward.io
package v1alpha1
