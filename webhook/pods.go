package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Pods knows the pods of a cluster that name claims, and the claims that they use.
type Pods interface {
	// Pod returns the pod of that name if it names a claim, or nil.
	Pod(namespace, name string) *corev1.Pod
	// ClaimsOf returns the claims that are reserved for a pod. An error says why they
	// are not known.
	ClaimsOf(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error)
}

// podDeletions checks deletions and evictions of pods and passes all other requests on.
type podDeletions struct {
	handler
	next admission.Handler
	pods Pods
}

// PodDeletions returns a handler for deletions and evictions of pods, before another one
// for the rest.
func PodDeletions(next admission.Handler, pods Pods, source ReviewerFunc, o Options) admission.Handler {
	return podDeletions{o.handler("validate", source, review.Reviewer.Validate), next, pods}
}

// ExtendedResources returns the handler for new pods that name extended resources which are
// backed by DRA.
func ExtendedResources(source ReviewerFunc, o Options) admission.Handler {
	return o.handler("pods", source, review.Reviewer.Pod)
}

// Handle refuses a deletion by force of a pod that holds devices.
func (p podDeletions) Handle(ctx context.Context, req admission.Request) admission.Response {
	if !endsPod(req) {
		return p.next.Handle(ctx, req)
	}
	start := time.Now()
	response, verdict := p.check(ctx, req, start)
	p.Metrics.observe(p.endpoint, req, verdict, time.Since(start))
	return response
}

// endsPod reports whether a request is to delete or to evict a pod.
func endsPod(req admission.Request) bool {
	deletes := req.Operation == admissionv1.Delete && req.SubResource == ""
	return req.Resource.Group == "" && req.Resource.Resource == "pods" && (deletes || evicts(req))
}

func evicts(req admission.Request) bool {
	return req.Operation == admissionv1.Create && req.SubResource == "eviction"
}

// check admits what it cannot check: a pod that cannot be deleted is worse.
func (p podDeletions) check(ctx context.Context, req admission.Request, now time.Time) (admission.Response, string) {
	answer, err := p.review(ctx, req, now)
	if err != nil {
		p.Log.Error(err, "cannot check the deletion of a pod; admitted", "namespace", req.Namespace, "name", req.Name, "uid", req.UID)
		return admission.Allowed("").WithWarnings(named("cannot check whether the pod holds devices: "+p.redactError(ctx, err).Error(), ruleid.ForceDeletion)), verdictErrored
	}
	p.Metrics.count(answer)
	p.Decisions.record(p.endpoint, req, answer)
	return p.respond(ctx, req, answer)
}

func (p podDeletions) review(ctx context.Context, req admission.Request, now time.Time) (review.Answer, error) {
	deletion, err := p.deletion(req)
	if err != nil || deletion == nil {
		return review.Answer{Name: req.Name}, err
	}
	return p.reviewDeletion(ctx, req, deletion, now)
}

// reviewDeletion checks the deletion of a pod with the rules.
func (h handler) reviewDeletion(ctx context.Context, req admission.Request, deletion *validate.PodDeletion, now time.Time) (review.Answer, error) {
	object, err := json.Marshal(deletion)
	if err != nil {
		return review.Answer{}, err
	}
	reviewer := h.source()
	reviewer.InCluster = true
	answer, err := h.step(reviewer, review.Request{
		Context: ctx,
		Kind:    schema.GroupVersionKind(v1alpha1.GroupVersion().WithKind(validate.PodDeletionKind)), Object: object,
		Namespace: req.Namespace, User: &req.UserInfo, DryRun: req.DryRun != nil && *req.DryRun, Now: now,
	})
	answer.Name = deletion.Pod.Name
	return answer, err
}

// deletion puts together what is asked for; nil if the pod holds no devices.
func (p podDeletions) deletion(req admission.Request) (*validate.PodDeletion, error) {
	var options metav1.DeleteOptions
	pod := &corev1.Pod{}
	if req.Operation == admissionv1.Delete {
		if err := quantity.Unmarshal(req.OldObject.Raw, pod); err != nil {
			return nil, fmt.Errorf("cannot decode the stored Pod: %w", err)
		}
		if err := json.Unmarshal(req.Options.Raw, &options); err != nil {
			return nil, fmt.Errorf("cannot decode DeleteOptions: %w", err)
		}
	} else {
		var eviction policyv1.Eviction // that of v1beta1 has the same fields
		if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
			return nil, fmt.Errorf("cannot decode Eviction: %w", err)
		}
		if eviction.DeleteOptions != nil {
			options = *eviction.DeleteOptions
		}
		pod = p.pods.Pod(req.Namespace, req.Name)
	}
	if pod == nil {
		return nil, nil
	}
	claims, err := p.pods.ClaimsOf(pod)
	return &validate.PodDeletion{GracePeriodSeconds: options.GracePeriodSeconds, Pod: *pod, Claims: claims}, err
}
