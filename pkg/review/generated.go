package review

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Templates are the ResourceClaimTemplates of a cluster.
type Templates interface {
	// Oldest returns when the oldest template of a namespace was created that makes
	// claims of a specification. known is false if there is none, or if that is not known.
	Oldest(namespace string, spec *resourceapi.ResourceClaimSpec) (created time.Time, known bool)
}

// generated reports by the authenticated user alone whether the claim controller creates
// a claim from a template. In a controller manager whose controllers have no accounts of
// their own it has that of the whole.
func (x exemptions) generated(req Request) bool {
	return req.Kind.Kind == "ResourceClaim" && req.Subresource == "" && len(req.Old) == 0 && x.system(req) &&
		(strings.HasSuffix(req.User.Username, "resource-claim-controller") || req.User.Username == controllerManager)
}

const controllerManager = "system:kube-controller-manager"

// A templateClaim is a claim that the claim controller has copied from a template.
type templateClaim struct {
	reviewer  Reviewer
	request   Request
	spec      *resourceapi.ResourceClaimSpec
	asked     bool
	created   time.Time
	isCreated bool
}

// templateClaim returns the claim of a request, nil unless the claim controller has made it.
func (r Reviewer) templateClaim(req Request, object any) *templateClaim {
	claim, is := object.(*resourceapi.ResourceClaim)
	if !is || !r.exemptions.generated(req) {
		return nil
	}
	return &templateClaim{reviewer: r, request: req, spec: &claim.Spec}
}

// template returns when the template was created, and asks for that once.
func (t *templateClaim) template() (time.Time, bool) {
	if !t.asked && t.reviewer.Templates != nil {
		t.created, t.isCreated = t.reviewer.Templates.Oldest(t.request.Namespace, t.spec)
	}
	t.asked = true
	return t.created, t.isCreated
}

// why says why a policy that denies only warns of the claim; empty if it denies. To
// refuse the claim leaves a pod pending, so that needs a template which the policy must
// have refused: younger than the policy, and not by an author who may have been exempt.
func (t *templateClaim) why(code string) string {
	var since time.Time
	known := t.reviewer.PoliciesSince != nil
	if known {
		since, known = t.reviewer.PoliciesSince(code)
	}
	if !known {
		return "the start time of the policy is unknown"
	}
	created, known := t.template()
	switch {
	case !known:
		return "the age of its template is not known"
	case !created.After(since):
		return fmt.Sprintf("its template is older than the policy, which is in force since %s", since.UTC().Format(time.RFC3339))
	case t.reviewer.maySpare(code, t.request.Namespace, created):
		return "the author of its template may have been exempt"
	default:
		return ""
	}
}

// weigh returns a finding as it counts for the claim, false for one that is for the audit
// log only: warnings to a controller are not read.
func (t *templateClaim) weigh(f Finding) (Finding, bool) {
	if f.Severity != validate.Error {
		return f, false
	}
	if why := t.why(f.Rule); why != "" {
		f.Severity = validate.Warning
		f.Message += "; only a warning: " + why
	}
	return f, true
}

// maySpare reports whether, at a time, an exemption allows writes in a namespace that a policy denies.
func (r Reviewer) maySpare(code, namespace string, at time.Time) bool {
	for i, e := range r.exemptions.list {
		if names(e, code) && e.Expires.After(at) && r.inNamespace(i, namespace) {
			return true
		}
	}
	return false
}

// PolicyDigests say of each policy, by its code, what it denies: its text, its modes and
// parameters anywhere, and who is exempt. Where a digest is the same, so are the answers.
func (r Reviewer) PolicyDigests() map[string]string {
	digests := map[string]string{}
	if r.Policies == nil {
		return digests
	}
	for _, p := range r.Policies.Set().Policies() {
		hash := sha256.New()
		fmt.Fprintln(hash, r.observes, r.Policies.Digest(p.Code))
		for _, e := range r.exemptions.list {
			if names(e, p.Code) {
				e.Reason = ""
				_ = json.NewEncoder(hash).Encode(e) // strings and times: it cannot fail
			}
		}
		digests[p.Code] = hex.EncodeToString(hash.Sum(nil))[:16]
	}
	return digests
}

// weigh adds what a policy has found, so far as it counts.
func (a *Answer) weigh(f Finding, claim *templateClaim, mode policy.Mode) {
	if mode == policy.Off {
		return
	}
	counts := mode != policy.Audit
	if counts && claim != nil {
		f, counts = claim.weigh(f)
	}
	if counts {
		a.Findings = append(a.Findings, f)
	} else {
		a.Audited = append(a.Audited, f)
	}
}
