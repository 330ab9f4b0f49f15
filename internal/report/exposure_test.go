package report_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestExposure: claims and templates of tenants count, those of system users and other kinds
// do not.
func TestExposure(t *testing.T) {
	webhook := func(name, resource string, policy admissionv1.FailurePolicyType) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{Name: name, FailurePolicy: &policy, Rules: []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{Resources: []string{resource}}}}}
	}
	published := webhook("slices.validate.dra-steward.io", "resourceslices", admissionv1.Ignore)
	system := webhook("system-claims.validate.dra-steward.io", "resourceclaims", admissionv1.Ignore)
	for name, tt := range map[string]struct {
		webhooks []admissionv1.ValidatingWebhook
		want     string
	}{
		"both": {[]admissionv1.ValidatingWebhook{published, webhook("claims.validate.dra-steward.io", "resourceclaims", admissionv1.Ignore),
			webhook("templates.validate.dra-steward.io", "resourceclaimtemplates", admissionv1.Ignore)}, "resourceclaims and resourceclaimtemplates are admitted unchecked"},
		"one": {[]admissionv1.ValidatingWebhook{webhook("claims.validate.dra-steward.io", "resourceclaims", admissionv1.Fail), system,
			webhook("templates.validate.dra-steward.io", "resourceclaimtemplates", admissionv1.Ignore)}, ", resourceclaimtemplates are admitted unchecked"},
		"none": {[]admissionv1.ValidatingWebhook{published, webhook("claims.validate.dra-steward.io", "resourceclaims", admissionv1.Fail), system}, ""},
	} {
		got := report.Exposure([]admissionv1.ValidatingWebhookConfiguration{{Webhooks: tt.webhooks}})
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if got := report.Exposure(nil); !strings.Contains(got, "no write is checked") {
		t.Errorf("nothing is installed: got %q", got)
	}
}

// TestClaimOfTheScheduler: a finding about a claim that the scheduler created names the pod.
func TestClaimOfTheScheduler(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	in, _ := world()
	in.Modes = mode.All()[3:]
	if in.Ladder, err = audit.NewLadder(audit.Options{Configuration: v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, Policies: set, Now: now}, in.Modes, nil); err != nil {
		t.Fatal(err)
	}
	maker := report.NewMaker(&in)
	const claim = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"trainer-extended","namespace":"ml",
		"annotations":{"resource.kubernetes.io/extended-resource-claim":"true"},
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"trainer","uid":"1","controller":true}]},
		"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.example.com","tolerations":[{"operator":"Exists"}]}}]}}}`
	if err := maker.Add(audit.Object{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), JSON: []byte(claim)}); err != nil {
		t.Fatal(err)
	}
	for _, code := range maker.Report().Steps[0].Refused.Codes {
		if slices.Contains(code.Objects, "ResourceClaim ml/trainer-extended (for extended resources of pod trainer)") {
			return
		}
	}
	t.Errorf("no finding names the pod: %+v", maker.Report().Steps[0].Refused)
}
