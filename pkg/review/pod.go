package review

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/kubernetes/extendedresource"
)

// Pod returns what is wrong with the extended resources of a new pod that are backed by DRA:
// what Validate finds in the claim that the scheduler makes for them. Components of
// Kubernetes are not exempt, since a controller that creates a pod acts for the author of
// its template.
func (r Reviewer) Pod(req Request) (Answer, error) {
	if req.Kind != corev1.SchemeGroupVersion.WithKind("Pod") {
		return Answer{}, UnknownKindError{req.Kind, req.Subresource}
	}
	pod, err := decode[corev1.Pod]("object", req.Object)
	if err != nil {
		return Answer{}, err
	}
	if pod == nil {
		return Answer{}, fmt.Errorf("the request has no object: a Pod is expected as JSON")
	}
	answer := Answer{Name: displayName(pod)}
	requests := extendedresource.Requests(pod, r.classOfResource)
	if len(requests) == 0 || len(req.Old) > 0 || req.Subresource != "" {
		return answer, nil
	}
	claim := resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "extended-resources", Namespace: req.Namespace, Finalizers: []string{resourceapi.Finalizer}},
	}
	for _, request := range requests {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request.DeviceRequest)
	}
	asked := req
	asked.Kind = resourceapi.SchemeGroupVersion.WithKind("ResourceClaim")
	if asked.Object, err = json.Marshal(claim); err != nil {
		return answer, err
	}
	r.exemptions.systemUsers = []string{}
	found, err := r.Validate(asked)
	found.Name = answer.Name
	for i := range found.Findings {
		relocate(&found.Findings[i], requests)
	}
	for i := range found.Audited {
		relocate(&found.Audited[i], requests)
	}
	for i := range found.Exempted {
		relocate(&found.Exempted[i].Finding, requests)
	}
	return found, err
}

// classOfResource returns the DeviceClass that the scheduler uses for an extended resource.
func (r Reviewer) classOfResource(name corev1.ResourceName) string {
	if class := extendedresource.ImplicitClass(name); class != "" {
		return class
	}
	if r.ClusterView == nil || !strings.Contains(string(name), "/") {
		return ""
	}
	var used *resourceapi.DeviceClass
	for class := range r.ClusterView.Classes() {
		if own := class.Spec.ExtendedResourceName; own != nil && *own == string(name) && (used == nil || extendedresource.Supersedes(class, used)) {
			used = class
		}
	}
	if used == nil {
		return ""
	}
	return used.Name
}

// requestPath is the path of a request in a claim, or of something in it.
var requestPath = regexp.MustCompile(`spec\.devices\.requests\[([a-z0-9-]+)\](\.[A-Za-z]+)*`)

// relocate turns paths in the claim into those in the pod.
func relocate(f *Finding, requests []extendedresource.Request) {
	inPod := func(text string) string {
		return requestPath.ReplaceAllStringFunc(text, func(path string) string {
			name := requestPath.FindStringSubmatch(path)[1]
			i := slices.IndexFunc(requests, func(r extendedresource.Request) bool { return r.Name == name })
			if i < 0 {
				return path
			}
			return requests[i].Path.String()
		})
	}
	f.Path = inPod(f.Path)
	f.Message = "in the claim for the pod's extended resources: " + inPod(f.Message)
}
