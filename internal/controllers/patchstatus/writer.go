package patchstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// FieldManager names the writer to the API server.
const FieldManager = "dra-steward-patch-status"

// A View is what a [tracker.Tracker] shows.
type View interface {
	Snapshot() *tracker.Snapshot
	Conditions() []tracker.Condition
	HasSyncedChecker() cache.DoneChecker
}

// A Client writes to the API server. [NewClient] returns one.
type Client interface {
	// WriteStatus replaces the status of a patch, of that UID, and returns the resource
	// version that it has then.
	WriteStatus(context.Context, *v1alpha1.ResourceSlicePatch, v1alpha1.ResourceSlicePatchStatus) (resourceVersion string, err error)
	// CreateEvent creates an event.
	CreateEvent(context.Context, *corev1.Event) error
}

// The defaults of [Options], and how many writes may come at once.
const (
	DefaultInterval  = time.Second
	DefaultGap       = 10 * time.Second
	DefaultPerSecond = 5
	burst            = 10
)

// Options configure a [Writer].
type Options struct {
	View   View
	Client Client
	// Interval is how often the view is looked at, DefaultInterval if zero.
	Interval time.Duration
	// Gap is the least time between two writes of one status, and between an error and
	// the next attempt, DefaultGap if zero. A new generation does not wait for it.
	Gap time.Duration
	// PerSecond is how many statuses are written, DefaultPerSecond if zero; ten may
	// come at once.
	PerSecond float64
	// Written is how far the patches of a view are written into its slices: call of again when version changes.
	// The view is nil until that is known. Without the function, patches are not written into slices.
	Written func() (version any, view *tracker.Snapshot, of func(patch string) Written)
	// Metrics counts writes and events; nil counts nothing.
	Metrics *Metrics
	// Logger gets errors of the API server. The zero value discards them.
	Logger logr.Logger
}

// A Writer keeps the statuses up to date.
type Writer struct {
	options Options
	limiter *rate.Limiter
	known   map[types.UID]*record
	// version is what was looked at last, with classesRead, complete whether all of it is
	// written.
	version               any
	classesRead, complete bool
	written               func(patch string) Written
}

// A record is what the writer remembers of a patch.
type record struct {
	// generation is that of the last pass, reported the reasons that have an event.
	generation int64
	reported   []patch.Reason
	// next is when the status may be written again, written when that was last done.
	next, written time.Time
	// version is the resource version that the last write has made, over the one that
	// it was made on. The view may not have it yet.
	over, version string
	failure       string
}

// New makes a writer.
func New(options Options) *Writer {
	if options.Interval <= 0 {
		options.Interval = DefaultInterval
	}
	if options.Gap <= 0 {
		options.Gap = DefaultGap
	}
	if options.PerSecond <= 0 {
		options.PerSecond = DefaultPerSecond
	}
	if options.Written == nil {
		options.Written = func() (any, *tracker.Snapshot, func(string) Written) {
			view := options.View.Snapshot()
			return view, view, func(string) Written { return Written{} }
		}
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	return &Writer{options: options, limiter: rate.NewLimiter(rate.Limit(options.PerSecond), burst), known: map[types.UID]*record{}}
}

// Run writes until ctx ends. It waits until the view has been made.
func (w *Writer) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.options.View.HasSyncedChecker().Done():
	}
	ticker := time.NewTicker(w.options.Interval)
	defer ticker.Stop()
	for {
		w.reconcile(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// due is a status that is to be written.
type due struct {
	report tracker.PatchReport
	status v1alpha1.ResourceSlicePatchStatus
	faults []fault
	record *record
}

// reconcile writes what differs, as far as the rate allows.
func (w *Writer) reconcile(ctx context.Context, now time.Time) {
	version, view, written := w.options.Written()
	classesRead := hasClasses(w.options.View)
	if view == nil || version == w.version && classesRead == w.classesRead && w.complete {
		return
	}
	w.version, w.written = version, written
	w.classesRead, w.complete = classesRead, true
	for _, d := range w.differing(view, now) {
		if ctx.Err() != nil || !w.limiter.AllowN(now, 1) {
			w.complete = false
			return
		}
		w.record(d, now, w.write(ctx, d, metav1.NewTime(now)))
	}
}

// differing returns what may be written now, what waits longest first.
func (w *Writer) differing(view *tracker.Snapshot, now time.Time) (all []due) {
	there := map[types.UID]bool{}
	for _, report := range view.PatchReports() {
		p := report.Patch
		there[p.UID] = true
		known := w.known[p.UID]
		if known == nil || known.generation != p.Generation {
			known = &record{generation: p.Generation}
			w.known[p.UID] = known
		}
		if known.version != "" && p.ResourceVersion == known.over {
			w.complete = false // what was written is not in the view yet
			continue
		}
		known.over, known.version = "", ""
		if report.Unfinished > 0 && !report.Report.Failures.Expensive {
			continue // the status stays as it is until the result is known
		}
		status := decide(report, w.classesRead, w.written(p.Name), metav1.NewTime(now).Rfc3339Copy())
		news := known.news(p, faults(report, w.classesRead))
		if len(news) == 0 && equality.Semantic.DeepEqual(status, p.Status) {
			continue
		}
		if now.Before(known.next) {
			w.complete = false
			continue
		}
		all = append(all, due{report, status, news, known})
	}
	for uid := range w.known {
		if !there[uid] {
			delete(w.known, uid)
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return a.record.written.Compare(b.record.written) })
	return all
}

// hasClasses reports whether DeviceClasses are in the view.
func hasClasses(view View) bool {
	for _, c := range view.Conditions() {
		if c.Kind == tracker.ClassKind {
			return c.Available || c.Reason == tracker.ReasonUnreachable // then those of before
		}
	}
	return false
}

// news returns the faults of which there has been no event.
func (r *record) news(p *v1alpha1.ResourceSlicePatch, all []fault) []fault {
	return slices.DeleteFunc(all, func(f fault) bool { return slices.Contains(r.reported, f.reason) || hasEvent(p, f.reason) })
}

// write creates the events first: a reason that the status has gets no event later.
func (w *Writer) write(ctx context.Context, d due, now metav1.Time) error {
	for _, f := range d.faults {
		err := w.options.Client.CreateEvent(ctx, event(d.report.Patch, f, now))
		w.options.Metrics.createdEvent(err)
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
		case apierrors.IsForbidden(err):
			w.options.Logger.Error(err, "Cannot create an event", "patch", d.report.Patch.Name)
		default:
			return err
		}
		d.record.reported = append(d.record.reported, f.reason)
	}
	if equality.Semantic.DeepEqual(d.status, d.report.Patch.Status) {
		return nil
	}
	version, err := w.options.Client.WriteStatus(ctx, d.report.Patch, d.status)
	w.options.Metrics.wroteStatus(err)
	if err == nil && version != d.report.Patch.ResourceVersion {
		d.record.over, d.record.version = d.report.Patch.ResourceVersion, version
	}
	return err
}

// record notes how a write ended.
func (w *Writer) record(d due, now time.Time, err error) {
	d.record.written, d.record.next = now, now.Add(w.options.Gap)
	failure := ""
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // those are gone
		failure = err.Error()
		w.complete = false
	}
	if failure != "" && failure != d.record.failure {
		w.options.Logger.Error(err, "Cannot write the status", "patch", d.report.Patch.Name)
	}
	d.record.failure = failure
}

