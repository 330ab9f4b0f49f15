// Package evictor holds the decisions of pkg/evictor beside those of the controller
// that ships with Kubernetes 1.37, its own code run in this process. It is a module of
// its own, since k8s.io/kubernetes never gets into the requirements of ours.
package evictor
