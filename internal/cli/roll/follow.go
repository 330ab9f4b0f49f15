package roll

import (
	"context"
	"fmt"
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
		if err := o.runCommand(ctx, streams, client, r); err != nil {
			return err
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

// ended reports whether a roll needs somebody, or nothing more.
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

// runCommand runs the command for the nodes that are ready for it, one after the other.
func (o *options) runCommand(ctx context.Context, streams cmdutil.Streams, client *roll.Client, r *v1alpha1.DeviceRoll) error {
	for i := range r.Status.Nodes {
		n := &r.Status.Nodes[i]
		if o.command == "" || n.State != v1alpha1.RollWorking || slices.Contains(r.Spec.WorkDone, n.Name) {
			continue
		}
		fmt.Fprintf(streams.Out, "%s %s: %s\n", time.Now().Format(time.TimeOnly), n.Name, o.command)
		command := exec.CommandContext(ctx, "/bin/sh", "-c", o.command)
		command.Env = append(command.Environ(), "NODE="+n.Name)
		command.Stdout, command.Stderr = streams.Out, streams.Err
		if err := command.Run(); err != nil {
			return fmt.Errorf("--command on %s: %w; the node stays cordoned; run the command again, or dra-steward roll --undo %s", n.Name, err, r.Name)
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := client.GetRoll(ctx, r.Name)
			if err != nil {
				return err
			}
			current.Spec.WorkDone = append(current.Spec.WorkDone, n.Name)
			_, err = client.UpdateRoll(ctx, current)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