type apiClient struct {
	patches dynamic.ResourceInterface
	events  kubernetes.Interface
}

// NewClient returns a client that needs the verbs patch for resourceslicepatches/status
// and create for events.
func NewClient(config *rest.Config) (Client, error) {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for ResourceSlicePatches: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for events: %w", err)
	}
	return apiClient{untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)), typed}, nil
}

// WriteStatus sends a merge patch, in which a list replaces the list and null removes.
func (c apiClient) WriteStatus(ctx context.Context, p *v1alpha1.ResourceSlicePatch, status v1alpha1.ResourceSlicePatchStatus) (string, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{
			"conditions": status.Conditions, "matchedSlices": status.MatchedSlices, "matchedDevices": status.MatchedDevices,
			"skippedKeys": status.SkippedKeys,
		},
	})
	if err != nil {
		return "", err
	}
	written, err := c.patches.Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	if err != nil {
		return "", err
	}
	return written.GetResourceVersion(), nil
}

func (c apiClient) CreateEvent(ctx context.Context, e *corev1.Event) error {
	_, err := c.events.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{FieldManager: FieldManager})
	return err
}

// Written is how far a patch is written into slices, where that is done. The zero value is
// a patch that is in all of them, or a cluster in which that is not done.
type Written struct {
	// Differing is the number of slices that do not have it yet, Left of those that still have it although they
	// should not.
	Differing, Left int
	// Refused is the number of slices that are published without patches, which would
	// break a limit, Why what is wrong with one.
	Refused int
	Why     string
	// Blocked is the number of values that are not written into devices, What says why of
	// one.
	Blocked int
	What    string
	// Values is the number of values that slices have, or should have.
	Values int
	// Elsewhere is what else applies patches, so that none is written, or "".
	Elsewhere string
}

// Reasons of Applied where patches are written into slices.
const (
	// ReasonNotWritten: slices do not have it yet, or still have it.
	ReasonNotWritten = "NotWritten"
	// ReasonRefused: slices cannot have it.
	ReasonRefused = "Refused"
	// ReasonTwoModes: a scheduler applies patches, too.
	ReasonTwoModes = "TwoModes"
)

func (w Written) applied(c metav1.Condition) metav1.Condition {
	if c.Status != metav1.ConditionTrue {
		return c
	}
	switch {
	case w.Elsewhere != "":
		return condition(v1alpha1.PatchApplied, false, ReasonTwoModes, "ResourceSlices are not written: "+w.Elsewhere)
	case w.Refused > 0:
		return condition(v1alpha1.PatchApplied, false, ReasonRefused, fmt.Sprintf("%d ResourceSlices cannot have it: %s", w.Refused, w.Why))
	case w.Blocked > 0 && w.Values == 0:
		return condition(v1alpha1.PatchApplied, false, ReasonRefused, fmt.Sprintf("none of its %d values can be written into slices, such as %s", w.Blocked, w.What))
	case w.Differing > 0:
		return condition(v1alpha1.PatchApplied, false, ReasonNotWritten, fmt.Sprintf("%d ResourceSlices do not have it yet", w.Differing))
	case w.Left > 0:
		return condition(v1alpha1.PatchApplied, false, ReasonNotWritten, fmt.Sprintf("%d ResourceSlices still have it", w.Left))
	}
	return c
}

func (w Written) conflicting(c metav1.Condition) metav1.Condition {
	if c.Status == metav1.ConditionTrue || w.Blocked == 0 {
		return c
	}
	return condition(v1alpha1.PatchConflicting, true, string(patch.LimitReached), fmt.Sprintf("%d values cannot be written into slices, such as %s", w.Blocked, w.What))
}
