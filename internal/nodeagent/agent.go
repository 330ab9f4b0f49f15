package nodeagent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// How often a node is looked at: regularly, and when something has changed, but not
// without a pause. That is under 1 % of the calls that the kubelet allows all clients.
const (
	DefaultInterval = 15 * time.Second
	pause           = time.Second
	// kubeletTime is how long the kubelet may take to answer, claimsTime how long the claims of all pods
	// may: a source that hangs must not stop the agent.
	kubeletTime = 15 * time.Second
	claimsTime  = time.Minute
)

// Options are what an Agent needs. NodeView and Kubelet are required.
type Options struct {
	NodeView *NodeView
	Kubelet  *podresources.Client
	// Checkpoint and Plugins are the files of the kubelet; empty leaves them out.
	Checkpoint, Plugins string
	// Registry is the folder of the sockets at which plugins register with the kubelet; empty
	// leaves it out.
	Registry string
	// CDI says where the container runtime reads specifications.
	CDI cdi.Options
	// Runtime is the CRI socket of the container runtime, to ask whether it applies CDI
	// ids; empty asks no runtime.
	Runtime string
	// Interval is the time between looks; zero means DefaultInterval.
	Interval time.Duration
	// Attributes are the attributes of devices that holdings have, at most maxAttributes.
	Attributes []string
	// Events gets an event for each new finding, on the pod or, without one, on the node; nil for none.
	Events record.EventRecorder
	// Node is the name of the node, for events.
	Node    string
	Metrics *Metrics
	Log     logr.Logger
}

// An Observation is what a look at the node found.
type Observation struct {
	At       time.Time
	Holdings []podresources.Holding
	// Attributes are those of Options.Attributes that the devices of Holdings have.
	Attributes map[Device]map[string]string
	Taints     []HeldTaint
	Findings   []Finding
	// Sources says of each source that is switched on whether it could be read.
	Sources map[string]bool
	// Stale: the kubelet did not list its pods yet.
	Stale bool
	// Bytes is the size of the kubelet's answer; zero if there was none. tooManyBytes if it was too large
	// to be read.
	Bytes int
}

// A Device is the name of a device.
type Device struct{ Driver, Pool, Name string }

// ofPlugin reports whether a holding is that of a device plugin.
func ofPlugin(h podresources.Holding) bool { return h.Claim == "" }

func deviceOf(h podresources.Holding) Device { return Device{h.Driver, h.Pool, h.Device} }

// A HeldTaint is a taint of a device that a container holds.
type HeldTaint struct {
	podresources.Holding
	Taint     resourceapi.DeviceTaint
	Tolerated bool
	// of is the index of the holding in those of the Observation.
	of int
}

// An Agent looks at one node.
type Agent struct {
	Options
	since    map[Finding]time.Time // finding -> when it was seen first
	reported map[Finding]bool      // those that have an event
	admin    map[string]bool       // claim UID and device -> held with adminAccess
	unread   map[string]string     // source that cannot be read -> the error that is logged

	listing *podresources.Listing // the last one that counts

	kubeletTime, claimsTime time.Duration
	newWatcher              func() (*fsnotify.Watcher, error)
}

// NewAgent returns an agent.
func NewAgent(o Options) *Agent {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	return &Agent{Options: o, since: map[Finding]time.Time{}, reported: map[Finding]bool{}, admin: map[string]bool{}, unread: map[string]string{},
		kubeletTime: kubeletTime, claimsTime: claimsTime, newWatcher: fsnotify.NewWatcher}
}

// Run looks at the node until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	watcher, files := a.watchFiles()
	if watcher != nil {
		defer watcher.Close()
	}
	if err := a.NodeView.wait(ctx); err != nil {
		return err
	}
	for {
		if err := a.replaced(); err != nil {
			return err
		}
		a.watch(watcher)
		select {
		case <-files: // what is looked at now
		default:
		}
		a.Collect(ctx, time.Now())
		if !wait(ctx, pause, nil, nil) {
			return nil
		}
		// Agents of a thousand nodes do not look at the same time.
		next := a.Interval + rand.N(a.Interval/5+1)
		if !wait(ctx, next, files, a.NodeView.changed) {
			return nil
		}
	}
}

// changes returns a channel that has one value once files have changed, however many. It reads the
// watcher until that is closed.
func changes(watcher *fsnotify.Watcher) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for open := true; open; {
			select {
			case _, open = <-watcher.Events:
			case _, open = <-watcher.Errors: // after an overflow, events are lost
			}
			reconcile.Wake(changed)
		}
	}()
	return changed
}

// wait waits for a time or an event, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration, files, objects <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-files:
	case <-objects:
	}
	return true
}

// folders are what files are read from, for this process.
func (a *Agent) folders() (all []string) {
	dirs := a.CDI.Dirs
	if len(dirs) == 0 {
		dirs = cdi.DefaultDirs()
	}
	for _, dir := range dirs {
		if real, err := cdi.HostPath(cmp.Or(a.CDI.HostRoot, "/"), dir); err == nil {
			all = append(all, real)
		}
	}
	for _, file := range []string{a.Checkpoint, a.Plugins} {
		if file != "" {
			all = append(all, filepath.Dir(file))
		}
	}
	return all
}

// replaced is an error if a folder was removed on the node since it was mounted here: what
// is in the new one of that name cannot be seen until the container starts again.
func (a *Agent) replaced() error {
	for _, dir := range a.folders() {
		if info, err := os.Stat(dir); err == nil && isRemoved(info) {
			return fmt.Errorf("%s was removed on the node after it was mounted here; a new start of the container mounts the new one", dir)
		}
	}
	return nil
}

