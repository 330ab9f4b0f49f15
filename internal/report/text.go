package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/evictor"
)

// Texts are the forms of a report for people. wide has every object and device.
func Texts() []string { return []string{"text", "wide"} }

// few is how many objects are named where not all are.
const few = 3

// Write writes the report in one of Texts.
func (r Report) Write(output string, out io.Writer) error {
	switch output {
	case "text", "wide":
		w := printable.NewTable(out, 2)
		r.ladder(w)
		for _, step := range r.Steps[1:] {
			step.explain(w, r.Replicas > 0, output == "wide")
		}
		r.holders(w, output == "wide")
		r.taints(w)
		r.faults(w)
		for _, note := range r.Notes {
			printable.Printf(w, "\nnote: %s\n", note)
		}
		return w.Flush()
	}
	return fmt.Errorf("--output %q: must be one of %s", output, strings.Join(Texts(), ", "))
}

// faults writes the known faults of the version of Kubernetes.
func (r Report) faults(w io.Writer) {
	if len(r.Faults) == 0 {
		return
	}
	printable.Printf(w, "\nthe API server is %s; known faults of this version of Kubernetes\n", r.Server)
	for _, fault := range r.Faults {
		printable.Printf(w, "  %s\n", fault)
	}
	if !faults.Released(r.Server) {
		printable.Printf(w, "  this is the version of a vendor, who can have fixed them\n")
	}
}

// ladder writes a row for each step.
func (r Report) ladder(w io.Writer) {
	seen := "the requests seen by the webhook are unknown"
	if r.Replicas > 0 {
		seen = "seen: what " + counted(r.Replicas, "replica") + " of the webhook counted since their start, as upper bounds"
	}
	printable.Printf(w, "%s checked as if written now; %s\n", counted(r.Objects, "stored object"), seen)
	printable.Printf(w, "STEP\tREFUSES\tWARNS\tDEFAULTS\tEVICTS\tSEEN: REFUSES\tWARNS\tDEFAULTS\n")
	for i, s := range r.Steps {
		name := string(s.Mode)
		if i == 0 {
			name += " (today)"
		}
		printable.Printf(w, "%s\t%d\t%d\t%d\t%d\t", name, s.Refused.Objects, s.Warned.Objects, s.Defaulted.Objects, len(s.Evicted))
		if r.Replicas == 0 {
			printable.Printf(w, "-\t-\t-\n")
			continue
		}
		printable.Printf(w, "%d\t%d\t%d\n", s.Refused.Seen, s.Warned.Seen, s.Defaulted.Seen)
	}
}

// explain prints what a step does, and to whom.
func (s Step) explain(w io.Writer, seen, wide bool) {
	for _, part := range []struct {
		what string
		Group
	}{{"refuse", s.Refused}, {"fill in", s.Defaulted}} {
		if len(part.Codes) > 0 {
			printable.Printf(w, "\n%s would %s\n", s.Mode, part.what)
		}
		for _, code := range part.Codes {
			cells := printable.Cells{code.Code, counted(len(code.Objects), "object"), some(code.Objects, wide)}
			if seen {
				cells = slices.Insert(cells, 2, fmt.Sprintf("seen %d", code.Seen))
			}
			printable.Printf(w, "  %s\n", cells)
		}
	}
	for _, part := range []struct {
		what string
		pods []Eviction
	}{
		{"evict", s.Evicted},
		{"not evict, because their taints are older than the step (controller.actSince)", s.Spared},
		{"leave to kube-controller-manager", s.Left},
	} {
		if len(part.pods) > 0 && s.Evictions != evictor.ModeObserve {
			printable.Printf(w, "\n%s would %s\n", s.Mode, part.what)
			pods(w, part.pods)
		}
	}
}

func pods(w io.Writer, evictions []Eviction) {
	for _, e := range evictions {
		printable.Printf(w, "  %s\t%s\n", e.Pod, e.Reason)
	}
}

// holders writes who holds what.
func (r Report) holders(w io.Writer, wide bool) {
	if len(r.Holders) == 0 {
		printable.Printf(w, "\nno device is allocated\n")
		return
	}
	printable.Printf(w, "\nNAMESPACE\tDRIVER\tDEVICES\tCLAIMS\tPODS\n")
	for _, h := range r.Holders {
		printable.Printf(w, "%s\t%s\t%d\t%d\t%d\n", h.Namespace, h.Driver, h.Devices, h.Claims, h.Pods)
	}
	if !wide {
		return
	}
	printable.Printf(w, "\nDEVICE\tCLAIMS\tPODS\tTAINTS\tHEALTH\n")
	for _, d := range r.Devices {
		printable.Printf(w, "%s\t%s\t%s\t%s\t%s\n", d.Device, dash(d.Claims), dash(d.Pods), dash(d.Taints), cmp.Or(d.Health, "-"))
	}
}

func (r Report) taints(w io.Writer) {
	if len(r.Taints) == 0 {
		printable.Printf(w, "\nno device is tainted\n")
		return
	}
	printable.Printf(w, "\nTAINT\tFROM\tDEVICES\tHELD\tPODS\n")
	for _, t := range r.Taints {
		notes := t.Findings
		if t.Dormant {
			notes = append([]string{"dormant: no pods"}, notes...)
		}
		printable.Printf(w, "%s\t%s\t%d\t%d\t%d", t.Taint, t.Source, t.Devices, t.Held, t.Pods)
		if len(notes) > 0 {
			printable.Printf(w, "\t%s", strings.Join(notes, "; "))
		}
		printable.Printf(w, "\n")
	}
}

func some(names []string, all bool) string {
	most := few
	if all {
		most = len(names)
	}
	return plural.List(names, most, len(names))
}

func dash(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Exposure describes the writes of tenants that are admitted unchecked while no replica of
// the webhook answers. It is empty if there are none.
func Exposure(configurations []admissionv1.ValidatingWebhookConfiguration) string {
	var resources []string
	for _, configuration := range configurations {
		for _, webhook := range configuration.Webhooks {
			if webhook.FailurePolicy == nil || *webhook.FailurePolicy != admissionv1.Ignore || strings.HasPrefix(webhook.Name, "system-") {
				continue
			}
			for _, rule := range webhook.Rules {
				for _, resource := range rule.Resources {
					if resource == "resourceclaims" || resource == "resourceclaimtemplates" {
						resources = append(resources, resource)
					}
				}
			}
		}
	}
	if len(configurations) == 0 {
		return "there is no webhook configuration of dra-steward: no write is checked"
	}
	if len(resources) == 0 {
		return ""
	}
	slices.Sort(resources)
	return "while no replica of the webhook answers, " + strings.Join(slices.Compact(resources), " and ") +
		" are admitted unchecked (failurePolicy Ignore): a tenant who makes the webhook unreachable can store what policies deny; mode enforce refuses such writes"
}

// ofScheduler describes a claim that the scheduler created for extended resources of a pod,
// which the webhook never denies. It is empty for other objects.
func ofScheduler(object []byte) string {
	if !strings.Contains(string(object), resourceapi.ExtendedResourceClaimAnnotation) {
		return ""
	}
	var claim metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &claim); err != nil || claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "Pod" {
			return " (for extended resources of pod " + owner.Name + ")"
		}
	}
	return " (for extended resources of a pod)"
}
