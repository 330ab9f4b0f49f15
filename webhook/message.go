package webhook

import (
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// maxFindings is how many findings of a kind an answer names; a slice with 128 bad
// devices needs no more to be understood.
const maxFindings = 10

// denied makes the answer that the API server itself gives to an invalid object:
// status 422 with a cause for every field. kubectl prints only the causes, other
// clients only the message, so both name the rule.
func denied(req admission.Request, answer review.Answer) admission.Response {
	details := &metav1.StatusDetails{Group: req.Kind.Group, Kind: req.Kind.Kind, Name: answer.Name}
	var lines []string
	for _, finding := range answer.Findings {
		if finding.Severity != review.Error {
			continue
		}
		if len(lines) < maxFindings {
			details.Causes = append(details.Causes, metav1.StatusCause{
				Type: metav1.CauseType(finding.Type), Message: withRule(finding), Field: finding.Path,
			})
		}
		lines = append(lines, line(finding))
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Warnings: warnings(answer),
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Details: details,
			Message: fmt.Sprintf("%s %q: %s", req.Kind.Kind, answer.Name, strings.Join(shorten(lines), "; ")),
		},
	}}
}

func warnings(answer review.Answer) []string {
	var lines []string
	for _, finding := range answer.Findings {
		if finding.Severity == review.Warning {
			lines = append(lines, line(finding))
		}
	}
	lines = shorten(lines)
	if answer.Effect != "" {
		lines = append(lines, answer.Effect)
	}
	return lines
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
	return fmt.Sprintf("%s (dra-steward rule %s)", f.Message, f.Rule)
}

func shorten(lines []string) []string {
	if len(lines) <= maxFindings {
		return lines
	}
	return append(lines[:maxFindings:maxFindings], fmt.Sprintf("and %d more", len(lines)-maxFindings))
}

// annotated adds to a response what the audit log shall know: the findings, and what
// passed because of an exemption. The API server puts the webhook's name before the keys.
func annotated(response admission.Response, answer review.Answer) admission.Response {
	var findings, exempted []string
	for _, f := range answer.Findings {
		findings = append(findings, f.Severity.String()+": "+line(f))
	}
	for _, f := range answer.Audited {
		findings = append(findings, "audit: "+line(f))
	}
	for _, e := range answer.Exempted {
		exempted = append(exempted, line(e.Finding)+": "+e.Reason)
	}
	for key, lines := range map[string][]string{"findings": findings, "exempted": exempted} {
		if len(lines) == 0 {
			continue
		}
		if response.AuditAnnotations == nil {
			response.AuditAnnotations = map[string]string{}
		}
		response.AuditAnnotations[key] = strings.Join(shorten(lines), "\n")
	}
	return response
}
