package caller

import "strings"

// NodeController returns the identity of the controllers of kube-controller-manager that delete
// the pods of nodes that are lost or have a NoExecute taint: node-lifecycle and taint-eviction.
func NodeController() string { return "system:serviceaccount:kube-system:node-controller" }

// PodRemovers returns the controllers of the control plane that delete pods by force
// because there is nothing left to wait for: of nodes that are gone, of namespaces that
// end. With one identity for all controllers it is the first.
func PodRemovers() []string {
	return []string{
		"system:kube-controller-manager",
		"system:serviceaccount:kube-system:pod-garbage-collector",
		"system:serviceaccount:kube-system:namespace-controller",
	}
}

// SliceIdentity is the identity of a user who publishes slices.
func SliceIdentity(user string) string {
	if strings.HasPrefix(user, "system:node:") {
		return "system:nodes"
	}
	return user
}
