package validate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

// DriverPodAnnotation on a pod of a driver lets the users whom a site names delete it while
// claims are prepared. Its value is the reason.
const DriverPodAnnotation = "dra-steward.io/driver-pod-may-end"

// A DriverPod is what a webhook knows about a pod of drivers that is deleted or evicted.
type DriverPod struct {
	// Drivers are the names of the drivers that run in the pod.
	Drivers []string `json:"drivers"`
	// Prepared are the claims that need these drivers on the node of the pod to be unprepared,
	// in the order of their names.
	Prepared []PreparedClaim `json:"prepared,omitempty"`
	// Other is the name of another pod of the drivers that is ready on the node, as during the
	// rolling update of a driver that registers twice; empty if there is none.
	Other string `json:"other,omitempty"`
	// RefusedFor is the time since the first of the deletions of the pod that were refused.
	RefusedFor metav1.Duration `json:"refusedFor,omitempty"`
}

// A PreparedClaim is a claim that a driver has prepared for a pod, as far as the API shows: it
// has a device of the driver, and is reserved for a pod of the node that has not ended.
type PreparedClaim struct {
	Namespace string `json:"namespace"`
	Claim     string `json:"claim"`
	Pod       string `json:"pod"`
	Driver    string `json:"driver"`
}

// DriverPodSettings are what a site allows while a driver is in use.
type DriverPodSettings struct {
	// Deleters may delete a pod with the DriverPodAnnotation.
	Deleters
	// Deadline is how long deletions of one pod are refused; 0 sets none.
	Deadline metav1.Duration
}

// driverPodRule is the rule about pods of drivers.
func driverPodRule() Rule[*PodDeletion] {
	return Rule[*PodDeletion]{
		ID: ruleid.DriverPod,
		Doc: `The pod of a driver stays while claims on its node are prepared by the driver.

Without its driver the kubelet cannot unprepare a claim, and a pod that uses the claim stays
Terminating until a pod of the driver runs on the node again. A DaemonSet's rollout, an
operator's upgrade or uninstall, and the eviction of a driver that is not a DaemonSet end the
driver first. The rule refuses that, and names the claims. A deletion gets status 409, and
controllers try it again; an eviction gets status 429, and kubectl drain tries it again. A
claim counts as prepared while it has a device of the driver and is reserved for a pod of the
node that has not ended.
The rule skips a pod that is not ready, because its replacement is the repair, and a pod next
to another ready pod of the driver on the node. It never refuses the kubelet of the node, the
pod garbage collector, the node-lifecycle and taint-eviction controllers and the namespace
controller. A site sets a deadline, and the users who can delete a pod that has the annotation
dra-steward.io/driver-pod-may-end with a reason (driverPods in the configuration). The API
server sends only pods that the chart lists (driverPods.pods).`,
		Upstream: "ends the pod of a driver while pods that need it run",
		Source:   "KEP-4381, NodeUnprepareResources",
		Check:    driverPodInUse,
	}
}

func driverPodInUse(d *PodDeletion, c Pass) field.ErrorList {
	pod, driver := &d.Pod, d.Driver
	switch {
	case driver == nil || len(driver.Prepared) == 0 || c.Author == nil,
		!condition.PodReady(pod), driver.Other != "",
		c.Author.Username == caller.NodeController(), Deleters{}.may(*c.Author, pod.Spec.NodeName),
		c.DriverPods.Deadline.Duration > 0 && driver.RefusedFor.Duration >= c.DriverPods.Deadline.Duration,
		pod.Annotations[DriverPodAnnotation] != "" && Publishers(c.DriverPods.Deleters).include(*c.Author):
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"), driverPodMessage(pod, driver))}
}

// maxPrepared is how many claims the message names.
const maxPrepared = 5

func driverPodMessage(pod *corev1.Pod, driver *DriverPod) string {
	var claims, drivers []string
	for _, p := range driver.Prepared {
		if !slices.Contains(drivers, p.Driver) {
			drivers = append(drivers, p.Driver)
		}
		if len(claims) < maxPrepared {
			claims = append(claims, fmt.Sprintf("%s/%s of pod %s", p.Namespace, p.Claim, p.Pod))
		}
	}
	slices.Sort(drivers)
	names := strings.Join(claims, ", ")
	if more := len(driver.Prepared) - len(claims); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("driver %s has prepared claims on node %s: %s; without the driver these pods stay Terminating; "+
		"drain the devices first (kubectl dra-steward drain node/%s); the deletion passes once the pods have ended",
		strings.Join(drivers, ", "), pod.Spec.NodeName, names, pod.Spec.NodeName)
}
