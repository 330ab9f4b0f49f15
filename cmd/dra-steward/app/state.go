package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// readOptions say where a command reads a cluster from.
type readOptions struct {
	kubeconfig string
	files      []string
	timeout    time.Duration
}

func (o *readOptions) flags(f *pflag.FlagSet, files bool) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: $KUBECONFIG, or the cluster that this runs in)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait until the cluster has been read")
	if files {
		f.StringSliceVar(&o.files, "from-files", nil, "read slices, rules, claims, pods and budgets from these files, folders or - for standard input instead of a cluster")
	}
}

func (o readOptions) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", ownKubeconfig(o.kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside of a cluster name a file", err)
	}
	return config, nil
}

// state is a cluster at one time.
type state struct {
	view    *tracker.Snapshot
	objects taints.Objects
}

func (o readOptions) state(ctx context.Context, streams Streams) (*state, error) {
	if o.files != nil {
		return stateOfFiles(streams, o.files)
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	l := &look{}
	if err := l.readView(ctx, config); err != nil {
		return nil, err
	}
	s := &state{view: l.view}
	s.objects.Published = usage.PublishedDevices(s.view.PublishedSlices())
	s.objects.Thresholds = siteThresholds(ctx, client)
	err = s.read(ctx, client)
	if apierrors.IsForbidden(err) {
		l.notes, err = append(l.notes, "who would have to go is not known: "+err.Error()), nil
	}
	for _, note := range l.notes {
		fmt.Fprintf(streams.Err, "warning: %s\n", note)
	}
	return s, err
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
