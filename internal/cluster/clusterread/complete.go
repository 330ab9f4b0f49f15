package clusterread

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// completeTime is how long a shell waits for names.
const completeTime = 3 * time.Second

// CompleteTargets offers names of devices, pools and drivers, and TYPE/NAME for a type that
// has been typed.
func (s *Source) CompleteTargets(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	kind, _, has := strings.Cut(typed, "/")
	if taints.Kinds()[kind] == "" || !has {
		names := append(s.names(c.Context(), "device"), "claim/", "driver/", "node/", "pod/")
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var names []string
	for _, name := range s.names(c.Context(), taints.Kinds()[kind]) {
		names = append(names, kind+"/"+name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteRules offers the names of DeviceTaintRules, and targets.
func (s *Source) CompleteRules(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := s.CompleteTargets(c, args, typed)
	if len(args) == 0 && !strings.Contains(typed, "/") {
		names = append(names, s.names(c.Context(), "rule")...)
	}
	return names, directive
}

// CompleteWaiting offers claims and pods, as TYPE/NAME or, after TYPE, as NAME.
func (s *Source) CompleteWaiting(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	switch {
	case len(args) == 0:
		for _, kind := range []string{"claim", "pod"} {
			for _, name := range s.names(c.Context(), kind) {
				names = append(names, kind+"/"+name)
			}
		}
	case len(args) == 1:
		if kind := taints.Kinds()[args[0]]; kind == "claim" || kind == "pod" {
			names = s.names(c.Context(), kind)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteHolders offers the claims and pods that can hold devices.
func (s *Source) CompleteHolders(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return s.CompleteWaiting(c, nil, typed)
}

// CompleteReacted offers devices, and drains that DeviceReactions have made, as devicedrain/NAME.
func (s *Source) CompleteReacted(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := s.CompleteTargets(c, args, typed)
	if kind, _, has := strings.Cut(typed, "/"); !has || kind == "devicedrain" {
		for _, name := range s.names(c.Context(), "drain") {
			names = append(names, "devicedrain/"+name)
		}
	}
	return names, directive
}

// CompleteKind offers the names of a kind: class, driver, pool, node, drain, roll.
func (s *Source) CompleteKind(kind string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return s.names(c.Context(), kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNamespaces offers the namespaces of the cluster.
func (s *Source) CompleteNamespaces(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return s.names(c.Context(), "namespace"), cobra.ShellCompDirectiveNoFileComp
}

// names lists the names of a kind; a shell shows no error, so there is none.
func (s *Source) names(ctx context.Context, kind string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	r, err := s.begin(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	if err != nil {
		return nil
	}
	namespace, err := s.Client.Namespace()
	if err != nil {
		return nil
	}
	switch kind {
	case "node":
		names = namesOf[*corev1.Node](ctx, r, r.nodes())
	case "class":
		names = namesOf[*resourceapi.DeviceClass](ctx, r, r.client.ResourceV1().DeviceClasses())
	case "namespace":
		names = namesOf[*corev1.Namespace](ctx, r, r.client.CoreV1().Namespaces())
	case "pod":
		names = namesOf[*corev1.Pod](ctx, r, r.pods(namespace))
	case "rule":
		names = r.ruleNames(ctx)
	case "claim":
		names = namesOf[*resourceapi.ResourceClaim](ctx, r, r.claims(namespace))
	case "drain":
		names = r.ownNames(ctx, v1alpha1.DeviceDrainResource)
	case "roll":
		names = r.ownNames(ctx, v1alpha1.DeviceRollResource)
	default:
		names = r.deviceNames(ctx, kind)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf[T interface {
	runtime.Object
	GetName() string
}, L runtime.Object](ctx context.Context, r *reading, from resource[L]) (names []string) {
	all, err := list[T](ctx, r, "names", from)
	if err != nil {
		return nil
	}
	for _, object := range all {
		names = append(names, object.GetName())
	}
	return names
}

func (r *reading) ruleNames(ctx context.Context) (names []string) {
	all, err := r.rules(ctx)
	if err != nil {
		return nil
	}
	for _, one := range all {
		if rule, is := one.(*resourceapi.DeviceTaintRule); is {
			names = append(names, rule.Name)
		}
	}
	return names
}

// ownNames are those of a resource of dra-steward.io; none if its type is not installed.
func (r *reading) ownNames(ctx context.Context, resource string) (names []string) {
	client, err := ownclient.New(r.config)
	if err != nil {
		return nil
	}
	raw, err := client.Get().Resource(resource).Do(ctx).Raw()
	if err != nil {
		return nil
	}
	var all metav1.PartialObjectMetadataList
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names
}

// deviceNames are those of drivers, or of pools without their driver, or of drivers, pools and devices.
func (r *reading) deviceNames(ctx context.Context, kind string) (names []string) {
	all, err := list[*resourceapi.ResourceSlice](ctx, r, "names", r.slices())
	if err != nil {
		return nil
	}
	for _, slice := range all {
		if kind == "pool" {
			names = append(names, slice.Spec.Pool.Name)
			continue
		}
		names = append(names, slice.Spec.Driver)
		if kind == "driver" {
			continue
		}
		pool := slice.Spec.Driver + "/" + slice.Spec.Pool.Name
		names = append(names, pool)
		for i := range slice.Spec.Devices {
			names = append(names, fmt.Sprintf("%s/%s", pool, slice.Spec.Devices[i].Name))
		}
	}
	return names
}
