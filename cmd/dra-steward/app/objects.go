package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// state is a cluster at one time.
type state struct {
	view    *tracker.Snapshot
	objects taints.Objects
}

// read lists claims, pods and budgets, from the API server's cache.
func (s *state) read(ctx context.Context, client kubernetes.Interface) error {
	recent := metav1.ListOptions{ResourceVersion: "0"}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, recent)
	if err != nil {
		return fmt.Errorf("list ResourceClaims: %w", err)
	}
	pods, err := client.CoreV1().Pods("").List(ctx, recent)
	if err != nil {
		return fmt.Errorf("list Pods: %w", err)
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets("").List(ctx, recent)
	if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	for i := range claims.Items {
		s.objects.Claims = append(s.objects.Claims, &claims.Items[i])
	}
	for i := range pods.Items {
		s.objects.Pods = append(s.objects.Pods, &pods.Items[i])
	}
	for i := range budgets.Items {
		s.objects.Budgets = append(s.objects.Budgets, &budgets.Items[i])
	}
	return nil
}

// stateOfFiles reads what files hold.
func stateOfFiles(streams Streams, files []string) (*state, error) {
	s, objects := &state{}, []any(nil)
	s.objects.Thresholds = defaultThresholds("files do not say")
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		object, problems := s.decode(document)
		for _, problem := range problems {
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	s.view = tracker.Merge(objects...)
	s.objects.Published = usage.PublishedDevices(s.view.PublishedSlices())
	return s, nil
}

// decode keeps what is of use; what the tracker looks at is returned.
func (s *state) decode(document *manifest.Document) (any, []manifest.Problem) {
	switch group, _, _ := strings.Cut(document.APIVersion, "/"); {
	case group == "v1" && document.Kind == "Pod":
		pod := &corev1.Pod{}
		problems := manifest.DecodeInto(document, pod)
		s.objects.Pods = append(s.objects.Pods, pod)
		return nil, problems
	case group == policyv1.GroupName && document.Kind == "PodDisruptionBudget":
		budget := &policyv1.PodDisruptionBudget{}
		problems := manifest.DecodeInto(document, budget)
		s.objects.Budgets = append(s.objects.Budgets, budget)
		return nil, problems
	case !document.Ours():
		return nil, nil
	}
	object, problems := manifest.Decode(document)
	if claim, is := object.(*resourceapi.ResourceClaim); is && claim != nil {
		s.objects.Claims = append(s.objects.Claims, claim)
	}
	if object == nil {
		return nil, problems
	}
	return object, problems
}
