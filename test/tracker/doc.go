// Package tracker holds pkg/tracker against the tracker that kube-scheduler has
// (k8s.io/dynamic-resource-allocation/resourceslice/tracker, v0.37.0): the same
// histories must give the same view, but where one of upstream's known faults explains
// the difference, and both are measured in the same run:
//
//	go test -run '^$' -bench . -benchtime 3x
//
// TestPanic runs the trackers of older versions, too.
//
// It is a module of its own so that the root module does not depend on what only
// upstream's tracker needs.
package tracker
