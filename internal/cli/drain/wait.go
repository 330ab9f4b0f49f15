package drain

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// unattended is how long a drain waits for a controller until the command warns that there is none.
const unattended = 15 * time.Second

// follow shows the progress until the drain has ended.
func (o drainOptions) follow(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient, name string) error {
	var over <-chan time.Time
	if o.timeout > 0 {
		timer := time.NewTimer(o.timeout)
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	begin, last, warned := time.Now(), "", false
	for {
		d, err := client.Get(ctx, name)
		switch {
		case ctx.Err() != nil:
			return interrupted(streams, name)
		case apierrors.IsNotFound(err):
			printable.Printf(streams.Out, "devicedrain %s was deleted\n", name)
			return cmdutil.ErrFindings
		case err != nil:
			return err
		default:
			if line := clusterwrite.Progress(d); line != last {
				printable.Printf(streams.Out, "%s %s\n", time.Now().Format(time.TimeOnly), line)
				last = line
			}
			if d.Status.CompletionTime != nil {
				return ended(d)
			}
			if !warned && d.Status.ObservedGeneration == 0 && time.Since(begin) > unattended {
				warned = true
				printable.Printf(streams.Err, "warning: no controller has processed it: is one installed, with controller.drains.enabled?\n")
			}
		}
		select {
		case <-ctx.Done():
			return interrupted(streams, name)
		case <-over:
			printable.Printf(streams.Out, "devicedrain %s is not drained yet; the controller continues\n", name)
			return cmdutil.ErrFindings
		case <-ticker.C:
		}
	}
}

// interrupted prints that the drain goes on after an interrupt.
func interrupted(streams cmdutil.Streams, name string) error {
	printable.Printf(streams.Out, "\ninterrupted; the controller continues with devicedrain %s\n"+
		"to follow it: kubectl get devicedrain %[1]s -w\nto cancel it and remove its cordon: %s drain --cancel %[1]s\n", name, streams.Program())
	return cmdutil.ErrFindings
}

// ended is the end of the command for a drain that has ended.
func ended(d *v1alpha1.DeviceDrain) error {
	if meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDrained) {
		return nil
	}
	return cmdutil.ErrFindings
}

// drainNames reads NAME, TYPE/NAME and TYPE NAME..., and refuses names of devices.
func drainNames(args []string) (names []string, _ error) {
	if len(args) > 1 && taints.IsDrain(args[0]) {
		args = args[1:]
	}
	for _, arg := range args {
		kind, name, has := strings.Cut(arg, "/")
		switch {
		case !has:
			name = arg
		case !taints.IsDrain(kind):
			return nil, fmt.Errorf("%q is the name of a device, not of a drain: name a drain, such as gpu-3-5f1d2a9c; \"dra-steward drain --list\" shows them", arg)
		}
		names = append(names, name)
	}
	return names, nil
}

// steer pauses, resumes or deletes drains.
func (o drainOptions) steer(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient, names []string) error {
	if len(names) == 0 {
		return errNoDrains
	}
	names, err := drainNames(names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.cancel {
			if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			printable.Printf(streams.Out, "devicedrain %s deleted; the controller removes its cordon\n", name)
			continue
		}
		if err := clusterwrite.Pause(ctx, client, name, o.pause, false); err != nil {
			return err
		}
		what := "goes on"
		if o.pause {
			what = "paused"
		}
		printable.Printf(streams.Out, "devicedrain %s %s\n", name, what)
	}
	return nil
}
