package plugin

import (
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// patchedHandle is the handle that the plugin of Kubernetes works with.
type patchedHandle struct {
	fwk.Handle
	manager fwk.SharedDRAManager
}

func (h patchedHandle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

// patchedManager is the manager of the process, with other slices. Claims and what is in
// flight stay shared with all profiles.
type patchedManager struct {
	fwk.SharedDRAManager
	patches *patches
}

func (m patchedManager) ResourceSlices() fwk.ResourceSliceLister { return m }

// ListWithDeviceTaintRules returns the slices with the taints of rules and the values of
// patches.
func (m patchedManager) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	slices, err := m.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	return m.patches.list(slices)
}
