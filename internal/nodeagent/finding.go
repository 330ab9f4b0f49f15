// Package nodeagent looks at the devices of one node: who holds them, whether what was
// handed out still resolves, and where API server and node disagree.
//
// [Check] is the pure part. An [Agent] reads the sources whenever something may have
// changed, and keeps metrics; it changes nothing on the node or in the API but events.
package nodeagent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// The kinds of findings.
const (
	CDIUnresolvable      = "cdi-unresolvable"
	HeldTwice            = "held-twice"
	PreparedGone         = "prepared-gone"
	AllocatedNotPrepared = "allocated-not-prepared"
	PodResourcesLarge    = "podresources-large"
	DriverGone           = "driver-gone"
)

// A Kind is what may be found.
type Kind struct {
	ID string
	// Doc is the problem.
	Doc string
	// Delay is how long it must last to be reported: it is normal for a moment.
	Delay time.Duration
	// Event is the reason of the event.
	Event string
	// Remedy is what changes it; empty where the message says so.
	Remedy string
}

// EventComponent is the source of the events by which agents report findings; their host is the node.
const EventComponent = "dra-steward"

// Kinds returns all kinds of findings.
func Kinds() []Kind {
	return []Kind{
		{CDIUnresolvable, "The container runtime would not resolve or apply a CDI id of a container: its next start fails.", 10 * time.Second, "CDIUnresolvable",
			"let the driver write its specification again, most often by a restart of its pod, or delete the pod; the kubelet prepares a claim again only with a new sandbox, as after a reboot (kubernetes#141433)"},
		{HeldTwice, "Two claims hold a device that is neither shared nor used with adminAccess, as after a deletion by force.", 0, "DeviceHeldTwice",
			"stop the older container on the node"},
		{PreparedGone, "A claim is prepared for a pod that does not exist any more.", 30 * time.Second, "ClaimStillPrepared",
			"start the driver on the node; the kubelet tries to unprepare it each minute"},
		{AllocatedNotPrepared, "The claim of a pod is allocated, and its driver has not prepared it on the node.", time.Minute, "ClaimNotPrepared",
			"the events of the pod and the log of the driver have the reason"},
		{PodResourcesLarge, "The kubelet's answer about its pods has more than 4 MiB: PodResources clients with the default limit of gRPC cannot read it.", 0, "PodResourcesLarge", ""},
		{DriverGone, "A pod is Terminating longer than its grace period, because no driver is registered that could unprepare its claim.", 30 * time.Second, "DriverGone",
			"start a pod of the driver on the node; the kubelet then unprepares the claim, and the pod ends"},
	}
}

// ofCheckpoint reports whether a kind of findings needs the kubelet's checkpoint: the other sources do not show
// that there is none.
func ofCheckpoint(kind string) bool {
	return slices.Contains([]string{HeldTwice, PreparedGone, AllocatedNotPrepared, DriverGone}, kind)
}

// A Finding is one thing that is wrong.
type Finding struct {
	Kind      string
	Namespace string
	Pod       string
	PodUID    types.UID
	Container string
	// CDI, Reason and Source are of CDIUnresolvable; Reason is one of cdi.Reasons.
	CDI, Reason, Source string
	// Message says it in words.
	Message string
}

// An Input is what Check reads.
type Input struct {
	podresources.Input
	// Unread means that not all claims could be read. Of one that never could, it is not known whether its
	// devices are used with adminAccess.
	Unread bool
	// Plugins are the containers of device plugins; nil if that is switched off.
	Plugins []checkpoint.PluginAllocation
	// Check returns whether the runtime resolves a CDI id.
	Check func(id string) cdi.Result
	// WasAdmin reports whether a device was held with adminAccess, for claims that cannot
	// be read any more.
	WasAdmin func(podresources.Holding) bool
	// Now is when the sources were read.
	Now time.Time
	// Registered reports whether the kubelet can call a driver; known is false if the sockets
	// cannot be read.
	Registered func(driver string) (registered, known bool)
	// TooLarge means that the kubelet's answer was too large to be read.
	TooLarge bool
}

