package clusterread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/remerge"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A Source is where a command reads objects from: a cluster, or files.
type Source struct {
	Client cmdutil.Client
	Files  []string
	// Watcher keeps what is read current; nil reads once.
	Watcher *Watcher
	// NoAttributes leaves out the attributes and capacities of devices that no patch changes. They are most of what
	// is known of devices.
	NoAttributes bool
}

// AddFlags adds the flags of the client and --from-files.
func (s *Source) AddFlags(c *cobra.Command) {
	s.Client.AddFlags(c)
	s.FilesFlag(c)
	s.Complete(c)
}

// Complete lets the shell complete --namespace, and targets as arguments of commands that
// have no other arguments.
func (s *Source) Complete(c *cobra.Command) {
	if c.Args == nil {
		c.ValidArgsFunction = s.CompleteTargets
	}
	cmdutil.CompleteWith(c, "namespace", s.CompleteNamespaces)
}

// FilesFlag adds --from-files alone.
func (s *Source) FilesFlag(c *cobra.Command) {
	c.Flags().StringSliceVar(&s.Files, "from-files", nil, "read the objects from these files, folders or - for standard input instead of a cluster (separated by commas, or repeatable)")
}

// A reading is one pass over a cluster, or with a watcher all of them.
type reading struct {
	config   *rest.Config
	client   kubernetes.Interface
	progress *cmdutil.Progress
	watcher  *Watcher
	// version is that of the API server, served what it serves of DeviceTaintRules.
	version  func() (string, error)
	served   *servedRules
	merged   remerge.Memory
	keeper   keeper
	prefetch prefetch
	// noAttributes is that of the source: a patch that comes later would change attributes that a watcher has dropped.
	noAttributes bool
	// converted are the objects of listAs of the last read, by what and by what they were.
	converted map[string]map[*unstructured.Unstructured]any
}

// begin connects to the cluster. The caller ends the progress.
func (s *Source) begin(streams cmdutil.Streams) (*reading, error) {
	if s.Watcher != nil && s.Watcher.reading != nil {
		return s.Watcher.reading, nil
	}
	r, err := s.connect(streams)
	if err != nil {
		return nil, err
	}
	if s.Watcher != nil {
		r.watcher, s.Watcher.reading = s.Watcher, r
	}
	return r, nil
}

func (s *Source) connect(streams cmdutil.Streams) (*reading, error) {
	config, err := s.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	typed := rest.CopyConfig(config)
	typed.ContentType = runtime.ContentTypeProtobuf
	typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return &reading{config: config, client: client, noAttributes: s.NoAttributes && s.Watcher == nil, progress: s.Client.Progress(streams, "connecting to "+config.Host), converted: map[string]map[*unstructured.Unstructured]any{},
		version: sync.OnceValues(func() (string, error) {
			info, err := client.Discovery().ServerVersion()
			if err != nil {
				return "", err
			}
			return info.GitVersion, nil
		}),
		served: &servedRules{ask: func() (untyped, error) {
			rules, _, err := ServedRules(config)
			return rules, err
		}}}, nil
}

