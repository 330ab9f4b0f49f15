package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A clock tells the time.
type clock = func() time.Time

// splitLines are the lines of a text.
func splitLines(text string) []string {
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}

// A whyView is the data of the page of a claim or a pod.
type whyView struct {
	Kind, Namespace, Name string
	// Node is that of a pod, Phase its phase.
	Node, Phase string
	Answer      why.Answer
	Charts      []chart
	Held        []heldDevice
	// Claims are those of a pod, Pods those of a claim.
	Claims, Pods []string
	Command      string
	Notes        []string
	Error        string
	Events       eventLog
}

// A chart is the devices of a request by reason.
type chart struct {
	Claim, Request, Class, Message string
	Total                          int
	Bars                           []bar
}

// A bar is the devices with one reason, with a message of one of them.
type bar struct {
	Reason, Message, Example string
	Devices                  int
	// Percent is its part of all devices, at least 1.
	Percent int
	Fits    bool
}

func (s *Server) claimPage(ctx context.Context, r *http.Request, now *shown) (page, error) {
	namespace, name := r.FormValue("namespace"), r.FormValue("name")
	for _, claim := range now.fleet.Input.Claims {
		if claim.Namespace == namespace && claim.Name == name {
			v := s.claimView(ctx, now, claim)
			v.Events = s.happenedTo(ctx, namespace, "ResourceClaim", name)
			return page{Template: "why", Title: name, Data: v}, nil
		}
	}
	return page{}, errMissing("claim", namespace+"/"+name, now)
}

func (s *Server) newClaimView(f *fleet.Fleet, claim *resourceapi.ResourceClaim) whyView {
	return whyView{Kind: "claim", Namespace: claim.Namespace, Name: claim.Name, Command: s.command("why", "claim/"+claim.Name, "-n", claim.Namespace), Held: heldByClaim(f, claim)}
}

func (s *Server) claimView(ctx context.Context, now *shown, claim *resourceapi.ResourceClaim) whyView {
	v := s.newClaimView(now.fleet, claim)
	in, done, err := s.question(ctx, now)
	if err != nil {
		v.Error = err.Error()
		return v
	}
	defer done()
	s.explainClaim(ctx, in, claim, &v)
	return v
}

