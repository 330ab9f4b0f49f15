package capacity

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// A workload is what a file has: a pod, with its claims and templates.
type workload struct {
	subject   string
	pod       *corev1.Pod
	claims    []*resourceapi.ResourceClaim
	templates []*resourceapi.ResourceClaimTemplate
	subjects  []string
}

// readWorkload reads a file. Objects without a namespace are in the given one.
func readWorkload(streams cmdutil.Streams, file, namespace string) (workload, error) {
	w := workload{}
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(file) {
		if err != nil {
			return w, err
		}
		problems := w.add(document, namespace)
		for _, problem := range problems {
			if problem.Fatal() {
				return w, fmt.Errorf("%s: %v", document.File, problem)
			}
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	switch {
	case len(w.subjects) > 1:
		return w, fmt.Errorf("%s: contains %s: must be one", file, strings.Join(w.subjects, ", "))
	case len(w.subjects) == 1:
		w.subject = w.subjects[0]
		return w, nil
	}
	return w.alone(file)
}

// add keeps what a document has.
func (w *workload) add(document *manifest.Document, namespace string) []manifest.Problem {
	if document.Ours() {
		object, problems := manifest.Decode(document)
		switch typed := object.(type) {
		case *resourceapi.ResourceClaim:
			typed.Namespace = cmp.Or(typed.Namespace, namespace)
			typed.Status = resourceapi.ResourceClaimStatus{}
			w.claims = append(w.claims, typed)
		case *resourceapi.ResourceClaimTemplate:
			typed.Namespace = cmp.Or(typed.Namespace, namespace)
			w.templates = append(w.templates, typed)
		}
		return problems
	}
	problems, meta, pod := podOf(document)
	if pod == nil {
		return nil
	}
	pod.Name, pod.Namespace = meta.Name, cmp.Or(meta.Namespace, namespace)
	w.pod = pod
	w.subjects = append(w.subjects, strings.ToLower(document.Kind)+" "+pod.Namespace+"/"+cmp.Or(pod.Name, meta.GenerateName))
	return problems
}

// alone is the workload of a template or claim: a pod that uses one like it, and nothing else.
func (w workload) alone(file string) (workload, error) {
	var names []string
	for _, template := range w.templates {
		names = append(names, "resourceclaimtemplate "+template.Namespace+"/"+template.Name)
	}
	for _, claim := range w.claims {
		names = append(names, "resourceclaim "+claim.Namespace+"/"+claim.Name)
	}
	switch {
	case len(names) == 0:
		return w, fmt.Errorf("%s: contains no ResourceClaimTemplate, ResourceClaim or workload", file)
	case len(names) > 1:
		return w, fmt.Errorf("%s: contains %s, and no pod that uses them: must be one", file, strings.Join(names, ", "))
	}
	w.subject = names[0]
	if len(w.claims) == 1 {
		claim := w.claims[0]
		w.templates = append(w.templates, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}})
		w.claims = nil
	}
	template := w.templates[0]
	w.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: template.Namespace, Name: template.Name}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "c"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &template.Name}}}}
	return w, nil
}

// podOf is the pod of a workload, nil for other objects.
func podOf(document *manifest.Document) ([]manifest.Problem, metav1.ObjectMeta, *corev1.Pod) {
	switch document.APIVersion + " " + document.Kind {
	case "v1 Pod":
		pod := &corev1.Pod{}
		problems := manifest.DecodeInto(document, pod)
		pod.Status = corev1.PodStatus{}
		return problems, pod.ObjectMeta, pod
	case "apps/v1 Deployment":
		o := &appsv1.Deployment{}
		problems := manifest.DecodeInto(document, o)
		return problems, o.ObjectMeta, of(o.Spec.Template)
	case "apps/v1 ReplicaSet":
		o := &appsv1.ReplicaSet{}
		problems := manifest.DecodeInto(document, o)
		return problems, o.ObjectMeta, of(o.Spec.Template)
	case "apps/v1 StatefulSet":
		o := &appsv1.StatefulSet{}
		problems := manifest.DecodeInto(document, o)
		return problems, o.ObjectMeta, of(o.Spec.Template)
	case "batch/v1 Job":
		o := &batchv1.Job{}
		problems := manifest.DecodeInto(document, o)
		return problems, o.ObjectMeta, of(o.Spec.Template)
	case "batch/v1 CronJob":
		o := &batchv1.CronJob{}
		problems := manifest.DecodeInto(document, o)
		return problems, o.ObjectMeta, of(o.Spec.JobTemplate.Spec.Template)
	}
	return nil, metav1.ObjectMeta{}, nil
}

func of(template corev1.PodTemplateSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec}
}