// A resource lists objects, a page at a time, and watches them.
type resource[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// selected are the objects of a resource with these fields and labels.
type selected[L runtime.Object] struct {
	resource[L]
	fields, labels string
}

// WithLabels are the objects of a resource with these labels.
func WithLabels[L runtime.Object](all resource[L], labels string) resource[L] {
	return selected[L]{resource: all, labels: labels}
}

func (s selected[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	options.FieldSelector, options.LabelSelector = s.fields, s.labels
	return s.resource.List(ctx, options)
}

func (s selected[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector, options.LabelSelector = s.fields, s.labels
	return s.resource.Watch(ctx, options)
}

// List reads all objects of a resource, which errors and progress call what.
func List[T any, L runtime.Object](ctx context.Context, s *Source, streams cmdutil.Streams, what string, from resource[L]) ([]T, error) {
	r, err := s.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	return list[T](ctx, r, what, from)
}

// list reads all objects of a resource. A watcher remembers them by what.
func list[T any, L runtime.Object](ctx context.Context, r *reading, what string, from resource[L]) (all []T, _ error) {
	pages := func() ([]runtime.Object, string, error) { return readPages(ctx, r, what, from) }
	var objects []runtime.Object
	var err error
	wait, begun := r.prefetch.take(what)
	switch {
	case begun:
		objects, err = wait()
	case r.watcher != nil:
		objects, err = r.watcher.objects(ctx, &watched{what: what, list: pages, watch: from.Watch, keep: r.keeper.keep, objects: &sorted{}})
	default:
		objects, _, err = pages()
	}
	if len(objects) > 0 {
		all = make([]T, 0, len(objects))
	}
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all, err
}

// readPages reads the objects in pages, so that a long list makes progress. The resource
// version is the one from which a watch goes on.
func readPages[L runtime.Object](ctx context.Context, r *reading, what string, from resource[L]) (objects []runtime.Object, version string, _ error) {
	keep := func(object runtime.Object) error {
		objects = append(objects, object)
		return r.keeper.keep(object)
	}
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		r.progress.Say("reading %s: %d", what, len(objects))
		about, err := readPage(ctx, from, options, keep)
		switch {
		case apierrors.IsResourceExpired(err) && options.Continue != "":
			objects, options = nil, metav1.ListOptions{} // all of them now, at once
		case err != nil:
			return nil, "", err
		case about.GetContinue() == "":
			return objects, about.GetResourceVersion(), nil
		default:
			options.Continue = about.GetContinue()
		}
	}
}

// readPage visits the objects of a page.
func readPage[L runtime.Object](ctx context.Context, from resource[L], options metav1.ListOptions, visit func(runtime.Object) error) (metav1.ListInterface, error) {
	if decoding, is := from.(interface {
		page(context.Context, metav1.ListOptions, func(runtime.Object) error) (metav1.ListInterface, error)
	}); is {
		return decoding.page(ctx, options, visit)
	}
	page, err := from.List(ctx, options)
	if err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	return about, meta.EachListItem(page, visit)
}

// view lists devices and what changes them. A kind that the user is not allowed to read
// becomes a note, except ResourceSlices.
func (r *reading) view(ctx context.Context, l *Snapshot) error {
	// All at once: each request waits in a queue of a busy API server.
	readAhead(ctx, r, "DeviceClasses", r.client.ResourceV1().DeviceClasses())
	readAhead(ctx, r, "DeviceTaintRules", r.served)
	stored, err := r.storedPatches()
	if err != nil {
		return err
	}
	readAhead(ctx, r, "ResourceSlicePatches", stored)
	classes, err := list[*resourceapi.DeviceClass](ctx, r, "DeviceClasses", r.client.ResourceV1().DeviceClasses())
	if l.NoClasses, err = l.optional(tracker.ClassKind, err); err != nil {
		return err
	}
	rules, err := r.rules(ctx)
	if l.NoRules, err = l.optional(tracker.RuleKind, err); err != nil {
		return err
	}
	patches, err := r.patches(ctx, stored)
	if _, err = l.optional(tracker.PatchKind, err); err != nil {
		return err
	}
	if r.noAttributes {
		r.keeper.unread = func(slice *resourceapi.ResourceSlice) bool { return unpatched(slice, patches) }
	}
	published, err := list[*resourceapi.ResourceSlice](ctx, r, "ResourceSlices", r.slices())
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", tracker.SliceKind, err)
	}
	objects := slices.Concat(rules, patches)
	for _, slice := range published {
		objects = append(objects, slice)
	}
	for _, class := range classes {
		objects = append(objects, class)
	}
	l.View = tracker.Merge(append(objects, &r.merged)...)
	return nil
}

// optional makes a note of a kind that the user is not allowed to read; other errors stay.
func (s *Snapshot) optional(kind tracker.Kind, err error) (missing bool, _ error) {
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsForbidden(err):
		s.Notes = append(s.Notes, fmt.Sprintf("%s cannot be read: %v", kind, err))
		return true, nil
	default:
		return true, fmt.Errorf("%s cannot be read: %w", kind, err)
	}
}

// rules lists DeviceTaintRules, in the newest version that is served.
func (r *reading) rules(ctx context.Context) ([]any, error) {
	if _, err := r.served.connect(false); errors.Is(err, ErrNoRules) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return listAs[resourceapi.DeviceTaintRule](ctx, r, "DeviceTaintRules", r.served)
}

// Rules reads DeviceTaintRules, and nothing else.
func (s *Source) Rules(ctx context.Context, streams cmdutil.Streams) (rules []*resourceapi.DeviceTaintRule, _ error) {
	r, err := s.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	all, err := r.rules(ctx)
	for _, one := range all {
		if rule, is := one.(*resourceapi.DeviceTaintRule); is {
			rules = append(rules, rule)
		}
	}
	return rules, err
}

// patches lists ResourceSlicePatches, none if the type is not installed.
func (r *reading) patches(ctx context.Context, stored untyped) ([]any, error) {
	all, err := listAs[v1alpha1.ResourceSlicePatch](ctx, r, "ResourceSlicePatches", stored)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}

func (r *reading) storedPatches() (untyped, error) {
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return nil, err
	}
	return client.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)), nil
}

// listAs lists objects whose version differs between servers, as *T.
func listAs[T any](ctx context.Context, r *reading, what string, from untyped) (all []any, err error) {
	found, err := list[*unstructured.Unstructured](ctx, r, what, from)
	if err != nil {
		return nil, err
	}
	before, now := r.converted[what], make(map[*unstructured.Unstructured]any, len(found))
	for _, object := range found {
		into, known := before[object]
		if !known {
			if into, err = newer.Convert[T](object); err != nil {
				return nil, err
			}
		}
		now[object] = into
		all = append(all, into)
	}
	if r.watcher != nil {
		r.converted[what] = now
	}
	return all, nil
}
