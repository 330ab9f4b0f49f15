package deviceroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/roll"
)

// step decides the next step of a roll and takes it: the status, then the rest. It returns when to
// come back.
func (c *Controller) step(ctx context.Context, r *v1alpha1.DeviceRoll, all *cluster) (time.Duration, error) {
	if r.Status.CompletionTime != nil && r.Status.ObservedGeneration == r.Generation && len(all.drainsOf(r)) == 0 {
		c.options.Metrics.state(r.Name, r.Status)
		return period, nil
	}
	return c.take(ctx, r, roll.Decide(c.gather(ctx, r, all)), all)
}

// take takes a step that was decided.
func (c *Controller) take(ctx context.Context, r *v1alpha1.DeviceRoll, decision roll.Decision, all *cluster) (time.Duration, error) {
	c.options.Metrics.state(r.Name, decision.Status)
	// A write whose answer is lost may be stored: the nodes are those of the roll either way.
	for i := range decision.Status.Nodes {
		if n := &decision.Status.Nodes[i]; roll.InWork(n.State) {
			all.busy[n.Name] = r.Name
		}
	}
	if !equality.Semantic.DeepEqual(r.Status, decision.Status) {
		if err := c.write(ctx, r, decision.Status); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return gap, nil // another client was faster: decide again
			}
			return 0, err
		}
	}
	wake := period
	if !decision.Wake.IsZero() {
		wake = min(period, max(decision.Wake.Sub(all.now), gap))
	}
	return wake, c.act(ctx, r, decision, all)
}

// write stores a status, and makes events of what has changed in it.
func (c *Controller) write(ctx context.Context, r *v1alpha1.DeviceRoll, status v1alpha1.DeviceRollStatus) error {
	changed := r.DeepCopy()
	changed.Status = status
	written, err := c.options.API.UpdateRollStatus(ctx, changed)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	c.written[r.Name] = written
	was := map[string]v1alpha1.RollState{}
	for i := range r.Status.Nodes {
		was[r.Status.Nodes[i].Name] = r.Status.Nodes[i].State
	}
	for i := range status.Nodes {
		n := &status.Nodes[i]
		if n.State == was[n.Name] || n.State == v1alpha1.RollWaiting {
			continue
		}
		c.options.Logger.Info("DeviceRoll", "roll", r.Name, "node", n.Name, "state", n.State, "message", n.Message)
		switch n.State {
		case v1alpha1.RollFailed:
			c.event(r, corev1.EventTypeWarning, string(n.State), "node "+n.Name+", "+string(n.FailedIn)+": "+n.Message)
		case v1alpha1.RollDraining, v1alpha1.RollDone, v1alpha1.RollSkipped, v1alpha1.RollGone, v1alpha1.RollUndone:
			c.event(r, corev1.EventTypeNormal, string(n.State), "node "+n.Name)
		}
	}
	held, before := meta.FindStatusCondition(status.Conditions, v1alpha1.RollHeld), meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RollHeld)
	if held != nil && held.Status == metav1.ConditionTrue && (before == nil || before.Status != held.Status || before.Reason != held.Reason) {
		c.event(r, corev1.EventTypeWarning, v1alpha1.RollHeld, held.Reason+": "+held.Message)
	}
	return nil
}

// act does what was decided. What fails is tried again in the next step, and delays nothing else.
func (c *Controller) act(ctx context.Context, r *v1alpha1.DeviceRoll, decision roll.Decision, all *cluster) error {
	for key := range c.refused {
		if strings.HasPrefix(key, r.Name+"/") {
			delete(c.refused, key)
		}
	}
	var errs []error
	failed := func(node, text string, err error) {
		c.refused[r.Name+"/"+node] = text
		errs = append(errs, err)
	}
	c.createDrains(ctx, r, decision.Create, all, failed)
	errs = append(errs, c.updateDrains(ctx, decision.Update))
	c.patchNodes(ctx, decision.Cordon, r.Name, failed)
	for _, pod := range decision.DeletePods {
		c.deletePod(ctx, r, pod, failed)
	}
	for _, node := range decision.Prove {
		pod, claim := roll.ProofOf(r, node)
		if err := c.options.API.CreateProof(ctx, pod, claim); err != nil {
			failed(node, denied(err, "the proof", r.Spec.Proof.Namespace, "controller.rolls.proofNamespaces"), err)
		}
	}
	for _, node := range decision.Clear {
		if err := c.options.API.DeleteProof(ctx, r.Spec.Proof.Namespace, roll.DrainName(r.Name, node)); err != nil {
			failed(node, denied(err, "the proof", r.Spec.Proof.Namespace, "controller.rolls.proofNamespaces"), err)
		}
	}
	c.patchNodes(ctx, decision.Uncordon, "", failed)
	for _, d := range decision.Delete {
		err := c.options.API.Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed(d.Annotations[v1alpha1.RollAnnotation], "DeviceDrain "+d.Name+" cannot be deleted: "+err.Error(), err)
			continue
		}
		c.made.Deleted(d, time.Now())
		c.wake()
	}
	return errors.Join(errs...)
}