// explainClaim answers why a claim waits.
func (s *Server) explainClaim(ctx context.Context, in fleet.Input, claim *resourceapi.ResourceClaim, v *whyView) {
	var user *corev1.Pod
	for _, pod := range in.Pods {
		if pod.Namespace == claim.Namespace && uses(pod, claim.Name) {
			v.Pods = append(v.Pods, pod.Name)
			if user == nil || pod.Spec.NodeName == "" {
				user = pod
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, predictTime)
	defer cancel()
	v.answer(s.whyCluster(in).ExplainClaim(ctx, claim, user))
}

func (s *Server) podPage(ctx context.Context, r *http.Request, now *shown) (page, error) {
	namespace, name := r.FormValue("namespace"), r.FormValue("name")
	in, done, err := s.question(ctx, now)
	if err != nil {
		return page{}, err
	}
	defer done()
	for _, pod := range in.Pods {
		if pod.Namespace == namespace && pod.Name == name {
			v := s.podView(ctx, now, in, pod)
			v.Events = s.happenedTo(ctx, namespace, "Pod", name)
			return page{Template: "why", Title: name, Data: v}, nil
		}
	}
	return page{}, errMissing("pod", namespace+"/"+name, now)
}

func (s *Server) newPodView(f *fleet.Fleet, in fleet.Input, pod *corev1.Pod) whyView {
	v := whyView{Kind: "pod", Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
		Command: s.command("why", "pod/"+pod.Name, "-n", pod.Namespace)}
	for _, claim := range in.Claims {
		if claim.Namespace == pod.Namespace && uses(pod, claim.Name) {
			v.Claims = append(v.Claims, claim.Name)
			v.Held = append(v.Held, heldByClaim(f, claim)...)
		}
	}
	return v
}

func (s *Server) podView(ctx context.Context, now *shown, in fleet.Input, pod *corev1.Pod) whyView {
	v := s.newPodView(now.fleet, in, pod)
	ctx, cancel := context.WithTimeout(ctx, predictTime)
	defer cancel()
	w := s.whyCluster(in)
	w.Events = s.eventsOfClaims(ctx, pod)
	v.answer(w.ExplainPod(ctx, pod))
	return v
}

// question waits until it may predict, and returns what is known of the cluster. The caller calls done.
func (s *Server) question(ctx context.Context, now *shown) (in fleet.Input, done func(), err error) {
	if done, err = s.begin(ctx); err != nil {
		return in, nil, err
	}
	if in, err = s.withPods(ctx, now); err != nil {
		done()
		return in, nil, err
	}
	return in, done, nil
}

// answer keeps an answer of why.
func (v *whyView) answer(answer why.Answer, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		v.Error = tooLong()
		return
	case err != nil:
		v.Error = err.Error()
		return
	}
	v.Answer = answer
	for _, claim := range answer.Claims {
		v.Notes = append(v.Notes, claim.Notes...)
		for _, r := range claim.Requests {
			v.Charts = append(v.Charts, chartOf(claim.Claim, r))
		}
	}
}

func chartOf(claim string, r why.Request) chart {
	c := chart{Claim: claim, Request: r.Name, Class: r.Class, Message: r.Message, Total: len(r.Devices)}
	reasons, devices := r.Reasons()
	example := map[why.Reason]why.Device{}
	for _, d := range r.Devices {
		if _, known := example[d.Reason]; !known {
			example[d.Reason] = d
		}
	}
	for _, reason := range reasons {
		one := example[reason]
		b := bar{Reason: string(reason), Message: one.Message, Example: usage.DeviceID{Driver: one.Driver, Pool: one.Pool, Device: one.Device}.String(),
			Devices: devices[reason], Percent: max(1, percent(devices[reason], len(r.Devices))), Fits: reason == why.Fits}
		if b.Fits {
			b.Reason, b.Message = "Suitable", "suitable by itself"
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// whyCluster is what is known of the cluster.
func (s *Server) whyCluster(in fleet.Input) why.Cluster {
	return why.Cluster{Now: time.Now(), View: in.View, Claims: in.Claims, Nodes: in.Nodes, NoClasses: in.NoClasses, IncompletePools: in.IncompletePools, Notes: in.Notes, Gates: in.Gates, Lift: s.lift,
		Surroundings: why.Surroundings{Pods: in.Pods, Templates: in.Templates, Groups: in.Groups, NoGroups: in.NoGroups,
			PartialPods: in.NoPods, NoTemplates: len(in.Templates) == 0}}
}

// eventsOfClaims reads the events of a pod of which a claim is not made: they say why.
func (s *Server) eventsOfClaims(ctx context.Context, pod *corev1.Pod) []*corev1.Event {
	if s.options.Events == nil || !slices.ContainsFunc(pod.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool {
		_, _, err := resourceclaim.Name(pod, &r)
		return errors.Is(err, resourceclaim.ErrClaimNotFound)
	}) {
		return nil
	}
	events, err := s.options.Events(ctx, pod.Namespace, "Pod", pod.Name)
	if err != nil {
		return nil // the page says so where it shows the events
	}
	return events
}

// lift is the command of dra-steward that ends the taint of a rule, empty for a rule that it has not created.
func (s *Server) lift(rule *resourceapi.DeviceTaintRule) string {
	switch name, _ := drain.OwnerOf(rule); {
	case name != "":
		return s.command("drain", "--cancel", name)
	case untaints(rule):
		return s.command("untaint", targetOf(rule.Spec.DeviceSelector).String(), rule.Spec.Taint.Key)
	}
	return ""
}

// uses reports whether a pod has a claim.
func uses(pod *corev1.Pod, claim string) bool {
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName == claim {
		return true
	}
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == claim {
			return true
		}
	}
	return false
}

func heldByClaim(f *fleet.Fleet, claim *resourceapi.ResourceClaim) []heldDevice {
	if claim.Status.Allocation == nil {
		return nil
	}
	var ids []usage.DeviceID
	var requests []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		ids, requests = append(ids, usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}), append(requests, r.Request)
	}
	return heldBy(f, ids, requests)
}
