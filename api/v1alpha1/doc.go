// Package v1alpha1 holds the API types of dra-steward, group dra-steward.io: so far
// the configuration file.
package v1alpha1
