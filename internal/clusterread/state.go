package clusterread

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"os"

	"iter"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// StateOptions say where a command reads a cluster from.
type StateOptions struct {
	Kubeconfig string
	Files      []string
	timeout    time.Duration
}

func (o *StateOptions) Flags(f *pflag.FlagSet, files bool) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or the cluster of this pod)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "maximum time for reading the cluster")
	if files {
		f.StringSliceVar(&o.Files, "from-files", nil, "read slices, rules, claims, pods and budgets from these files, folders or - for standard input instead of a cluster")
	}
}

func (o StateOptions) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", OwnKubeconfig(o.Kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file", err)
	}
	return config, nil
}

func (o StateOptions) Read(ctx context.Context, streams cmdutil.Streams) (*State, error) {
	if o.Files != nil {
		return stateOfFiles(streams, o.Files)
	}
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	l := &Snapshot{}
	if err := l.readView(ctx, config); err != nil {
		return nil, err
	}
	s := &State{View: l.View}
	s.Objects.Published = usage.PublishedDevices(s.View.PublishedSlices())
	s.Objects.Thresholds = SiteThresholds(ctx, client)
	err = s.read(ctx, client)
	if apierrors.IsForbidden(err) {
		l.Notes, err = append(l.Notes, "the impact is unknown: "+err.Error()), nil
	}
	for _, note := range l.Notes {
		fmt.Fprintf(streams.Err, "warning: %s\n", note)
	}
	return s, err
}

// OwnKubeconfig is the file of the flag, of $KUBECONFIG, or the usual one if it is there;
// empty is the cluster that this runs in.
func OwnKubeconfig(flag string) string {
	if flag != "" {
		return flag
	}
	if list := os.Getenv("KUBECONFIG"); list != "" {
		first, _, _ := strings.Cut(list, string(os.PathListSeparator))
		return first
	}
	return ""
}

// State is a cluster at one time.
type State struct {
	View    *tracker.Snapshot
	Objects taints.Objects
}

// read lists claims, pods and budgets, from the API server's cache.
func (s *State) read(ctx context.Context, client kubernetes.Interface) error {
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
		s.Objects.Claims = append(s.Objects.Claims, &claims.Items[i])
	}
	for i := range pods.Items {
		s.Objects.Pods = append(s.Objects.Pods, &pods.Items[i])
	}
	for i := range budgets.Items {
		s.Objects.Budgets = append(s.Objects.Budgets, &budgets.Items[i])
	}
	return nil
}

// stateOfFiles reads what files hold.
func stateOfFiles(streams cmdutil.Streams, files []string) (*State, error) {
	s, objects := &State{}, []any(nil)
	s.Objects.Thresholds = defaultThresholds("unknown with --from-files")
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
	s.View = tracker.Merge(objects...)
	s.Objects.Published = usage.PublishedDevices(s.View.PublishedSlices())
	return s, nil
}

// decode keeps what is of use; what the tracker looks at is returned.
func (s *State) decode(document *manifest.Document) (any, []manifest.Problem) {
	switch group, _, _ := strings.Cut(document.APIVersion, "/"); {
	case group == "v1" && document.Kind == "Pod":
		pod := &corev1.Pod{}
		problems := manifest.DecodeInto(document, pod)
		s.Objects.Pods = append(s.Objects.Pods, pod)
		return nil, problems
	case group == policyv1.GroupName && document.Kind == "PodDisruptionBudget":
		budget := &policyv1.PodDisruptionBudget{}
		problems := manifest.DecodeInto(document, budget)
		s.Objects.Budgets = append(s.Objects.Budgets, budget)
		return nil, problems
	case !document.Ours():
		return nil, nil
	}
	object, problems := manifest.Decode(document)
	if claim, is := object.(*resourceapi.ResourceClaim); is && claim != nil {
		s.Objects.Claims = append(s.Objects.Claims, claim)
	}
	if object == nil {
		return nil, problems
	}
	return object, problems
}

// Devices are all that are published or allocated.
func (s *State) Devices() iter.Seq[usage.DeviceID] {
	return func(yield func(usage.DeviceID) bool) {
		for d := range s.View.Devices() {
			if !yield(usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}) {
				return
			}
		}
		for _, claim := range s.Objects.Claims {
			if claim.Status.Allocation == nil {
				continue
			}
			for _, result := range claim.Status.Allocation.Devices.Results {
				if !yield(usage.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}) {
					return
				}
			}
		}
	}
}

// Tainted are all devices, and those of rules of "dra-steward taint" whose devices nobody
// publishes any more.
func (s *State) Tainted() iter.Seq[usage.DeviceID] {
	return func(yield func(usage.DeviceID) bool) {
		for id := range s.Devices() {
			if !yield(id) {
				return
			}
		}
		for rule := range s.View.Rules() {
			on := rule.Spec.DeviceSelector
			if rule.Labels[taints.ManagedBy] == taints.ManagedByTaint && on != nil && on.Driver != nil &&
				!yield(usage.DeviceID{Driver: *on.Driver, Pool: ptr.Deref(on.Pool, ""), Device: ptr.Deref(on.Device, "")}) {
				return
			}
		}
	}
}
