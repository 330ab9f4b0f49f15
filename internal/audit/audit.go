// Package audit says which stored objects would be refused if the modes of policies and
// the severities of rules were raised to deny. It is the webhook's own pipeline; the
// package knows no client.
package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Options configure the check.
type Options struct {
	// Configuration is that of the site, with the modes of today.
	Configuration v1alpha1.StewardConfiguration
	// Policies are the policies; nil is none.
	Policies *policy.Set
	// ClusterView and ClusterData are the other objects that exist; nil is none.
	ClusterView validate.ClusterView
	ClusterData policy.ClusterData
	// Minor is that of the API server, 0 if it is not known.
	Minor int
	// Raise are the codes of policies and IDs of rules that are raised to deny, also where
	// they are off today. None raises all that are not off, and reports what denies today
	// as well.
	Raise []string
	// Now is the time by which exemptions expire.
	Now time.Time
}

// evaluationTime is how long the selectors of one object are evaluated at most.
const evaluationTime = 5 * time.Second

// An Auditor checks stored objects. Several goroutines may use it.
type Auditor struct {
	raised review.Reviewer
	today  review.Reviewer
	only   []string
	now    time.Time
}

// New refuses a configuration that is wrong, and names to raise that there are not.
func New(o Options) (*Auditor, error) {
	if err := checkRaise(o.Raise, o.Policies); err != nil {
		return nil, err
	}
	a := &Auditor{only: o.Raise, now: o.Now}
	var err error
	if a.today, err = o.reviewer(o.Configuration); err != nil {
		return nil, err
	}
	a.raised, err = o.reviewer(raised(o.Configuration, a.today, o.Raise))
	a.raised.Evaluations = &validate.Evaluations{}
	a.raised.SelectorTime = evaluationTime
	return a, err
}

func (o Options) reviewer(c v1alpha1.StewardConfiguration) (review.Reviewer, error) {
	r, err := review.New(c)
	if err != nil {
		return r, err
	}
	r.InCluster, r.ClusterView, r.ClusterData = true, o.ClusterView, o.ClusterData
	if r.Profile.Minor == 0 {
		r.Profile.Minor = o.Minor
	}
	if o.Policies == nil {
		return r, nil
	}
	settings, err := review.PolicySettings(c)
	if err != nil {
		return r, err
	}
	r.Policies, err = policy.NewEngine(o.Policies, settings)
	return r, err
}

// A Finding is one reason for which a stored object would be refused.
type Finding struct {
	// Code is that of the policy or the ID of the rule.
	Code string `json:"code"`
	// Today is its mode now: off, audit, warn or deny.
	Today policy.Mode `json:"today"`
	Kind  string      `json:"kind"`
	// Namespace is empty for kinds without one.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Generated is true for a claim that, by its owner reference, was created from a
	// template: the webhook would refuse the template then.
	Generated bool   `json:"generated,omitempty"`
	Path      string `json:"path,omitempty"`
	Message   string `json:"message"`
}

// An Object is one that is stored.
type Object struct {
	Kind schema.GroupVersionKind
	// JSON is the object as the API server returns it.
	JSON []byte
}

// An EvaluationError is about one object that policies could not evaluate. The audit can go
// on with others.
type EvaluationError struct{ error }

// Check returns why an object would be refused, as if its author created it now. Who that was
// is not known: policies about users evaluate it as a user that they do not name.
func (a *Auditor) Check(object Object) ([]Finding, error) {
	h, err := headOf(object)
	if err != nil {
		return nil, err
	}
	kind, meta := object.Kind.Kind, h.Metadata
	at := Finding{Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Generated: h.generated(kind)}
	request := review.Request{Kind: object.Kind, Object: object.JSON, Decoded: new(runtime.Object), Namespace: meta.Namespace, Now: a.timeOf(object)}
	var findings []Finding
	for _, subresource := range []string{"", "status"} {
		if subresource != "" && !h.allocated(kind) {
			continue
		}
		request.Subresource = subresource
		check := a.raised.Validate
		if subresource == "" {
			check = a.raised.Review // the webhook fills in defaults before it checks
		}
		answer, err := check(request)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.Kind.Kind, fullName(meta.Namespace, meta.Name), err)
		}
		if err := answer.Decision.Err(); err != nil {
			return findings, EvaluationError{fmt.Errorf("%s %s: policies were not evaluated: %w", object.Kind.Kind, fullName(meta.Namespace, meta.Name), err)}
		}
		for _, f := range answer.Findings {
			if f.Severity == validate.Error && (len(a.only) == 0 || slices.Contains(a.only, f.Rule)) {
				findings = append(findings, a.finding(at, f))
			}
		}
	}
	return findings, nil
}

func (a *Auditor) finding(at Finding, f review.Finding) Finding {
	at.Code, at.Path, at.Message = f.Rule, f.Path, f.Message
	if ruleid.IsPolicy(f.Rule) {
		at.Today = policy.Off
		if a.today.Policies != nil {
			at.Today = a.today.Policies.Mode(f.Rule, at.Namespace)
		}
		return at
	}
	at.Today = modeOf(a.today.Severity(f.Rule))
	return at
}

// A head is what is read of an object to find out who it belongs to and what is checked.
type head struct {
	Metadata struct {
		Namespace       string                  `json:"namespace"`
		Name            string                  `json:"name"`
		UID             string                  `json:"uid"`
		Annotations     map[string]string       `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		Allocation json.RawMessage `json:"allocation"`
	} `json:"status"`
}

func headOf(object Object) (h head, err error) {
	if err := json.Unmarshal(object.JSON, &h); err != nil {
		return h, fmt.Errorf("%s: %w", object.Kind.Kind, err)
	}
	return h, nil
}

// generated tells by its owner whether a claim was made of the template of a pod. A tenant
// may set that, so nothing is left out by it.
func (h head) generated(kind string) bool {
	owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: h.Metadata.OwnerReferences})
	return kind == "ResourceClaim" && owner != nil && owner.Kind == "Pod" && h.Metadata.Annotations[resourceapi.PodResourceClaimAnnotation] != ""
}

// allocated reports whether a cluster has allocated a claim. Without a uid the object is
// a manifest, and the API server drops its status.
func (h head) allocated(kind string) bool {
	return kind == "ResourceClaim" && h.Metadata.UID != "" && len(h.Status.Allocation) > 0
}

// timeOf is when an object was written, as far as it matters: the time of a taint rule is
// that of its taint, for what is right when it is written is in the past soon after.
func (a *Auditor) timeOf(object Object) time.Time {
	if object.Kind.Kind != "DeviceTaintRule" {
		return a.now
	}
	var rule struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              resourceapi.DeviceTaintRuleSpec `json:"spec"`
	}
	if json.Unmarshal(object.JSON, &rule) != nil {
		return a.now
	}
	written := rule.CreationTimestamp.Time
	if added := rule.Spec.Taint.TimeAdded; added != nil && added.After(written) && !added.After(a.now) {
		written = added.Time
	}
	if written.IsZero() {
		return a.now
	}
	return written
}

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
