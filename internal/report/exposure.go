package report

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
