package roll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// commandAnnotation names the command that works on a node, and where it runs.
const commandAnnotation = v1alpha1.Group + "/command"

// take takes the next node for the command, and returns "" if that has none to work on: the roll has one command that
// works at a time, and must be as it was read.
func (o *options) take(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, r *v1alpha1.DeviceRoll) (node string, _ error) {
	if node = ready(r); node == "" || o.command == "" {
		return "", nil
	}
	if by := r.Annotations[commandAnnotation]; by != "" && by != o.taking {
		if by != o.said {
			printable.Printf(streams.Err, "warning: a command works on %s; if it has ended, kubectl annotate deviceroll %s %s-\n", by, r.Name, commandAnnotation)
		}
		o.said = by
		return "", nil
	}
	host, _ := os.Hostname()
	o.taking = fmt.Sprintf("%s, process %d of %s, since %s", node, os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, commandAnnotation, o.taking)
	_, err := client.UpdateRoll(ctx, r)
	switch {
	case apierrors.IsConflict(err):
		o.taking = ""
		return "", nil // the roll has changed: look again
	case err != nil:
		return "", err
	}
	return node, nil
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

// runCommand runs the command for a node, and records that it has ended.
func (o *options) runCommand(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, r *v1alpha1.DeviceRoll, node string) error {
	printable.Printf(streams.Out, "%s %s: %s\n", time.Now().Format(time.TimeOnly), node, o.command)
	command := exec.CommandContext(ctx, "/bin/sh", "-c", o.command)
	command.Env = append(command.Environ(), "NODE="+node)
	command.Stdout, command.Stderr = streams.Out, streams.Err
	if err := command.Run(); err != nil {
		err = errors.Join(err, o.record(ctx, streams, client, r.Name, ""))
		return fmt.Errorf("--command on %s: %w; the node stays cordoned; run the command again, or dra-steward roll --undo %s", node, err, r.Name)
	}
	if err := o.record(ctx, streams, client, r.Name, node); err != nil {
		patch, _ := json.Marshal(map[string]any{ // they are plain strings
			"metadata": map[string]any{"annotations": map[string]any{commandAnnotation: nil}},
			"spec":     map[string]any{"workDone": append(r.Spec.WorkDone, node)},
		})
		return fmt.Errorf("the work on %s is done, but DeviceRoll %s does not say so: %w; to record it: kubectl patch deviceroll %[2]s --type merge -p '%[4]s'", node, r.Name, err, patch)
	}
	return nil
}

// record writes into a roll that the command has ended, and on which node the work is done, if it is. It does so also
// after an interrupt, and when the API server is away for a while.
func (o *options) record(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, name, done string) error {
	away := outage{patience: o.patience}
	for {
		err := update(context.WithoutCancel(ctx), client, name, done)
		if over := away.over(streams, err, time.Now()); err == nil || over != nil {
			return over
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// update writes once that the command has ended. A roll that was deleted is no error: follow reports it.
func update(ctx context.Context, client *ownclient.RollClient, name, done string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		r, err := client.GetRoll(ctx, name)
		if err != nil {
			return err
		}
		delete(r.Annotations, commandAnnotation)
		if done != "" && !slices.Contains(r.Spec.WorkDone, done) {
			r.Spec.WorkDone = append(r.Spec.WorkDone, done)
		}
		_, err = client.UpdateRoll(ctx, r)
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