// deletePod lets a pod of the driver go. One that has gone, and whose name another has, is no error; a
// refusal by the admission check for driver pods is.
func (c *Controller) deletePod(ctx context.Context, r *v1alpha1.DeviceRoll, pod roll.Pod, failed func(node, text string, err error)) {
	err := c.options.API.DeletePod(ctx, pod.NamespacedName, pod.UID)
	switch {
	case err == nil:
		c.event(r, corev1.EventTypeNormal, "Replacing", "deleted pod "+pod.String()+" of the driver on node "+pod.Node)
	case reconcile.RefusedForNow(err), !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		failed(pod.Node, denied(err, "pod "+pod.Name, pod.Namespace, "controller.rolls.driverNamespaces"), err)
	}
}

// createDrains creates drains of nodes. One that exists as the roll wants it is no error: the informer
// has it soon.
func (c *Controller) createDrains(ctx context.Context, r *v1alpha1.DeviceRoll, create []*v1alpha1.DeviceDrain, all *cluster, failed func(node, text string, err error)) {
	for _, d := range create {
		node := d.Annotations[v1alpha1.RollAnnotation]
		created, err := c.options.API.Create(ctx, d, false)
		switch {
		case apierrors.IsAlreadyExists(err):
			object, exists, _ := c.options.Drains.GetStore().GetByKey(d.Name)
			if there, is := object.(*v1alpha1.DeviceDrain); exists && is && !roll.OwnedIs(there, r) {
				failed(node, foreign(there, r), err)
			}
		case err != nil:
			failed(node, "DeviceDrain "+d.Name+" cannot be created: "+err.Error(), err)
		default:
			c.made.Wrote(created, all.now)
			all.drains = append(all.drains, created)
		}
	}
}

// foreign is why a drain that has the name of one of the roll keeps the roll from creating its own.
func foreign(d *v1alpha1.DeviceDrain, r *v1alpha1.DeviceRoll) string {
	if d.Labels[v1alpha1.RollLabel] == r.Name {
		return "DeviceDrain " + d.Name + " is of an earlier roll of this name: the garbage collector deletes it with that roll; if it stays, delete it"
	}
	return "DeviceDrain " + d.Name + " exists, and is not a drain of the roll: delete it"
}

func (c *Controller) updateDrains(ctx context.Context, update []*v1alpha1.DeviceDrain) error {
	var errs []error
	for _, d := range update {
		written, err := c.options.API.Update(ctx, d, false)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("update DeviceDrain %s: %w", d.Name, err))
		default:
			c.made.Wrote(written, time.Now())
		}
	}
	return errors.Join(errs...)
}

// patchNodes cordons nodes for a roll, or uncordons them for an empty one.
func (c *Controller) patchNodes(ctx context.Context, names []string, roll string, failed func(node, text string, err error)) {
	for _, name := range names {
		object, exists, _ := c.options.Nodes.GetStore().GetByKey(name)
		node, is := object.(*corev1.Node)
		if !exists || !is {
			continue
		}
		err := c.options.API.PatchNode(ctx, node, roll)
		switch {
		case apierrors.IsForbidden(err):
			failed(name, "the controller has no right to cordon nodes: set controller.rolls.nodes of the chart", err)
		case err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			failed(name, "the node cannot be patched: "+err.Error(), err)
		}
	}
}