// watchFiles returns a watcher and what it has to say. Processes of user 0 share the inotify instances of a node: without one,
// both are nil, and the agent looks at the files at each interval.
func (a *Agent) watchFiles() (*fsnotify.Watcher, <-chan struct{}) {
	watcher, err := a.newWatcher()
	if err != nil {
		a.Log.Error(err, "Cannot watch files; looking at them at each interval", "interval", a.Interval)
		return nil, nil
	}
	return watcher, changes(watcher)
}

// watch watches the folders that there are; one that comes later is found by a look.
func (a *Agent) watch(watcher *fsnotify.Watcher) {
	if watcher == nil {
		return
	}
	for _, dir := range a.folders() {
		_ = watcher.Add(dir) // absent, or watched already
	}
}

// Collect reads everything once, and sets metrics and events. What cannot be read is
// noted, not returned: the rest still counts.
func (a *Agent) Collect(ctx context.Context, now time.Time) *Observation {
	report := &Observation{At: now, Sources: map[string]bool{}}
	in := a.read(ctx, now, report)
	if in.Listing == nil || podresources.Missing(in.Input) != "" {
		// That says nothing about who holds what; the last answer does, for the pods
		// that there still are.
		report.Stale = true
		in.Listing = still(a.listing, in.Pods)
	}
	a.listing = in.Listing
	a.fill(report, in.Input)
	a.remember(report.Holdings)
	report.Findings = a.lasting(Check(in, report.Holdings), now)
	a.createEvents(in.Pods, report.Findings)
	if a.Metrics != nil {
		a.Metrics.report.Store(report)
	}
	return report
}

// still returns the pods of an earlier listing that the API server still has.
func still(listing *podresources.Listing, pods []*corev1.Pod) *podresources.Listing {
	if listing == nil {
		return nil
	}
	kept := *listing
	kept.Pods = slices.DeleteFunc(slices.Clone(listing.Pods), func(listed *v1.PodResources) bool {
		return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return p.Name == listed.GetName() && p.Namespace == listed.GetNamespace()
		})
	})
	return &kept
}

// fill adds to an observation who holds what, with the taints and attributes of the devices. A
// taint without a time counts from now on: its toleration does not end.
func (a *Agent) fill(report *Observation, in podresources.Input) {
	report.Holdings, report.Attributes = podresources.Attribute(in), map[Device]map[string]string{}
	for i, h := range report.Holdings {
		if ofPlugin(h) {
			continue
		}
		report.Attributes[deviceOf(h)] = a.NodeView.Attributes(h.Driver, h.Pool, h.Device, a.Attributes)
		for _, taint := range a.NodeView.Taints(h.Driver, h.Pool, h.Device) {
			report.Taints = append(report.Taints, HeldTaint{h, taint, isTolerated(h.Tolerations, taint, report.At), i})
		}
	}
}

// isTolerated reports whether tolerations match a taint and their seconds have not passed.
func isTolerated(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint, now time.Time) bool {
	added := now
	if taint.TimeAdded != nil {
		added = taint.TimeAdded.Time
	}
	period := toleration.Evaluator{}.Evaluate(tolerations, taint)
	return period.Forever() || period.Tolerated && int64(now.Sub(added)/time.Second) < *period.Seconds
}

func adminKey(h podresources.Holding) string {
	return string(h.ClaimUID) + "/" + h.Driver + "/" + h.Pool + "/" + h.Device
}

// remember notes adminAccess for as long as the claim is held.
func (a *Agent) remember(holdings []podresources.Holding) {
	held := map[string]bool{}
	for _, h := range holdings {
		if ofPlugin(h) {
			continue
		}
		key := adminKey(h)
		held[key] = h.Source == podresources.FromClaim && h.AdminAccess || a.admin[key] || held[key]
	}
	a.admin = held
}

// lasting returns the findings that last for as long as their kind must.
func (a *Agent) lasting(findings []Finding, now time.Time) (lasting []Finding) {
	delays := map[string]time.Duration{}
	for _, kind := range Kinds() {
		delays[kind.ID] = kind.Delay
	}
	since := map[Finding]time.Time{}
	for _, f := range findings {
		since[f] = now
		if first, seen := a.since[f]; seen {
			since[f] = first
		}
		if now.Sub(since[f]) >= delays[f.Kind] {
			lasting = append(lasting, f)
		}
	}
	a.since = since
	return lasting
}

// createEvents creates an event for each new finding, on the pod or, if it is gone, on the node.
func (a *Agent) createEvents(pods []*corev1.Pod, findings []Finding) {
	reported := map[Finding]bool{}
	for _, f := range findings {
		reported[f] = true
		if a.reported[f] {
			continue
		}
		a.Log.Info("found", "kind", f.Kind, "namespace", f.Namespace, "pod", f.Pod, "container", f.Container, "message", f.Message)
		if a.Events == nil {
			continue
		}
		// The UID is that of the kubelet's own events, which kubectl describe node looks for.
		var about runtime.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Node, UID: types.UID(a.Node)}}
		if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == f.PodUID }); i >= 0 {
			about = pods[i]
		}
		kind := kindOf(f.Kind)
		a.Events.Event(about, corev1.EventTypeWarning, kind.Event, kind.withRemedy(f.Message))
	}
	a.reported = reported
}

func kindOf(id string) Kind {
	for _, k := range Kinds() {
		if k.ID == id {
			return k
		}
	}
	return Kind{ID: id, Event: id}
}

// withRemedy adds the remedy to a message.
func (k Kind) withRemedy(message string) string {
	if k.Remedy == "" {
		return message
	}
	return message + "; remedy: " + k.Remedy
}
