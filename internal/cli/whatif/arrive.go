package whatif

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/placement"
)

// maxReplicas bounds the pods of --replicas.
const maxReplicas = 10_000

func claimsCommand(streams cmdutil.Streams) *cobra.Command {
	o := newOptions()
	c := &cobra.Command{
		Use:   "claims -f FILE",
		Short: "Show where new claims and pods land",
		Long: `claims shows where the pods of a file land, and claims and templates without a pod as if a pod
without other requests used each. --replicas creates each pod and template that often.`,
		Example: `  dra-steward whatif claims -f train.yaml
  dra-steward whatif claims -f template.yaml --replicas 20 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.replicas < 1 || o.replicas > maxReplicas {
				return fmt.Errorf("--replicas %d: must be 1 to %d", o.replicas, maxReplicas)
			}
			return o.run(c.Context(), streams, func(_ *clusterread.Snapshot, world placement.World) (placement.Change, error) {
				return o.arriving(streams, world)
			})
		},
	}
	o.addFlags(c)
	o.fileFlag(c, "ResourceClaims, ResourceClaimTemplates and Pods")
	c.Flags().IntVar(&o.replicas, "replicas", 1, "how many pods are created for each pod and template of the file")
	return c
}

// arrivals are the objects of a file.
type arrivals struct {
	pods      []*corev1.Pod
	claims    []*resourceapi.ResourceClaim
	templates []*resourceapi.ResourceClaimTemplate
	used      map[types.NamespacedName]bool
}

func (o *options) arriving(streams cmdutil.Streams, world placement.World) (placement.Change, error) {
	change := placement.Change{After: world}
	if o.file == "" {
		return change, errors.New("-f FILE is missing")
	}
	found, err := readArrivals(streams, o.file)
	if err != nil {
		return change, err
	}
	change.After.Claims = append(world.Claims[:len(world.Claims):len(world.Claims)], found.claims...)
	change.After.Templates = append(world.Templates[:len(world.Templates):len(world.Templates)], found.templates...)
	for _, claim := range found.claims {
		if !found.used[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] {
			change.Arriving = append(change.Arriving, podOf(claim.Namespace, claim.Name, corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &claim.Name}))
		}
	}
	for _, template := range found.templates {
		if !found.used[types.NamespacedName{Namespace: template.Namespace, Name: template.Name}] {
			found.pods = append(found.pods, podOf(template.Namespace, template.Name, corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &template.Name}))
		}
	}
	for _, pod := range found.pods {
		for i := range o.replicas {
			replica := pod.DeepCopy()
			if o.replicas > 1 {
				replica.Name = fmt.Sprintf("%s-%d", pod.Name, i)
			}
			replica.UID = types.UID(fmt.Sprintf("new %s/%s", replica.Namespace, replica.Name))
			change.Arriving = append(change.Arriving, replica)
		}
	}
	if len(change.Arriving) == 0 {
		return change, fmt.Errorf("%s: contains no ResourceClaim, ResourceClaimTemplate or Pod", o.file)
	}
	return change, nil
}

func readArrivals(streams cmdutil.Streams, file string) (*arrivals, error) {
	a := &arrivals{used: map[types.NamespacedName]bool{}}
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(file) {
		if err != nil {
			return nil, err
		}
		var problems []manifest.Problem
		switch {
		case document.APIVersion == "v1" && document.Kind == "Pod":
			pod := &corev1.Pod{}
			problems = manifest.DecodeInto(document, pod)
			a.add(pod)
		case document.Ours():
			var object manifest.Object
			object, problems = manifest.Decode(document)
			switch typed := object.(type) {
			case *resourceapi.ResourceClaim:
				typed.Namespace = cmp.Or(typed.Namespace, "default")
				typed.Status = resourceapi.ResourceClaimStatus{}
				a.claims = append(a.claims, typed)
			case *resourceapi.ResourceClaimTemplate:
				typed.Namespace = cmp.Or(typed.Namespace, "default")
				a.templates = append(a.templates, typed)
			}
		}
		for _, problem := range problems {
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	return a, nil
}

func (a *arrivals) add(pod *corev1.Pod) {
	pod.Namespace = cmp.Or(pod.Namespace, "default")
	pod.Status = corev1.PodStatus{}
	a.pods = append(a.pods, pod)
	for _, reference := range pod.Spec.ResourceClaims {
		for _, name := range []*string{reference.ResourceClaimName, reference.ResourceClaimTemplateName} {
			if name != nil {
				a.used[types.NamespacedName{Namespace: pod.Namespace, Name: *name}] = true
			}
		}
	}
}

// podOf is a pod that only uses a claim.
func podOf(namespace, name string, reference corev1.PodResourceClaim) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("new " + namespace + "/" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, ResourceClaims: []corev1.PodResourceClaim{reference}}}
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
		Short:   fmt.Sprintf("Show what a changed %s does", kind),
		Long:    long,
		Example: fmt.Sprintf("  dra-steward whatif %s -f %s.yaml", use, use),
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return errors.New("-f FILE is missing")
			}
			return o.run(c.Context(), streams, func(_ *clusterread.Snapshot, world placement.World) (placement.Change, error) {
				objects, err := ofFile[manifest.Object](streams, o.file, kind)
				if err != nil {
					return placement.Change{}, err
				}
				change := after(world, objects...)
				change.After.Patched = world.Patched || use == "patch"
				change.Restarted = true
				return change, nil
			})
		},
	}
	o.addFlags(c)
	o.fileFlag(c, kind+" objects")
	return c
}
