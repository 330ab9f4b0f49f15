package nodeagent

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// tooManyBytes is the size of an answer that has more than podresources reads.
const tooManyBytes = 32<<20 + 1

// Read reads what the corrected PodResources server needs. Claims that cannot be read are as
// they were: see Input.AsOf.
func (a *Agent) Read(ctx context.Context) (podresources.Input, error) {
	if err := a.NodeView.Ready(); err != nil {
		return podresources.Input{}, err
	}
	now := time.Now()
	listing, err := a.list(ctx, now)
	if err != nil {
		return podresources.Input{}, err
	}
	in := podresources.Input{Listing: listing, Pods: a.NodeView.Pods()}
	in.Claims, in.AsOf, err = a.claims(ctx, in.Pods, now)
	if err != nil {
		asOf := "never"
		if !in.AsOf.IsZero() {
			asOf = in.AsOf.UTC().Format(time.RFC3339)
		}
		a.Log.Error(err, "claims cannot be read; those read before count", "asOf", asOf)
	}
	if a.Checkpoint != "" {
		in.Checkpoint, err = checkpoint.ReadDRA(a.Checkpoint)
		return in, err
	}
	return in, nil
}

// read reads all sources and notes in the report which of them could be read.
func (a *Agent) read(ctx context.Context, now time.Time, report *Observation) Input {
	in := Input{Now: now, Registered: a.registered(ctx), WasAdmin: func(h podresources.Holding) bool { return a.admin[adminKey(h)] }}
	note := func(source string, err error) {
		report.Sources[source] = err == nil
		a.say(source, err)
	}
	var err error
	in.Listing, err = a.list(ctx, now)
	note("podresources", err)
	switch in.TooLarge = errors.Is(err, podresources.ErrTooLarge); {
	case in.TooLarge:
		report.Bytes = tooManyBytes
	case in.Listing != nil:
		report.Bytes = in.Listing.Bytes
	}
	in.Pods = a.NodeView.Pods()
	in.Claims, in.AsOf, err = a.claims(ctx, in.Pods, now)
	in.Unread = err != nil
	note("api", err)
	if a.Checkpoint != "" {
		in.Checkpoint, err = checkpoint.ReadDRA(a.Checkpoint)
		note("checkpoint", err)
	}
	if a.Plugins != "" {
		in.Plugins, err = checkpoint.ReadDevicePlugins(a.Plugins)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the kubelet makes it when the first plugin registers
		}
		note("device-plugins", err)
	}
	options := a.CDI
	if a.Runtime != "" {
		options, err = WithRuntime(ctx, a.Runtime, a.CDI)
		note("runtime", err)
	}
	registry, err := cdi.Read(options)
	note("cdi", err)
	if err != nil {
		in.Check = func(id string) cdi.Result { return cdi.Result{ID: id} }
		return in
	}
	in.Check = remembered(registry.Check)
	return in
}

// remembered checks each id once: it may be in many hands.
func remembered(check func(id string) cdi.Result) func(id string) cdi.Result {
	known := map[string]cdi.Result{}
	return func(id string) cdi.Result {
		if _, ok := known[id]; !ok {
			known[id] = check(id)
		}
		return known[id]
	}
}

// list returns what the kubelet says about its pods.
func (a *Agent) list(ctx context.Context, now time.Time) (*podresources.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, a.kubeletTime)
	defer cancel()
	return a.Kubelet.List(ctx, now)
}

// claims returns the claims of pods, see NodeView.Claims.
func (a *Agent) claims(ctx context.Context, pods []*corev1.Pod, now time.Time) (all []*resourceapi.ResourceClaim, asOf time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.claimsTime)
	defer cancel()
	return a.NodeView.Claims(ctx, pods, now)
}

// say logs what is new about a source: another look in which it cannot be read for the same
// reason is no news.
func (a *Agent) say(source string, err error) {
	before, failed := a.unread[source]
	switch {
	case err == nil && failed:
		a.Log.Info("source can be read again", "source", source)
		delete(a.unread, source)
	case err != nil && before != err.Error():
		a.Log.Error(err, "source cannot be read", "source", source)
		a.unread[source] = err.Error()
	}
}

// Holdings are an Observation for people and programs: dra-steward node holdings -o json.
type Holdings struct {
	Node string    `json:"node"`
	At   time.Time `json:"at"`
	// Stale is true while the kubelet has just started and does not list its pods yet.
	Stale    bool         `json:"stale,omitempty"`
	Holdings []HeldDevice `json:"holdings"`
}

// A HeldDevice is a device with its holder, taints and attributes.
type HeldDevice struct {
	podresources.Holding
	// Attributes are those of --attributes, by the names that it has.
	Attributes map[string]string `json:"attributes,omitempty"`
	Taints     []TaintOfHolder   `json:"taints,omitempty"`
}

// A TaintOfHolder is a taint in kubectl's notation, and whether the request tolerates it now.
type TaintOfHolder struct {
	Taint     string `json:"taint"`
	Tolerated bool   `json:"tolerated"`
}

// Report returns the holdings of an observation of a node.
func (o *Observation) Report(node string) Holdings {
	report := Holdings{Node: node, At: o.At.UTC().Truncate(time.Second), Stale: o.Stale, Holdings: []HeldDevice{}}
	for _, h := range o.Holdings {
		held := HeldDevice{Holding: h}
		if !ofPlugin(h) {
			held.Attributes = o.Attributes[deviceOf(h)]
		}
		report.Holdings = append(report.Holdings, held)
	}
	for _, t := range o.Taints {
		held, taint := &report.Holdings[t.of], TaintOfHolder{toleration.TaintText(t.Taint), t.Tolerated}
		if !slices.Contains(held.Taints, taint) {
			held.Taints = append(held.Taints, taint)
		}
	}
	return report
}
