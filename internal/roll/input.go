package roll

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// An Input is what [Decide] looks at. Nothing in it is changed.
type Input struct {
	// Roll is the roll as it is stored, the newest that is known.
	Roll *v1alpha1.DeviceRoll
	// Unknown is why devices or nodes cannot be read. Then nothing begins and nothing ends.
	Unknown string
	// Selected are the nodes that the roll selects now.
	Selected []string
	// Nodes are the nodes of the cluster that are selected or in the status, by name.
	Nodes map[string]Node
	// Drains are those of the roll.
	Drains []*v1alpha1.DeviceDrain
	// Stranded finds out how many pods of a node do not land again when it is drained, 0 where that is not
	// known. Nil is never known.
	Stranded func(node string) int
	// Window has the thresholds of the site, Begun are the evictions that began.
	Window guard.Window
	Begun  guard.Begun
	Now    time.Time
}

// A Node is a node as it is now.
type Node struct {
	Ready, Unschedulable bool
	// CordonedBy is the roll that has cordoned it.
	CordonedBy string
	// Group is the value of the label in spec.perLabel.
	Group string
	// Busy is another roll that works on the node.
	Busy string
	// Devices are those that are published, Pools the pools that have them. Incomplete is a pool of
	// which not all slices are published.
	Devices    []v1alpha1.DeviceName
	Pools      []v1alpha1.RollPool
	Incomplete string
	// Prepared are the claims that a driver of the roll has to unprepare on the node. Unpublished are their devices
	// that the pools of the node no longer publish.
	Prepared    []types.NamespacedName
	Unpublished []v1alpha1.DeviceName
	// Hit is what a drain of the devices affects now, also of Unpublished and of those that its drain has and that are
	// not published.
	Hit guard.Hit
	// Pods are those of the driver, or PodsUnknown why they cannot be read. They are not read for nodes that wait.
	Pods        []Pod
	PodsUnknown string
	// WorkDone is true if the node has the condition or annotation that the roll waits for.
	WorkDone bool
	// Proof is the pod of the proof.
	Proof Proof
	// Refused is why the last write for the node failed.
	Refused string
}

// Drained are the devices that the drain of a node gets.
func (n Node) Drained() []v1alpha1.DeviceName { return slices.Concat(n.Devices, n.Unpublished) }

// A Pod is one of a driver.
type Pod struct {
	types.NamespacedName
	// Node is where it runs.
	Node            string
	UID             types.UID
	Ready, Deleting bool
	// ReadySince is the time at which it became ready, Restarts how often its containers have restarted.
	ReadySince time.Time
	Restarts   int32
	// Message is why it is not ready.
	Message string
}

// A Proof is the pod of a proof, if it exists.
type Proof struct {
	Exists bool
	// Half is true if its claim exists, and the pod is still to be created.
	Half bool
	UID  types.UID
	// Foreign is why a pod or claim of the name is not that of the roll; it counts as none.
	Foreign string
	Phase   corev1.PodPhase
	// Message is why it has not succeeded.
	Message string
}

// A Decision is what comes next. The status is written first, then the rest is done.
type Decision struct {
	Status v1alpha1.DeviceRollStatus
	// Create are new drains, Update those to pause or resume, Delete those to delete.
	Create, Update, Delete []*v1alpha1.DeviceDrain
	// DeletePods are pods of the driver to delete.
	DeletePods []Pod
	// Cordon and Uncordon, Prove and Clear are nodes to cordon, to uncordon, to start the proof on, and
	// to delete it from.
	Cordon, Uncordon, Prove, Clear []string
	reconcile.Alarm
}

// The times of a roll.
const (
	// unchanged is how long a driver has to change its slices, if they look as before: the kubelet
	// removes those of a driver that has gone after 30 s.
	unchanged = 35 * time.Second
	// rebooted is how long after work on a node its slices may be as before, though the work ends with a
	// reboot: Kubernetes reports a node as not Ready that has been silent for 50 s, and looks every 5 s.
	rebooted = 90 * time.Second
	// missing is how long a driver has to publish the devices that are missing.
	missing = time.Minute
	// poll is how often pods are read that a node waits for.
	poll = 2 * time.Second
)

// defaults of spec.timeouts.
const (
	drainTimeout  = time.Hour
	driverTimeout = 10 * time.Minute
	workTimeout   = 2 * time.Hour
	proofTimeout  = 10 * time.Minute
)

// timeout is how long a node may be in a state.
func timeout(r *v1alpha1.DeviceRoll, state v1alpha1.RollState) time.Duration {
	t := r.Spec.Timeouts
	switch state {
	case v1alpha1.RollDraining:
		return reconcile.DurationOr(t.Drain, drainTimeout)
	case v1alpha1.RollReplacing:
		return reconcile.DurationOr(t.Driver, driverTimeout)
	case v1alpha1.RollPublishing:
		// Before this, a driver whose slices look as before cannot be told from one that is away.
		return max(reconcile.DurationOr(t.Driver, driverTimeout), missing, unchangedFor(r))
	case v1alpha1.RollWorking:
		return reconcile.DurationOr(t.Work, workTimeout)
	case v1alpha1.RollProving:
		return reconcile.DurationOr(t.Proof, proofTimeout)
	}
	return 0
}

// unchangedFor is how long slices that are as before may be those of a driver that is away.
func unchangedFor(r *v1alpha1.DeviceRoll) time.Duration {
	if r.Spec.NodeWork != nil {
		return rebooted
	}
	return unchanged
}

// MaxPools is how many pools of a node are compared.
const MaxPools = 64
