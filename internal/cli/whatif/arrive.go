package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// maxPods bounds the pods that claims creates.
const maxPods = 10_000

func claimsCommand(streams cmdutil.Streams) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:   "claims -f FILE",
		Short: "Show where new claims and pods land",
		Long: `claims shows where the pods of a file land: pods, and those of Deployments, ReplicaSets,
StatefulSets, Jobs and CronJobs. For a claim or template without one, claims assumes a pod
without other requests. --replicas replaces the number of replicas of each workload in the file. Objects without a namespace are in that of --namespace or of the kubeconfig.`,
		Example: `  dra-steward whatif claims -f train.yaml
  dra-steward whatif claims -f template.yaml --replicas 20 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			asked, err := o.manifests(streams, c.Flags().Changed("replicas"))
			if err != nil {
				return err
			}
			return o.run(c.Context(), streams, func(_ *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error) {
				return arriving(asked, cluster), nil
			})
		},
	}
	o.addFlags(c)
	o.fileFlag(c, "ResourceClaims, ResourceClaimTemplates and workloads")
	c.Flags().IntVar(&o.replicas, "replicas", 1, "how many pods each workload, claim template and pod of the file has, instead of what the file says")
	return c
}

// manifests reads the file. With replicas, each workload has that many pods.
func (o *options) manifests(streams cmdutil.Streams, replicas bool) (*clusterread.Manifests, error) {
	switch {
	case o.file == "":
		return nil, errors.New("-f FILE is missing")
	case o.file == "-" && slices.Contains(o.Files, "-"):
		return nil, errors.New("-f and --from-files cannot both be standard input")
	case o.replicas < 1 || o.replicas > maxPods:
		return nil, fmt.Errorf("--replicas %d: must be 1 to %d", o.replicas, maxPods)
	}
	namespace, err := o.Client.Namespace()
	if err != nil {
		return nil, err
	}
	asked, err := clusterread.ReadManifests(streams, o.file, namespace)
	if err != nil {
		return nil, err
	}
	addUsers(asked)
	pods := 0
	for i := range asked.Workloads {
		w := &asked.Workloads[i]
		if replicas && w.Kind != "ResourceClaim" {
			w.Replicas = o.replicas
		}
		if pods += max(0, w.Replicas); pods > maxPods {
			return nil, fmt.Errorf("%s: too many pods with those of %s: %d are allowed", o.file, w, maxPods)
		}
	}
	if len(asked.Workloads) == 0 {
		return nil, fmt.Errorf("%s: contains no ResourceClaim, ResourceClaimTemplate, %s", o.file, clusterread.WorkloadKinds)
	}
	return asked, nil
}

// addUsers adds a pod for each claim and template that no pod of the file uses.
func addUsers(m *clusterread.Manifests) {
	used := map[types.NamespacedName]bool{}
	for _, w := range m.Workloads {
		for _, reference := range w.Pod.Spec.ResourceClaims {
			for _, name := range []*string{reference.ResourceClaimName, reference.ResourceClaimTemplateName} {
				used[types.NamespacedName{Namespace: w.Pod.Namespace, Name: ptr.Deref(name, "")}] = true
			}
		}
	}
	add := func(kind, namespace, name string, reference corev1.PodResourceClaim) {
		if !used[types.NamespacedName{Namespace: namespace, Name: name}] {
			m.Workloads = append(m.Workloads, clusterread.Workload{Kind: kind, Name: name, Pod: clusterread.User(namespace, name, reference), Replicas: 1})
		}
	}
	for _, claim := range m.Claims {
		add("ResourceClaim", claim.Namespace, claim.Name, corev1.PodResourceClaim{ResourceClaimName: &claim.Name})
	}
	for _, template := range m.Templates {
		add("ResourceClaimTemplate", template.Namespace, template.Name, corev1.PodResourceClaim{ResourceClaimTemplateName: &template.Name})
	}
}

// arriving is the change that creates the objects of a file. A claim that exists stays as it is, with its devices: its
// spec cannot change.
func arriving(asked *clusterread.Manifests, cluster placement.Cluster) placement.Change {
	change := placement.Change{After: cluster}
	change.After.Claims = slices.Clone(cluster.Claims)
	exist := map[types.NamespacedName]bool{}
	for _, claim := range cluster.Claims {
		exist[nameOf(claim)] = true
	}
	for _, claim := range asked.Claims {
		if !exist[nameOf(claim)] {
			change.After.Claims = append(change.After.Claims, claim)
		}
	}
	change.After.Templates = slices.Concat(cluster.Templates, asked.Templates)
	for _, w := range asked.Workloads {
		for i := range w.Replicas {
			pod := w.Pod.DeepCopy()
			if pod.Name = w.Name; w.Replicas > 1 {
				pod.Name = fmt.Sprintf("%s-%d", strings.TrimSuffix(w.Name, "-"), i)
			}
			pod.UID = types.UID(fmt.Sprintf("new %s %s/%s", w.Kind, pod.Namespace, pod.Name))
			change.Arriving = append(change.Arriving, pod)
		}
	}
	return change
}

func nameOf(claim *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(claim.Namespace, metav1.NamespaceDefault), Name: claim.Name}
}

func patchCommand(streams cmdutil.Streams) *cobra.Command {
	return replaceCommand(streams, "patch", "ResourceSlicePatch",
		`patch shows what ResourceSlicePatches of a file change: which pods leave because of taints, and
which pods that use devices now would not land again with the changed attributes. Only a
scheduler that applies patches follows them, so --patched is set.`)
}

func classCommand(streams cmdutil.Streams) *cobra.Command {
	return replaceCommand(streams, "class", "DeviceClass",
		`class shows what changed DeviceClasses of a file do: no pods leave, and running pods keep their
devices, but some would not land again if they were created again.`)
}

// replaceCommand is about objects that are created or replaced, after which pods keep running.
func replaceCommand(streams cmdutil.Streams, use, kind, long string) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:     use + " -f FILE",
		Short:   fmt.Sprintf("Show the effect of a changed %s", kind),
		Long:    long,
		Example: fmt.Sprintf("  dra-steward whatif %s -f %s.yaml", use, use),
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return errors.New("-f FILE is missing")
			}
			return o.run(c.Context(), streams, func(_ *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error) {
				objects, err := ofFile[manifest.Object](streams, o.file, kind)
				if err != nil {
					return placement.Change{}, err
				}
				change := cluster.With(objects...)
				change.After.Patched = cluster.Patched || use == "patch"
				change.Restarted = true
				return change, nil
			})
		},
	}
	o.addFlags(c)
	o.fileFlag(c, kind+" objects")
	return c
}
