package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// restoringTime is how long to wait for the next slice of which a driver gives up what patches
// had written: drivers write what they hold within 30 s.
const restoringTime = 3 * time.Minute

// stillTime is how long slices stay as they are until their drivers count as content with
// them. A driver that never took a patched value over has nothing to write: what it saw was
// restored before it would have written.
const stillTime = 75 * time.Second

// restoreSlices takes patches out of slices, for which webhook and controller must still
// work, and waits until no slice holds one and no driver may bring one back.
func (u *uninstall) restoreSlices(ctx context.Context) error {
	if !u.restore {
		return nil
	}
	u.progress.Say("reading ResourceSlices")
	n, _, err := u.patchedSlices(ctx)
	if err != nil || n == (record.Count{}) {
		return err
	}
	if off, err := u.patchesOff(ctx); err != nil || off {
		if err == nil && n.InForce > 0 {
			err = fmt.Errorf("ResourceSlices have %s, which nothing removes with patches.mode none: upgrade the release with patches.mode=restore, "+
				"wait until dra_steward_materialize_slices{state=\"patched\"} is 0, and try again", plural.Of(n.InForce, "patched value"))
		}
		return err
	}
	more := "no driver can publish more"
	if n.Waiting > 0 {
		more = fmt.Sprintf("drivers can publish %d more", n.Waiting)
	}
	u.say("%s to remove from ResourceSlices; %s", plural.Of(n.InForce, "patched value"), more)
	if u.dryRun != "" {
		return nil
	}
	for _, name := range []string{u.webhook, u.controller} {
		if err := u.switchPatches(ctx, name); err != nil {
			return fmt.Errorf("cannot switch %s/%s to --patches=%s: %w", u.namespace, name, slicemerge.Restore, err)
		}
	}
	if n, err = u.awaitDrivers(ctx); err != nil {
		return fmt.Errorf("%d patched values are still in ResourceSlices, and drivers can publish %d again: restart the drivers, or check the webhook (%w). "+
			"Webhook and controller stay at --patches=%s: to keep the release, upgrade it with its values", n.InForce, n.Waiting, err, slicemerge.Restore)
	}
	return nil
}

// awaitDrivers waits until no slice holds a value of a patch, and drivers have given up
// what they took over or write nothing any more. It waits as long as there are fewer values.
func (u *uninstall) awaitDrivers(ctx context.Context) (n record.Count, err error) {
	var versions string
	start := time.Now()
	since, fewer, least := start, start, math.MaxInt
	most := max(u.timeout, restoringTime)
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		count, now, err := u.patchedSlices(ctx)
		if left := 2*count.InForce + count.Waiting; err == nil && left < least { // what was in force waits first
			least, fewer = left, time.Now()
		}
		stuck := time.Since(fewer) >= most
		if err != nil && !stuck {
			return false, nil // the next read can succeed
		}
		if err != nil {
			return false, err
		}
		u.progress.Say("waiting for %s in ResourceSlices, and for %d that drivers can publish again", plural.Of(count.InForce, "patched value"), count.Waiting)
		if n = count; now != versions {
			versions, since = now, time.Now()
		}
		if done := n.InForce == 0 && (n.Waiting == 0 || time.Since(since) >= stillTime); done || !stuck {
			return done, nil
		}
		return false, fmt.Errorf("there are no fewer than %s ago", most)
	})
	if err == nil && n.Waiting > 0 {
		u.say("no longer waiting for %s: no driver has written its slice for %s", plural.Of(n.Waiting, "value"), stillTime)
	}
	return n, err
}

// patchedSlices counts the values of patches that slices hold, and returns the versions of
// these slices.
func (u *uninstall) patchedSlices(ctx context.Context) (n record.Count, versions string, err error) {
	options := metav1.ListOptions{Limit: 500}
	for {
		list, err := u.client.ResourceV1().ResourceSlices().List(ctx, options)
		if err != nil {
			return n, "", fmt.Errorf("cannot list ResourceSlices: %w", err)
		}
		for i := range list.Items {
			slice := &list.Items[i]
			originals, err := record.OriginalsOf(slice)
			if err != nil {
				return n, "", fmt.Errorf("ResourceSlice %s: %w", slice.Name, err)
			}
			c := originals.Count()
			if c.InForce+c.Waiting > 0 {
				versions += slice.Name + " " + slice.ResourceVersion + "\n"
			}
			n.InForce, n.Waiting = n.InForce+c.InForce, n.Waiting+c.Waiting
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return n, versions, nil
		}
	}
}

// patchesOff reports whether the webhook was installed without patches in slices.
func (u *uninstall) patchesOff(ctx context.Context) (bool, error) {
	deployment, err := u.client.AppsV1().Deployments(u.namespace).Get(ctx, u.webhook, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the mode of patches: %w", err)
	}
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "--patches="+string(slicemerge.None))
	}), nil
}

// switchPatches gives the pods of a Deployment another mode, if they have one.
func (u *uninstall) switchPatches(ctx context.Context, name string) error {
	deployment, err := u.client.AppsV1().Deployments(u.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, container := range deployment.Spec.Template.Spec.Containers {
		at := slices.IndexFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--patches=") })
		if at < 0 {
			continue
		}
		path := fmt.Sprintf("/spec/template/spec/containers/%d/args/%d", i, at)
		body, err := json.Marshal([]map[string]any{
			{"op": "test", "path": path, "value": container.Args[at]},
			{"op": "replace", "path": path, "value": "--patches=" + string(slicemerge.Restore)},
		})
		if err != nil {
			return err
		}
		if _, err := u.client.AppsV1().Deployments(u.namespace).Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{}); err != nil {
			return err
		}
		u.say("deployment %s/%s: switched to --patches=%s", u.namespace, name, slicemerge.Restore)
	}
	return nil
}