// Check returns the problems of the holdings of a node. The order is stable.
func Check(in Input, holdings []podresources.Holding) []Finding {
	findings := slices.Concat(in.unresolvable(holdings), in.unresolvablePlugins(), in.drift(holdings), in.heldTwice(holdings), in.large(), in.driverGone(holdings))
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings)
}

func about(kind string, h podresources.Holding, message string) Finding {
	return Finding{Kind: kind, Namespace: h.Namespace, Pod: h.Pod, PodUID: h.PodUID, Container: h.Container, Message: message}
}

func (in Input) unresolvable(holdings []podresources.Holding) (findings []Finding) {
	for _, h := range holdings {
		for _, id := range h.CDIIDs {
			for _, problem := range in.Check(id).Problems {
				f := about(CDIUnresolvable, h, fmt.Sprintf("CDI id %s of claim %s: %s: %s", id, h.Claim, problem.Reason, problem.Detail))
				f.CDI, f.Reason, f.Source = id, problem.Reason, "dra"
				findings = append(findings, f)
			}
		}
	}
	return findings
}

// unresolvablePlugins looks at pods that the API server has: the checkpoint keeps
// others for a while.
func (in Input) unresolvablePlugins() (findings []Finding) {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range in.Pods {
		pods[pod.UID] = pod
		if uid := pod.Annotations["kubernetes.io/config.hash"]; uid != "" {
			pods[types.UID(uid)] = pod // a static pod has another UID on the node
		}
	}
	for _, a := range in.Plugins {
		pod := pods[a.PodUID]
		if pod == nil || hasEnded(pod) {
			continue
		}
		for _, id := range a.CDIIDs {
			for _, problem := range in.Check(id).Problems {
				findings = append(findings, Finding{
					Kind: CDIUnresolvable, Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: a.Container,
					CDI: id, Reason: problem.Reason, Source: "device-plugins",
					Message: fmt.Sprintf("CDI id %s of resource %s: %s: %s", id, a.Resource, problem.Reason, problem.Detail),
				})
			}
		}
	}
	return findings
}

func (in Input) drift(holdings []podresources.Holding) (findings []Finding) {
	shared := sharedClaims(holdings)
	for _, h := range holdings {
		switch {
		case h.Pod == "":
			findings = append(findings, about(PreparedGone, h, fmt.Sprintf("claim %s is still prepared for pod %s, which is gone", h.Claim, h.PodUID)))
		case h.Prepared == podresources.PreparedNo:
			findings = append(findings, about(AllocatedNotPrepared, h, fmt.Sprintf("claim %s: driver %s has not prepared it", h.Claim, h.Driver)+sharedClaim(shared[h.PodUID], h.Claim)))
		}
	}
	return findings
}

// sharedClaims returns, for each pod, claims of it that are prepared and that another pod has, too: the first two.
func sharedClaims(holdings []podresources.Holding) map[types.UID][]string {
	first, several := map[types.UID]types.UID{}, map[types.UID]bool{} // by claim: a pod, and whether there are more
	for _, h := range holdings {
		if _, known := first[h.ClaimUID]; !known {
			first[h.ClaimUID] = h.PodUID
		}
		several[h.ClaimUID] = several[h.ClaimUID] || first[h.ClaimUID] != h.PodUID
	}
	shared := map[types.UID][]string{}
	for _, h := range holdings {
		of := shared[h.PodUID]
		// Devices of device plugins, and of claims that are not known, have no UID of a claim.
		if h.ClaimUID != "" && several[h.ClaimUID] && h.Prepared == podresources.PreparedYes && len(of) < 2 && !slices.Contains(of, h.Claim) {
			shared[h.PodUID] = append(of, h.Claim)
		}
	}
	return shared
}

