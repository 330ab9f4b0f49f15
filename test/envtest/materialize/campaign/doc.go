// Package campaign runs random histories of drivers and ResourceSlicePatches in the mode materialize
// on a real API server, while the replicas of webhook and controller are killed, restarted and
// stopped for seconds and the API server is restarted. The package model says what the slices must
// contain; the audit log shows who wrote what.
package campaign
