package devicereaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// ProofOptions are where proofs run.
type ProofOptions struct {
	API ProofAPI
	// Namespace is that of the Jobs, ServiceAccount that of their pods.
	Namespace, ServiceAccount string
	// Jobs has *batchv1.Job of that namespace. The controller runs it.
	Jobs cache.SharedIndexInformer
}

const (
	// outputsPerStep is how many logs a step reads, outputTimeout the timeout of each.
	outputsPerStep = 4
	outputTimeout  = 4 * time.Second
)

// proofs finds out what the proofs of a reaction need; nil where they are switched off.
func (c *Controller) proofs(ctx context.Context, r *v1alpha1.DeviceReaction, all *cluster, now time.Time) *reaction.Proofs {
	o := c.options.Proofs
	if o == nil || r.Spec.Prove == nil {
		return nil
	}
	p := &reaction.Proofs{Namespace: o.Namespace, ServiceAccount: o.ServiceAccount, Jobs: map[string]*batchv1.Job{}, Claims: map[string]*resourceapi.ResourceClaim{}, Outputs: map[types.UID]string{}}
	p.Pin = func(_ v1alpha1.DeviceName, d *v1alpha1.DeviceDrain) (reaction.Pin, error) {
		return reaction.PinOf(r, d, all.view)
	}
	for _, job := range placement.Stored[*batchv1.Job](o.Jobs.GetStore()) {
		p.Jobs[job.Name] = job
		object, exists, _ := c.options.Claims.GetStore().GetByKey(job.Namespace + "/" + job.Name)
		if claim, is := object.(*resourceapi.ResourceClaim); exists && is {
			p.Claims[claim.Name] = claim
		}
	}
	for i := range r.Status.Devices {
		proof := r.Status.Devices[i].Proof
		if proof == nil || proof.State != v1alpha1.ProofRunning || len(p.Outputs) == outputsPerStep {
			continue
		}
		job := p.Jobs[proof.Job]
		if job != nil && (reaction.EndOf(job) != "" || proof.StartTime != nil && !now.Before(proof.StartTime.Add(reaction.Timeout(r.Spec.Prove)))) {
			limited, cancel := context.WithTimeout(ctx, outputTimeout)
			p.Outputs[job.UID] = o.API.Output(limited, job)
			cancel()
		}
	}
	return p
}

// actProofs writes the Jobs and claims of proofs. What cannot be written is tried again in the next
// step; what exists is no error.
func (c *Controller) actProofs(ctx context.Context, r *v1alpha1.DeviceReaction, decision reaction.Decision) error {
	var errs []error
	for _, job := range decision.DeleteJobs {
		if err := c.options.Proofs.API.DeleteJob(ctx, job); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, err))
		}
	}
	for _, job := range decision.CreateJobs {
		switch err := c.options.Proofs.API.CreateJob(ctx, job); {
		case err == nil:
			c.event(r, corev1.EventTypeNormal, "Proving", fmt.Sprintf("created Job %s/%s for %s", job.Namespace, job.Name, job.Annotations[v1alpha1.DeviceAnnotation]))
		case !apierrors.IsAlreadyExists(err):
			errs = append(errs, fmt.Errorf("create Job %s/%s: %w", job.Namespace, job.Name, err))
		}
	}
	for _, claim := range decision.CreateClaims {
		if err := c.options.Proofs.API.CreateClaim(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err))
		}
	}
	return errors.Join(errs...)
}

// mostFailures is how many failed bindings are kept, failureMemory for how long: until a step has
// written them into a status.
const (
	mostFailures  = 256
	failureMemory = time.Minute
)

// noteBindings remembers the failed binding conditions of a claim: kube-scheduler takes them back
// within moments.
func (c *Controller) noteBindings(object any) {
	claim, is := object.(*resourceapi.ResourceClaim)
	if !is {
		return
	}
	failures := reaction.BindingFailures(claim, time.Now())
	if len(failures) == 0 && len(reaction.Bound(claim)) == 0 {
		return
	}
	c.failures.Lock()
	c.failures.all = append(c.failures.all, failures...)
	c.failures.all = c.failures.all[max(len(c.failures.all)-mostFailures, 0):]
	c.failures.Unlock()
	c.wake()
}

// readBindings are the failures of the last minute, and the devices that pods have.
func (c *Controller) readBindings(now time.Time) *reaction.Bindings {
	b := reaction.BindingsOf(placement.Stored[*resourceapi.ResourceClaim](c.options.Claims.GetStore()), now)
	c.failures.Lock()
	defer c.failures.Unlock()
	for _, f := range c.failures.all {
		if now.Sub(f.At) < failureMemory {
			b.Failed = append(b.Failed, f)
		}
	}
	return b
}
