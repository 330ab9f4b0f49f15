package reaction

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// An Input is what [Decide] looks at. Nothing in it is changed.
type Input struct {
	// Reaction is the reaction as it is stored, the newest that is known.
	Reaction *v1alpha1.DeviceReaction
	// Causes are the sick devices. While they are not known, nothing begins or ends.
	Causes
	// Published reports whether a slice has a device.
	Published func(v1alpha1.DeviceName) bool
	// DriverDevices is how many devices a driver publishes.
	DriverDevices map[string]int
	// Drains are those of the reaction.
	Drains []*v1alpha1.DeviceDrain
	// NotCreated is why drains could not be created, by name.
	NotCreated map[string]string
	// Others are the devices that other drains have, with the name of the drain.
	Others map[v1alpha1.DeviceName]string
	// OtherReactions is how many devices the drains of other reactions have.
	OtherReactions int
	// Proofs are for spec.prove; nil where proofs are switched off.
	Proofs *Proofs
	// DriverPod returns the pod of the driver of a device by spec.end.driverPods, nil if there is none or the
	// device is not published. DriverPodOn returns that of a node. Restarts reports whether the controller may
	// delete them.
	DriverPod   func(v1alpha1.DeviceName) *corev1.Pod
	DriverPodOn func(node string) *corev1.Pod
	Restarts    bool
	// Prepared are the claims that a driver has to unprepare on the node of its pod. RestartRefused is
	// why the last deletion of a pod was refused.
	Prepared       func(pod *corev1.Pod, driver string) []types.NamespacedName
	RestartRefused map[types.UID]string
	// Hit returns what a drain of a device affects now.
	Hit func(v1alpha1.DeviceName) guard.Hit
	// Window has the thresholds of the site, Begun are the evictions that began.
	Window guard.Window
	Begun  guard.Begun
	Now    time.Time
}

// A Decision is what comes next. The status is written first, then the drains, then the Jobs.
type Decision struct {
	Status v1alpha1.DeviceReactionStatus
	// Create are new drains, Pause and Resume those to change, Delete those to delete.
	Create, Pause, Resume []*v1alpha1.DeviceDrain
	Delete                []Deletion
	// CreateJobs and CreateClaims are those of proofs, DeleteJobs the Jobs that a newer one replaces.
	CreateJobs, DeleteJobs []*batchv1.Job
	CreateClaims           []*resourceapi.ResourceClaim
	// Restart are the pods of drivers to delete.
	Restart []*corev1.Pod
	reconcile.Alarm
}

// A Deletion is a drain that is no longer needed, with the reason.
type Deletion struct {
	Drain   *v1alpha1.DeviceDrain
	Because string
}

// The times of a reaction.
const (
	defaultFor   = time.Minute
	defaultAfter = 10 * time.Minute
	// memory is how long a device that is healthy again stays in the status.
	memory = time.Hour
	// flapping is how many changes make a device flap; calm takes one back.
	flapping = 6
	calm     = 10 * time.Minute
	// maxBegins is how many drains a step creates.
	maxBegins = 16
)

func standsFor(r *v1alpha1.DeviceReaction) time.Duration {
	return reconcile.DurationOr(r.Spec.When.For, defaultFor)
}

func after(r *v1alpha1.DeviceReaction) time.Duration {
	return reconcile.DurationOr(r.Spec.End.After, defaultAfter)
}

// AddDrain adds a drain that is the reaction's, or another that has devices: one that has ended and lifted
// its cordon has none.
func (in *Input) AddDrain(d *v1alpha1.DeviceDrain, reaction string) {
	of := d.Labels[v1alpha1.ReactionLabel]
	if of == reaction {
		in.Drains = append(in.Drains, d)
		return
	}
	if of != "" {
		in.OtherReactions++
	}
	if d.Spec.DryRun || d.Status.CompletionTime != nil && d.Spec.AtEnd == v1alpha1.EndUncordon {
		return
	}
	for _, name := range drain.Names(d) {
		in.Others[name] = d.Name
	}
}
