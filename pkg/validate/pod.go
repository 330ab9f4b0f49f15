package validate

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

// PodDeletionKind is the kind of a [PodDeletion] in an example.
const PodDeletionKind = "PodDeletion"

// A PodDeletion is a request to delete or evict a pod. No API server stores it: a webhook
// puts it together.
type PodDeletion struct {
	metav1.TypeMeta `json:",inline"`
	// GracePeriodSeconds is that of the options of the request; nil where they say nothing.
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// Pod is the pod as it is stored.
	Pod corev1.Pod `json:"pod"`
	// Claims are those that are reserved for the pod.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	// Driver is set for a pod of drivers that the site lists.
	Driver *DriverPod `json:"driver,omitempty"`
}

// Deleters are who may delete pods by force.
type Deleters struct {
	// Users and Groups are names as the API server authenticates them.
	Users, Groups []string
}

// PodDeletions returns the rules for deletions of pods.
func PodDeletions() Table[*PodDeletion] { return gaps(podDeletionGaps) }

var podDeletionGaps = Table[*PodDeletion]{{
	ID: "pod-force-deletion",
	Doc: `A pod that holds devices is not deleted by force.

With gracePeriodSeconds 0 (kubectl delete --force --grace-period=0) the API server removes a
pod immediately, while the kubelet still has to stop its containers. In the meantime the
devices of its claims count as free, and the next pod gets a device that the previous one
still uses. The kubelet of the node can delete with 0, and so can the controllers that
remove the pods of lost nodes and of deleted namespaces. The rule skips pods that are not
scheduled or have finished, pods with terminationGracePeriodSeconds 0, shared devices and
adminAccess. A site configures who else can do it (forceDeletion.users and
forceDeletion.groups in the configuration); nothing in the pod can. The API server sends such
deletions to the webhook only if forceDeletion.enabled of the chart is set.`,
	Upstream: "allows every user that can delete a pod to delete it by force",
	Source:   "KEP-4381, ResourceClaimStatus.ReservedFor; kubernetes issue 141471",
	Check:    podForceDeletion,
}, driverPodRule()}

func podForceDeletion(d *PodDeletion, c Pass) field.ErrorList {
	pod := &d.Pod
	switch grace := pod.Spec.TerminationGracePeriodSeconds; {
	case d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != 0,
		pod.Spec.NodeName == "",
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		// The API server fills in 0 for it, so that a deletion by force is like any other.
		grace != nil && *grace == 0,
		c.Author == nil || c.ForceDeleters.may(*c.Author, pod.Spec.NodeName):
		return nil
	}
	for _, claim := range d.Claims {
		if device := exclusive(claim); device != "" {
			return field.ErrorList{field.Forbidden(field.NewPath("gracePeriodSeconds"), fmt.Sprintf(
				"the pod holds device %s with claim %s: deleted by force, its device is given to another pod while its containers still run on %s; "+
					"delete it without --force and --grace-period=0; if the node is gone for good, delete the Node or taint it with %s=:NoExecute, and its pods are removed",
				device, claim.Name, pod.Spec.NodeName, corev1.TaintNodeOutOfService))}
		}
	}
	return nil
}

// exclusive returns a device that no other claim may use while the claim holds it, or "".
func exclusive(claim *resourceapi.ResourceClaim) string {
	if claim.Status.Allocation == nil {
		return ""
	}
	results := claim.Status.Allocation.Devices.Results
	i := slices.IndexFunc(results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.ShareID == nil && (r.AdminAccess == nil || !*r.AdminAccess)
	})
	if i < 0 {
		return ""
	}
	return strings.Join([]string{results[i].Driver, results[i].Pool, results[i].Device}, "/")
}

// may reports whether a user may delete a pod of a node by force.
func (d Deleters) may(user authenticationv1.UserInfo, node string) bool {
	isNode := user.Username == "system:node:"+node && slices.Contains(user.Groups, "system:nodes")
	return isNode || slices.Contains(caller.PodRemovers(), user.Username) || Publishers(d).include(user)
}
