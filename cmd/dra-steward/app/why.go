package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/why"
)

// whyOptions are the flags of why.
type whyOptions struct {
	lookOptions
	output  string
	patched bool
}

func whyCommand(streams Streams) *cobra.Command {
	o := whyOptions{lookOptions: lookOptions{claims: true, pods: true, nodes: true}}
	c := &cobra.Command{
		Use:   "why CLAIM|POD",
		Short: "Say why a claim, or the claims of a pod, have no devices",
		Long: `why says of each request of a ResourceClaim and of each device the first thing that
keeps the device from being allocated: its pool is incomplete (before Kubernetes 1.35
that keeps nobody), its node is none on which
the pod may run, a selector of the class or of the request is false or fails, a taint is
not tolerated (and whose it is), another claim has it (and which, as far as you may see
claims). The verdict is that of kube-scheduler's own allocator.

CLAIM is claim/NAME, POD is pod/NAME; a bare NAME is a claim, or else a pod. It reads a
cluster as far as you may, and says what it could not read; or with --from-files none.
kube-scheduler looks at devices as drivers publish them: what ResourceSlicePatches make
of them counts only with --patched, for one that is built with them.

Exit codes: 0 the devices are allocated or could be now, 1 not, 2 could not find out.`,
		Example: `  dra-steward why pod/train-0 -n team-a
  dra-steward why claim/train -n team-a -o yaml
  kubectl get resourceslices,deviceclasses,devicetaintrules,resourceclaims,nodes,pods -A -o yaml |
    dra-steward why train -n team-a --from-files -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return explainWhy(c.Context(), streams, o, args[0]) },
	}
	o.flags(c)
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the claim or pod")
	f.StringVarP(&o.output, "output", "o", "text", "how to write: text (devices with one reason together), wide (each device), json or yaml")
	f.BoolVar(&o.patched, "patched", false, "look at devices as ResourceSlicePatches make them, as a scheduler does that is built with them")
	complete(c, "output", []string{"text", "wide", "json", "yaml"})
	return c
}

// whyReport is what why writes.
type whyReport struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod,omitempty"`
	// Scheduler is what kube-scheduler has said of the pod.
	Scheduler string       `json:"scheduler,omitempty"`
	Claims    []why.Report `json:"claims"`
}

func explainWhy(ctx context.Context, streams Streams, o whyOptions, argument string) error {
	if !slices.Contains([]string{"text", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("--output %q: must be text, wide, json or yaml", o.output)
	}
	found, err := o.look(ctx, streams)
	if err != nil {
		return err
	}
	claim, pod, err := found.named(o.namespace, argument)
	if err != nil {
		return err
	}
	report, err := found.why(ctx, o, claim, pod)
	if err != nil {
		return err
	}
	switch o.output {
	case "json":
		err = writeJSON(streams.Out, report)
	case "yaml":
		err = writeYAML(streams.Out, report)
	default:
		err = writeWhy(streams.Out, report, o.output == "wide")
	}
	if err == nil && slices.ContainsFunc(report.Claims, func(r why.Report) bool { return r.Verdict != why.Allocated && r.Verdict != why.Allocatable }) {
		err = errFindings
	}
	return err
}

// why answers for one claim and a pod that uses it, or for all claims of a pod.
func (l *look) why(ctx context.Context, o whyOptions, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (whyReport, error) {
	report := whyReport{Namespace: o.namespace, Claims: []why.Report{}}
	claims := []*resourceapi.ResourceClaim{claim}
	if claim == nil {
		claims = nil
		for _, reference := range l.claimsOf(pod) {
			if reference.claim != nil {
				claims = append(claims, reference.claim)
				continue
			}
			report.Claims = append(report.Claims, why.Report{Namespace: pod.Namespace, Claim: reference.name, Verdict: why.NotMade, Message: reference.missing})
		}
	} else if users := l.usersOf(claim); len(users) > 0 {
		pod = users[0]
	}
	if pod != nil {
		report.Pod = pod.Name
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				report.Scheduler = c.Message
			}
		}
	}
	world := why.World{View: l.view, Claims: l.claims, Nodes: l.nodes, Patched: o.patched, NoClasses: l.noClasses, IncompletePools: l.before135, Notes: l.notes}
	for _, claim := range claims {
		answer, err := world.Explain(ctx, claim, pod)
		if err != nil {
			return report, err
		}
		report.Claims = append(report.Claims, answer)
	}
	return report, nil
}

// named finds what the argument names: a claim, or else a pod.
func (l *look) named(namespace, argument string) (*resourceapi.ResourceClaim, *corev1.Pod, error) {
	kind, name, prefixed := strings.Cut(argument, "/")
	if !prefixed {
		kind, name = "", argument
	}
	isClaim := slices.Contains([]string{"claim", "resourceclaim", "resourceclaims"}, kind)
	isPod := slices.Contains([]string{"pod", "pods", "po"}, kind)
	if prefixed && !isClaim && !isPod {
		return nil, nil, fmt.Errorf("%q: must be claim/NAME, pod/NAME or NAME", argument)
	}
	if !isPod {
		for _, claim := range l.claims {
			if claim.Name == name && or(claim.Namespace, "default") == namespace {
				return claim, nil, nil
			}
		}
	}
	if !isClaim {
		for _, pod := range l.pods {
			if pod.Name == name && or(pod.Namespace, "default") == namespace {
				return nil, pod, nil
			}
		}
	}
	message := fmt.Sprintf("there is no claim and no pod %q in namespace %q", name, namespace)
	if prefixed {
		message = fmt.Sprintf("there is no %s %q in namespace %q", kind, name, namespace)
	}
	return nil, nil, errors.New(strings.Join(append([]string{message}, l.notes...), "; "))
}

// podClaim is a claim of a pod; missing says why there is none.
type podClaim struct {
	name    string
	claim   *resourceapi.ResourceClaim
	missing string
}

func (l *look) claimsOf(pod *corev1.Pod) (all []podClaim) {
	add := func(reference, name string) {
		c := podClaim{name: name, missing: fmt.Sprintf("there is no claim %s", name)}
		for _, claim := range l.claims {
			if claim.Name == name && claim.Namespace == pod.Namespace {
				c.claim = claim
			}
		}
		if name == "" {
			c.name, c.missing = reference, "kube-controller-manager has not made the claim yet: see the events of the pod"
		}
		all = append(all, c)
	}
	for i := range pod.Spec.ResourceClaims {
		reference := &pod.Spec.ResourceClaims[i]
		switch name, _, err := resourceclaim.Name(pod, reference); {
		case err != nil, name == nil && hasStatus(pod, reference.Name): // none is needed
		case name == nil:
			add(reference.Name, "")
		default:
			add(reference.Name, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		add("", extended.ResourceClaimName)
	}
	return all
}

// hasStatus tells whether the controller has decided about a reference.
func hasStatus(pod *corev1.Pod, reference string) bool {
	return slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == reference })
}

// usersOf returns the pods that name a claim, those that wait for a node first.
func (l *look) usersOf(claim *resourceapi.ResourceClaim) (pods []*corev1.Pod) {
	for _, pod := range l.pods {
		for _, reference := range l.claimsOf(pod) {
			if reference.claim == claim {
				pods = append(pods, pod)
				break
			}
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return pods
}
