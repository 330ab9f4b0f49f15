package roll

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// unattended is how long a roll waits for a controller until the command warns that there is none.
const unattended = 15 * time.Second

// follow shows the progress until the roll is complete or held, and does the work of --command.
func (o *options) follow(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, name string) error {
	work := ctx // --timeout ends the waiting, not what --command does to a node
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	seen, away := shown{begin: time.Now()}, outage{patience: o.patience}
	for {
		r, err := client.GetRoll(ctx, name)
		node := ""
		switch {
		case ctx.Err() != nil:
			printable.Printf(streams.Out, "the controller continues with deviceroll %s; to take its cordons back: %s roll --undo %[1]s\n", name, streams.Program())
			return cmdutil.ErrFindings
		case apierrors.IsNotFound(err):
			printable.Printf(streams.Out, "deviceroll %s was deleted\n", name)
			return cmdutil.ErrFindings
		case err == nil:
			seen.show(streams, r)
			if done, err := ended(r); done {
				return err
			}
			node, err = o.take(work, streams, client, r)
		}
		if err := away.over(streams, err, time.Now()); err != nil {
			return err
		}
		if node != "" {
			if err := o.runCommand(work, streams, client, r, node); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// shown is what a user has seen of a roll.
type shown struct {
	begin  time.Time
	last   string
	warned bool
}

// show prints how far a roll has come, unless that was printed last.
func (s *shown) show(streams cmdutil.Streams, r *v1alpha1.DeviceRoll) {
	if line := roll.Progress(r); line != s.last {
		printable.Printf(streams.Out, "%s %s\n", time.Now().Format(time.TimeOnly), line)
		s.last = line
	}
	if !s.warned && r.Status.ObservedGeneration == 0 && time.Since(s.begin) > unattended {
		s.warned = true
		printable.Printf(streams.Err, "warning: no controller has processed it: is one installed, with controller.rolls.enabled?\n")
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
