package clusterread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// ReadState reads what the impact of taints depends on.
func (o *Source) ReadState(ctx context.Context, streams cmdutil.Streams) (*State, error) {
	if o.Files != nil {
		return stateOfFiles(streams, o.Files)
	}
	r, err := o.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	defer r.prefetch.end()
	r.forIndex()
	readAhead(ctx, r, "ResourceClaims", r.claims(""))
	readAhead(ctx, r, "pods", r.pods(""))
	readAhead(ctx, r, "PodDisruptionBudgets", r.client.PolicyV1().PodDisruptionBudgets(""))
	s, err := r.devices(ctx, streams)
	if err == nil {
		err = s.read(ctx, r, streams)
	}
	return s, err
}

// ReadDevices reads of a state the devices, and what changes them. [Source.ReadHolders] reads the rest. Of files it
// reads all.
func (o *Source) ReadDevices(ctx context.Context, streams cmdutil.Streams) (*State, error) {
	if o.Files != nil {
		return stateOfFiles(streams, o.Files)
	}
	r, err := o.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	defer r.prefetch.end()
	return r.devices(ctx, streams)
}

// ReadHolders reads of a state the claims, pods and PodDisruptionBudgets. Before that it drops the attributes and
// capacities of the devices, unless they are of files or a watcher keeps them: they need as much memory as what it
// reads. Nothing else uses the state meanwhile.
func (o *Source) ReadHolders(ctx context.Context, streams cmdutil.Streams, s *State) error {
	if o.Files != nil {
		return nil
	}
	if o.Watcher == nil {
		s.dropAttributes()
	}
	r, err := o.begin(streams)
	if err != nil {
		return err
	}
	defer r.progress.End()
	r.forIndex()
	return s.read(ctx, r, streams)
}

// forIndex keeps of claims and pods what an index reads, and the health of devices. What a watcher keeps has other readers.
func (r *reading) forIndex() { r.keeper.indexed = r.watcher == nil }

// devices begins a state.
func (r *reading) devices(ctx context.Context, streams cmdutil.Streams) (*State, error) {
	l, server := &Snapshot{}, ""
	var asking sync.WaitGroup
	asking.Go(func() { server, _ = r.version() }) // what it is for can be left out
	err := r.view(ctx, l)
	if asking.Wait(); err != nil {
		return nil, err
	}
	s := &State{View: l.View, NoRules: l.NoRules, Server: server}
	s.Objects.Published = guard.PublishedDevices(s.View.PublishedSlices())
	r.warn(streams, l.Notes...)
	return s, nil
}

func (r *reading) warn(streams cmdutil.Streams, notes ...string) {
	for _, note := range notes {
		r.progress.End()
		printable.Printf(streams.Err, "warning: %s\n", note)
	}
}

func (s *State) dropAttributes() {
	for _, all := range []iter.Seq[*resourceapi.ResourceSlice]{s.View.StoredSlices(), s.View.PublishedSlices(), slices.Values(s.View.List(labels.Everything()))} {
		for slice := range all {
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].Attributes, slice.Spec.Devices[i].Capacity = nil, nil
			}
		}
	}
}

// State is a cluster at one time.
type State struct {
	View    *tracker.Snapshot
	Objects taints.Objects
	// Nodes are those of files.
	Nodes []*corev1.Node
	// Server is the version of the API server, empty if it is not known.
	Server string
	// NoRules is true if DeviceTaintRules could not be read.
	NoRules bool
	// Unread is an error if the claims, pods and budgets of Objects are not all that there are.
	Unread error
}

// read reads claims, pods and budgets. If the user is not allowed to, it warns.
func (s *State) read(ctx context.Context, r *reading, streams cmdutil.Streams) error {
	var asking sync.WaitGroup
	asking.Go(func() { s.Objects.Thresholds = SiteThresholds(ctx, r.client) })
	err := s.list(ctx, r)
	asking.Wait()
	if apierrors.IsForbidden(err) {
		r.warn(streams, "the impact is unknown: "+err.Error())
		s.Unread, err = errors.New("which pods use the devices is unknown: you are not allowed to list the claims, pods and PodDisruptionBudgets of all namespaces"), nil
	}
	return err
}

func (s *State) list(ctx context.Context, r *reading) (err error) {
	if s.Objects.Claims, err = list[*resourceapi.ResourceClaim](ctx, r, "ResourceClaims", r.claims("")); err != nil {
		return fmt.Errorf("list ResourceClaims: %w", err)
	}
	if s.Objects.Pods, err = list[*corev1.Pod](ctx, r, "pods", r.pods("")); err != nil {
		return fmt.Errorf("list Pods: %w", err)
	}
	if s.Objects.Budgets, err = list[*policyv1.PodDisruptionBudget](ctx, r, "PodDisruptionBudgets", r.client.PolicyV1().PodDisruptionBudgets("")); err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	return nil
}

// stateOfFiles reads what files hold.
func stateOfFiles(streams cmdutil.Streams, files []string) (*State, error) {
	s, objects := &State{}, []any(nil)
	s.Objects.Thresholds = defaultThresholds("unknown with --from-files")
	for document, err := range (manifest.Reader{Stdin: streams.In, MaxBytes: manifest.DumpBytes}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		object, problems := s.decode(document)
		for _, problem := range problems {
			printable.Printf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	s.View = tracker.Merge(objects...)
	s.Objects.Published = guard.PublishedDevices(s.View.PublishedSlices())
	return s, nil
}

// decode keeps what is of use; what the tracker looks at is returned.
func (s *State) decode(document *manifest.Document) (any, []manifest.Problem) {
	switch group, _, _ := strings.Cut(document.APIVersion, "/"); {
	case group == "v1" && document.Kind == "Pod":
		pod, problems := podOf(document)
		s.Objects.Pods = append(s.Objects.Pods, pod)
		return nil, problems
	case group == "v1" && document.Kind == "Node":
		node := &corev1.Node{}
		problems := manifest.DecodeInto(document, node)
		s.Nodes = append(s.Nodes, node)
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
	newer.DecodeAny(document.Raw, object)
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

// Tainted are all devices, and those of rules of "dra-steward taint" whose devices are
// no longer published.
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

// NodeNames returns the nodes whose labels a selector selects.
func (o *Source) NodeNames(ctx context.Context, streams cmdutil.Streams, s *State, selector string) ([]string, error) {
	nodes := s.Nodes
	if o.Files == nil {
		r, err := o.begin(streams)
		if err != nil {
			return nil, err
		}
		defer r.progress.End()
		if nodes, err = list[*corev1.Node](ctx, r, "nodes", r.nodes()); err != nil {
			return nil, err
		}
	}
	return NodesWith(nodes, selector)
}

// NodesWith returns the names of the nodes whose labels a selector selects.
func NodesWith(nodes []*corev1.Node, selector string) (names []string, _ error) {
	selected, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		if selected.Matches(labels.Set(node.Labels)) {
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no node has the labels %s", selector)
	}
	return names, nil
}

// Scope is what names of targets can refer to.
func (s *State) Scope() taints.Scope {
	return taints.Scope{View: s.View, Index: s.Objects.Index(), Names: s.Devices()}
}
