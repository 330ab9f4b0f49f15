// Package plugin is the DynamicResources plugin of kube-scheduler with
// ResourceSlicePatches (KEP-5027) applied to the devices that it sees. Everything else is
// the plugin of Kubernetes: without a patch it is given the very slices that the other
// would see.
//
// All profiles of a process share one [Factory]. Allocations in flight are shared by the
// profiles of one process and by nothing else, so that a second scheduler that handles
// ResourceClaims would give devices away twice.
package plugin

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	defaultsv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"sigs.k8s.io/yaml"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration, where it takes the place
// of DynamicResources. Its arguments are those of DynamicResources.
const Name = "PatchedDynamicResources"

// Plugin is the plugin for one profile.
type Plugin struct {
	*dynamicresources.DynamicResources
	patches *patches // nil while devices are not scheduled at all
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// PreEnqueue keeps pods that may use devices out of the queue until patches have been read.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if p.patches != nil && mayUseDevices(pod) && !p.patches.isSettled() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, errNotRead.Error())
	}
	return p.DynamicResources.PreEnqueue(ctx, pod)
}

// Reserve remembers the node, to tell the bindings of this process from those of another one.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if p.patches != nil && mayUseDevices(pod) {
		p.patches.report.foreign.reserve(pod, node)
	}
	return p.DynamicResources.Reserve(ctx, state, pod, node)
}

// A Factory makes the plugin for the profiles of a process.
type Factory struct {
	// Regarding is what events about the scheduler are about: its Pod. Nil is the
	// namespace kube-system.
	Regarding runtime.Object
	// Profiles are the names of all profiles of the process, those too that have the
	// plugin of Kubernetes: who binds a pod with claims for another one is a second
	// scheduler.
	Profiles []string
	// Leads reports whether the process leads. It is nil without a leader election.
	Leads func() bool

	mutex  sync.Mutex
	shared *patches
}

// New makes the plugin for one profile; it is a PluginFactory. What is shared it starts
// with the first one, until ctx ends.
func (f *Factory) New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	decoded, err := arguments(args)
	if err != nil {
		return nil, err
	}
	var shared *patches
	if features.EnableDynamicResourceAllocation {
		if shared, err = f.share(ctx, handle); err != nil {
			return nil, err
		}
		if err := shared.addProfile(ctx, handle); err != nil {
			return nil, err
		}
		handle = patchedHandle{Handle: handle, manager: patchedManager{SharedDRAManager: handle.SharedDRAManager(), patches: shared}}
	}
	inner, err := dynamicresources.New(ctx, decoded, handle, features)
	if err != nil {
		return nil, err
	}
	return &Plugin{inner.(*dynamicresources.DynamicResources), shared}, nil
}

// share starts what the profiles share.
func (f *Factory) share(ctx context.Context, handle fwk.Handle) (*patches, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.shared != nil {
		return f.shared, nil
	}
	shared, err := startPatches(ctx, handle, f.Leads, newReport(klog.FromContext(ctx).WithName("patches"), handle.EventRecorder(), f.Regarding, f.Profiles))
	f.shared = shared
	return shared, err
}

// arguments decodes the arguments of a profile, strictly, and fills in the defaults of
// DynamicResources.
func arguments(given runtime.Object) (*config.DynamicResourcesArgs, error) {
	var args configv1.DynamicResourcesArgs
	if given != nil {
		raw, ok := given.(*runtime.Unknown)
		if !ok {
			return nil, fmt.Errorf("arguments of %s: got %T, want *runtime.Unknown", Name, given)
		}
		if err := yaml.UnmarshalStrict(raw.Raw, &args); err != nil {
			return nil, fmt.Errorf("arguments of %s, which are filterTimeout and bindingTimeout as for DynamicResources: %w", Name, err)
		}
	}
	defaultsv1.SetDefaults_DynamicResourcesArgs(&args)
	return &config.DynamicResourcesArgs{FilterTimeout: args.FilterTimeout, BindingTimeout: args.BindingTimeout}, nil
}

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
