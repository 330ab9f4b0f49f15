package podresources

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// ReadFrom is where a device of a holding was read.
type ReadFrom string

// The sources, the best one first.
const (
	FromClaim        ReadFrom = "claim"        // status of the ResourceClaim
	FromCheckpoint   ReadFrom = "checkpoint"   // the kubelet's checkpoint
	FromPodResources ReadFrom = "podresources" // the kubelet's PodResources API
)

// An Exactness is what of a holding is not known for certain.
type Exactness string

const (
	// Exact: all fields are right, the empty ones too.
	Exact Exactness = "exact"
	// CDIInferred: the CDI ids are the difference of accumulated lists, and nothing
	// confirms them.
	CDIInferred Exactness = "cdi-inferred"
	// CDIUnknown: no source has the CDI ids of the device, for example because the
	// claim is not prepared yet.
	CDIUnknown Exactness = "cdi-unknown"
	// ShareUnknown: the claim has several shares of the device, and the node does not say which CDI ids are of which share.
	ShareUnknown Exactness = "share-unknown"
	// RequestUnknown: the container is listed with the claim, but maybe uses another
	// request of it than that of the device.
	RequestUnknown Exactness = "request-unknown"
	// AdminUnknown: the claim itself, which alone has adminAccess, was not read.
	AdminUnknown Exactness = "admin-unknown"
)

// Prepared is true, false or unknown: whether the driver has prepared the claim on the node.
type Prepared string

const (
	PreparedYes     Prepared = "yes"
	PreparedNo      Prepared = "no"
	PreparedUnknown Prepared = "unknown" // no source that can tell
)

// A Holding is one device in the hands of one container.
type Holding struct {
	Namespace string `json:"namespace"`
	// Pod is empty if neither the API server nor the kubelet list the pod: it was
	// deleted by force, and its claim is still prepared.
	Pod    string    `json:"pod,omitempty"`
	PodUID types.UID `json:"podUID,omitempty"`
	// Container is empty for a device of the pod as a whole: no container refers to its
	// request, or only init containers that have finished.
	Container string `json:"container,omitempty"`
	// State is that of Container: waiting, running or terminated; empty without one, and if
	// the kubelet has not reported it. The devices of a container that has terminated stay
	// prepared until the pod ends.
	State string `json:"containerState,omitempty"`
	// Claim is empty for a device of a device plugin.
	Claim    string    `json:"claim,omitempty"`
	ClaimUID types.UID `json:"claimUID,omitempty"`
	// Request is the request of the claim, or request/alternative.
	Request string `json:"request,omitempty"`
	// Resource is the extended resource that the claim was made for, if any, or that of the
	// device plugin.
	Resource string `json:"resource,omitempty"`
	// Driver and Pool are empty for a device of a device plugin, whose name Device is.
	Driver      string    `json:"driver,omitempty"`
	Pool        string    `json:"pool,omitempty"`
	Device      string    `json:"device"`
	ShareID     types.UID `json:"shareID,omitempty"`
	AdminAccess bool      `json:"adminAccess,omitempty"`
	// Tolerations are those of the request, copied when the claim was allocated; known
	// from the claim only.
	Tolerations []resourceapi.DeviceToleration `json:"tolerations,omitempty"`
	CDIIDs      []string                       `json:"cdiIDs,omitempty"`
	Prepared    Prepared                       `json:"prepared"`
	Source      ReadFrom                       `json:"source"`
	Exactness   Exactness                      `json:"exactness"`
}

// ofPlugin reports whether the device is that of a device plugin.
func (h Holding) ofPlugin() bool { return h.Claim == "" }

// An Input is what was read about one node. Nil means that the source does not exist or
// failed; empty that it has nothing.
type Input struct {
	// Listing is the answer of the kubelet.
	Listing *Listing
	// Pods are the pods of the node from the API server.
	Pods []*corev1.Pod
	// Claims are the claims of these pods from the API server.
	Claims []*resourceapi.ResourceClaim
	// Checkpoint are the claims that the kubelet has prepared.
	Checkpoint []checkpoint.Claim
	// AsOf is when Claims were right, if they could not be read now; zero if they could.
	AsOf time.Time
}
