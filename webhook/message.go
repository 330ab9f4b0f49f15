package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// maxFindings is how many findings of a kind an answer names; a slice with 128 bad
// devices needs no more to be understood.
const maxFindings = 10

// denied makes the answer that the API server itself gives to an invalid object:
// status 422 with a cause for every field. kubectl prints only the causes, other
// clients only the message, so both name the rule.
func denied(req admission.Request, answer review.Answer) admission.Response {
	details := &metav1.StatusDetails{Group: req.Kind.Group, Kind: req.Kind.Kind, Name: answer.Name}
	errs := slices.DeleteFunc(slices.Clone(inOrder(answer.Findings)), func(f review.Finding) bool { return f.Severity != validate.Error })
	for _, finding := range errs[:min(len(errs), maxFindings)] {
		details.Causes = append(details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(finding.Type), Message: withRule(finding), Field: finding.Path,
		})
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Warnings: warnings(answer),
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Details: details,
			Message: fmt.Sprintf("%s %q: %s", req.Kind.Kind, answer.Name, strings.Join(firstLines(errs), "; ")),
		},
	}}
}

// line is one finding with its place.
func line(f review.Finding) string {
	if f.Path == "" {
		return withRule(f)
	}
	return f.Path + ": " + withRule(f)
}

// withRule is the message of a finding with the rule to ask "explain" for.
func withRule(f review.Finding) string {
	return named(f.Message, f.Rule)
}

// named is a message with the IDs to ask "explain" for.
func named(message string, rules ...string) string {
	if len(rules) == 1 {
		return message + " (dra-steward rule " + rules[0] + ")"
	}
	return message + " (dra-steward rules: " + strings.Join(rules, ", ") + ")"
}

// firstLines are the first findings, and how many more there are of which rules.
func firstLines(findings []review.Finding) (lines []string) {
	for _, f := range findings[:min(len(findings), maxFindings)] {
		lines = append(lines, line(f))
	}
	var rules []string
	for _, f := range findings[len(lines):] {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	if len(rules) > 0 {
		lines = append(lines, named(fmt.Sprintf("and %d more", len(findings)-maxFindings), rules...))
	}
	return lines
}

// annotated adds to a response what the audit log shall know: the findings, and what
// passed because of an exemption. The API server puts the webhook's name before the keys.
// Only a caller with a client certificate reads the reasons of exemptions; others read
// their places in the configuration.
func annotated(ctx context.Context, response admission.Response, answer review.Answer) admission.Response {
	var findings, exempted notes
	for _, f := range answer.Findings {
		findings.add(f.Severity.String()+": ", f)
	}
	for _, f := range answer.Audited {
		findings.add("audit: ", f)
	}
	for _, e := range answer.Exempted {
		why := e.Place
		if authenticated(ctx) {
			why = e.Reason
		}
		exempted.add("", e.Finding, ": ", why)
	}
	if findings.count+exempted.count > 0 {
		response.AuditAnnotations = map[string]string{}
		findings.write(response.AuditAnnotations, "findings")
		exempted.write(response.AuditAnnotations, "exempted")
	}
	return response
}

// notes are lines about findings.
type notes struct {
	text  strings.Builder
	count int
}

func (n *notes) add(before string, f review.Finding, behind ...string) {
	n.count++
	if n.count > maxFindings {
		return
	}
	n.text.Grow(len(before) + len(f.Path) + len(f.Message) + len(f.Rule) + 32)
	if n.count > 1 {
		n.text.WriteByte('\n')
	}
	n.text.WriteString(before)
	if f.Path != "" {
		n.text.WriteString(f.Path)
		n.text.WriteString(": ")
	}
	n.text.WriteString(f.Message)
	n.text.WriteString(" (dra-steward rule ")
	n.text.WriteString(f.Rule)
	n.text.WriteString(")")
	for _, part := range behind {
		n.text.WriteString(part)
	}
}

func (n *notes) write(annotations map[string]string, key string) {
	if n.count == 0 {
		return
	}
	if n.count > maxFindings {
		fmt.Fprintf(&n.text, "\nand %d more", n.count-maxFindings)
	}
	annotations[key] = n.text.String()
}
