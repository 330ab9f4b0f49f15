package roll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/roll"
)

// unattended is how long a roll waits for a controller until the command warns that there is none.
const unattended = 15 * time.Second

// follow shows the progress until the roll is complete or held, and does the work of --command.
func (o *options) follow(ctx context.Context, streams cmdutil.Streams, client *roll.Client, name string) error {
	work := ctx // --timeout ends the waiting, not what --command does to a node
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	begin, last, warned := time.Now(), "", false
	for {
		r, err := client.GetRoll(ctx, name)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintf(streams.Out, "the controller continues with deviceroll %s; to take its cordons back: %s roll --undo %[1]s\n", name, streams.Program())
			return cmdutil.ErrFindings
		case apierrors.IsNotFound(err):
			fmt.Fprintf(streams.Out, "deviceroll %s was deleted\n", name)
			return cmdutil.ErrFindings
		case err != nil:
			return err
		}
		if line := roll.Progress(r); line != last {
			fmt.Fprintf(streams.Out, "%s %s\n", time.Now().Format(time.TimeOnly), line)
			last = line
		}
		if done, err := ended(r); done {
			return err
		}
		if o.command != "" {
			if err := o.runCommand(work, streams, client, r); err != nil {
				return err
			}
		}
		if !warned && r.Status.ObservedGeneration == 0 && time.Since(begin) > unattended {
			warned = true
			fmt.Fprintln(streams.Err, "warning: no controller has processed it: is one installed, with controller.rolls.enabled?")
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// ended reports whether a roll is complete, or waits for a user.
func ended(r *v1alpha1.DeviceRoll) (bool, error) {
	held := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RollHeld)
	stops := []string{v1alpha1.HeldNodeFailed, v1alpha1.HeldCanary, v1alpha1.HeldUndone, v1alpha1.HeldPaused}
	switch {
	case r.Status.ObservedGeneration != r.Generation:
		return false, nil
	case r.Status.CompletionTime != nil:
		return true, nil
	case held != nil && held.Status == metav1.ConditionTrue && slices.Contains(stops, held.Reason) && r.Status.Counts.InWork == 0:
		return true, cmdutil.ErrFindings
	}
	return false, nil
}

// runCommand runs the command for the next node that is ready for it.
func (o *options) runCommand(ctx context.Context, streams cmdutil.Streams, client *roll.Client, r *v1alpha1.DeviceRoll) error {
	node := ready(r)
	if node == "" {
		return nil
	}
	if mine, err := o.take(ctx, streams, client, r, node); err != nil || !mine {
		return err
	}
	fmt.Fprintf(streams.Out, "%s %s: %s\n", time.Now().Format(time.TimeOnly), node, o.command)
	command := exec.CommandContext(ctx, "/bin/sh", "-c", o.command)
	command.Env = append(command.Environ(), "NODE="+node)
	command.Stdout, command.Stderr = streams.Out, streams.Err
	if err := command.Run(); err != nil {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, update(ended, client, r.Name, func(*v1alpha1.DeviceRoll) {}))
		return fmt.Errorf("--command on %s: %w; the node stays cordoned; run the command again, or dra-steward roll --undo %s", node, err, r.Name)
	}
	return update(ctx, client, r.Name, func(current *v1alpha1.DeviceRoll) { current.Spec.WorkDone = append(current.Spec.WorkDone, node) })
}

// ready is the next node that waits for the command, "" if there is none.
func ready(r *v1alpha1.DeviceRoll) string {
	for i := range r.Status.Nodes {
		n := &r.Status.Nodes[i]
		if n.State == v1alpha1.RollWorking && !r.Spec.Undo && !slices.Contains(r.Spec.Skip, n.Name) && !slices.Contains(r.Spec.WorkDone, n.Name) {
			return n.Name
		}
	}
	return ""
}

// commandAnnotation names the command that works on a node, and where it runs.
const commandAnnotation = v1alpha1.Group + "/command"

// take reports whether this command may work on a node: the roll has one that works at a time, and is as it was read.
func (o *options) take(ctx context.Context, streams cmdutil.Streams, client *roll.Client, r *v1alpha1.DeviceRoll, node string) (bool, error) {
	if by := r.Annotations[commandAnnotation]; by != "" {
		if by != o.said {
			fmt.Fprintf(streams.Err, "warning: a command works on %s; if it has ended, kubectl annotate deviceroll %s %s-\n", by, r.Name, commandAnnotation)
		}
		o.said = by
		return false, nil
	}
	host, _ := os.Hostname()
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, commandAnnotation, fmt.Sprintf("%s, process %d of %s, since %s", node, os.Getpid(), host, time.Now().UTC().Format(time.RFC3339)))
	_, err := client.UpdateRoll(ctx, r)
	if apierrors.IsConflict(err) {
		return false, nil // the roll has changed: look again
	}
	return err == nil, err
}

// update changes a roll after a command has ended.
func update(ctx context.Context, client *roll.Client, name string, change func(*v1alpha1.DeviceRoll)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := client.GetRoll(ctx, name)
		if err != nil {
			return err
		}
		delete(current.Annotations, commandAnnotation)
		change(current)
		_, err = client.UpdateRoll(ctx, current)
		return err
	})
}
