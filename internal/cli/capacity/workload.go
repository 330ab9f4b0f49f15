package capacity

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
)

// A workload is what is counted: a pod, with the claims and templates of its file.
type workload struct {
	subject string
	pod     *corev1.Pod
	*clusterread.Manifests
}

// readWorkload reads a file. Objects without a namespace are in the given one.
func readWorkload(streams cmdutil.Streams, file, namespace string) (workload, error) {
	read, err := clusterread.ReadManifests(streams, file, namespace)
	if err != nil {
		return workload{}, err
	}
	switch len(read.Workloads) {
	case 0:
		return alone(read, file)
	case 1:
		return workload{subject: read.Workloads[0].String(), pod: read.Workloads[0].Pod, Manifests: read}, nil
	}
	var names []string
	for _, w := range read.Workloads {
		names = append(names, w.String())
	}
	return workload{}, fmt.Errorf("%s: contains %s: must be one", file, strings.Join(names, ", "))
}

// alone is the workload of a template or claim: a pod that uses one like it, and nothing else.
func alone(read *clusterread.Manifests, file string) (workload, error) {
	var names []string
	for _, template := range read.Templates {
		names = append(names, "resourceclaimtemplate "+template.Namespace+"/"+template.Name)
	}
	for _, claim := range read.Claims {
		names = append(names, "resourceclaim "+claim.Namespace+"/"+claim.Name)
	}
	switch {
	case len(names) == 0:
		return workload{}, fmt.Errorf("%s: contains no ResourceClaimTemplate, ResourceClaim, %s", file, clusterread.WorkloadKinds)
	case len(names) > 1:
		return workload{}, fmt.Errorf("%s: contains %s, and no pod that uses them: must be one", file, strings.Join(names, ", "))
	}
	if len(read.Claims) == 1 {
		claim := read.Claims[0]
		read.Templates = append(read.Templates, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}})
		read.Claims = nil
	}
	template := read.Templates[0]
	return workload{subject: names[0], Manifests: read,
		pod: clusterread.User(template.Namespace, template.Name, corev1.PodResourceClaim{ResourceClaimTemplateName: &template.Name})}, nil
}