// sharedClaim names a claim of the pod, other than this one, that is prepared for another pod, too: kubelets
// with a known fault then do not prepare the other claims of the pod.
func sharedClaim(shared []string, claim string) string {
	for _, other := range shared {
		if other != claim {
			return fmt.Sprintf("; the pod shares claim %s, which is prepared: a kubelet before 1.34.4, or of 1.35.0, then prepares no other claim of the pod (kubernetes#135901); upgrade it, or name the shared claim last", other)
		}
	}
	return ""
}

// driverGone reports the pods that cannot end.
func (in Input) driverGone(holdings []podresources.Holding) (findings []Finding) {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range in.Pods {
		// The API server has added the grace period to the time of the deletion.
		if pod.DeletionTimestamp != nil && in.Now.After(pod.DeletionTimestamp.Time) {
			pods[pod.UID] = pod
		}
	}
	for _, h := range holdings {
		if pods[h.PodUID] == nil || h.Prepared != podresources.PreparedYes || ofPlugin(h) || in.Registered == nil {
			continue
		}
		if registered, known := in.Registered(h.Driver); known && !registered {
			h.Container = ""
			findings = append(findings, about(DriverGone, h, fmt.Sprintf(
				"the pod is Terminating longer than its grace period: driver %s, which has prepared claim %s, is not registered with the kubelet", h.Driver, h.Claim)))
		}
	}
	return findings
}

// heldTwice reports each holder of a device that another claim holds, too. The claim of a pod that exists
// shows adminAccess: while claims cannot be read, the kubelet's word is not enough.
func (in Input) heldTwice(holdings []podresources.Holding) (findings []Finding) {
	holders, shared := map[Device][]podresources.Holding{}, map[Device]bool{}
	for _, h := range holdings {
		shared[deviceOf(h)] = shared[deviceOf(h)] || h.ShareID != ""
		if in.Unread && h.Pod != "" && h.Source != podresources.FromClaim {
			continue
		}
		if h.ShareID == "" && !h.AdminAccess && h.ClaimUID != "" && (in.WasAdmin == nil || !in.WasAdmin(h)) {
			holders[deviceOf(h)] = append(holders[deviceOf(h)], h)
		}
	}
	for at, all := range holders {
		if shared[at] {
			continue // the checkpoint need not name the share of a claim
		}
		for _, h := range all {
			if i := slices.IndexFunc(all, func(o podresources.Holding) bool { return o.ClaimUID != h.ClaimUID }); i >= 0 {
				other := cmp.Or(all[i].Pod, "UID "+string(all[i].PodUID))
				findings = append(findings, about(HeldTwice, h, fmt.Sprintf("device %s is also held by pod %s with claim %s",
					strings.Join([]string{at.Driver, at.Pool, at.Name}, "/"), other, all[i].Claim)))
			}
		}
	}
	return findings
}

// usualLimit is the size of an answer that many clients cannot read: the default of gRPC.
const usualLimit = 4 << 20

// large reports an answer of the kubelet that clients with the usual limit cannot read. The
// message has no size, which changes with each read: a metric has it.
func (in Input) large() []Finding {
	const remedy = "a driver that fails to prepare a claim of a pod makes it grow until the pod is deleted (kubernetes#141335)"
	if in.TooLarge {
		return []Finding{{Kind: PodResourcesLarge, Message: "the answer of PodResources has more than 32 MiB, and the agent cannot read it; " + remedy}}
	}
	if in.Listing == nil {
		return nil
	}
	if in.Listing.Bytes <= usualLimit {
		return nil
	}
	f := Finding{Kind: PodResourcesLarge, Namespace: in.Listing.Largest.Namespace, Pod: in.Listing.Largest.Name,
		Message: "the answer of PodResources has more than 4 MiB, most of it about this pod; " + remedy}
	for _, pod := range in.Pods {
		if pod.Namespace == f.Namespace && pod.Name == f.Pod {
			f.PodUID = pod.UID
		}
	}
	return []Finding{f}
}
