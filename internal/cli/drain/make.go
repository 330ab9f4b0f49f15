package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	selectorcel "github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// wanted is the drain that arguments and flags ask for.
func (o drainOptions) wanted(streams cmdutil.Streams, found *clusterread.Snapshot, args []string) (*v1alpha1.DeviceDrain, error) {
	selects := o.selector != "" || o.driver != "" || o.pool != ""
	if selects == (len(args) > 0 || o.labels != "") {
		return nil, errors.New("name devices as DRIVER/POOL/DEVICE, node/NAME, claim/NAME or pod/NAME, or select them with --node-selector, or --selector, --driver and --pool; see 'dra-steward drain --help'")
	}
	d := &v1alpha1.DeviceDrain{}
	if selects {
		d.Spec.Selector = o.drainSelector()
	}
	names, err := o.named(streams, found, args)
	if err != nil {
		return nil, err
	}
	d.Spec.Devices = names
	if o.key != "" || o.value != "" {
		d.Spec.Cordon = &v1alpha1.DrainCordon{Key: o.key, Value: o.value}
	}
	if d.Name = o.name; d.Name == "" {
		d.Name = clusterwrite.DrainName(d.Spec)
	}
	return d, o.Set(d, func(string) bool { return true })
}

// named are the devices that arguments and --node-selector name, each once.
func (o drainOptions) named(streams cmdutil.Streams, found *clusterread.Snapshot, args []string) (names []v1alpha1.DeviceName, _ error) {
	namespace, err := o.read.Client.Namespace()
	if err != nil {
		return nil, err
	}
	scope := found.Scope(namespace)
	if o.labels != "" {
		nodes, err := clusterread.NodesWith(found.Nodes, o.labels)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		of, err := scope.OfNodes(nodes...)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		for _, id := range scope.Devices(of) {
			names = append(names, v1alpha1.DeviceName(id))
		}
	}
	for _, arg := range args {
		if kind, _, has := strings.Cut(arg, "/"); has && taints.Kinds()[kind] != "" {
			of, err := scope.Resolve(arg)
			if err != nil {
				return nil, err
			}
			for _, id := range scope.Devices(of) {
				names = append(names, v1alpha1.DeviceName(id))
			}
			continue
		}
		id, published, err := scope.Device(arg)
		if err != nil {
			return nil, err
		}
		if !published {
			printable.Printf(streams.Err, "warning: no ResourceSlice has the device %s\n", id)
		}
		names = append(names, v1alpha1.DeviceName(id))
	}
	slices.SortFunc(names, func(a, b v1alpha1.DeviceName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names), nil
}

// selectsLabels reports whether a selector is one of labels, as --selector of kubectl is, and no
// expression.
func selectsLabels(selector string) bool {
	requirements, err := labels.ParseToRequirements(selector)
	return err == nil && len(requirements) > 0 && (&selectorcel.Compiler{}).Compile(selector, dracel.Options{}).Error != nil
}

func (o drainOptions) drainSelector() *v1alpha1.DrainSelector {
	s := &v1alpha1.DrainSelector{}
	if o.driver != "" {
		s.Driver = &o.driver
	}
	if o.pool != "" {
		s.Pool = &o.pool
	}
	if o.selector != "" {
		s.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: o.selector}}}
	}
	return s
}

// createOrResume creates the drain; if it exists, the given settings are written and a pause
// ends.
func (o drainOptions) createOrResume(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient, wanted *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	made, err := client.Create(ctx, wanted, false)
	if err == nil {
		printable.Printf(streams.Out, "devicedrain %s created\n", made.Name)
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, clusterwrite.DrainError(err)
	}
	var result *v1alpha1.DeviceDrain
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // with the status that the controller writes
		result, err = o.resumeExisting(ctx, streams, client, wanted)
		return err
	})
	return result, err
}

// checkKept refuses flags with another value than the drain has had since it was created.
func (o drainOptions) checkKept(stored *v1alpha1.DeviceDrain) error {
	cordon := ptr.Deref(stored.Spec.Cordon, v1alpha1.DrainCordon{})
	for _, kept := range []struct{ flag, given, has string }{
		{"--cordon-key", o.key, cmp.Or(cordon.Key, v1alpha1.DrainTaintKey)},
		{"--cordon-value", o.value, cmp.Or(cordon.Value, stored.Name)},
		{"--reason", o.reason, stored.Annotations[v1alpha1.ReasonAnnotation]},
		{"--ticket", o.ticket, stored.Annotations[v1alpha1.TicketAnnotation]},
	} {
		if kept.given != "" && kept.given != kept.has {
			return fmt.Errorf("DeviceDrain %s already exists with %s %q, which stays as it was created: leave the flag out, or choose another --name", stored.Name, kept.flag, kept.has)
		}
	}
	return nil
}

// resumeExisting writes the given settings into the drain that exists, which goes on.
func (o drainOptions) resumeExisting(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient, wanted *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	stored, err := client.Get(ctx, wanted.Name)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(stored.Spec.Devices, wanted.Spec.Devices) || !equality.Semantic.DeepEqual(stored.Spec.Selector, wanted.Spec.Selector) {
		return nil, fmt.Errorf("DeviceDrain %s already exists for other devices: choose another --name", wanted.Name)
	}
	if stored.Status.CompletionTime != nil && (stored.Spec.AtEnd == v1alpha1.EndUncordon || stored.Spec.WithoutCordon) {
		return nil, fmt.Errorf("DeviceDrain %s has ended at %s and keeps no pods off its devices since: delete it (dra-steward drain --cancel %[1]s) to drain them again, or choose another --name",
			stored.Name, stored.Status.CompletionTime.UTC().Format(time.RFC3339))
	}
	if err := o.checkKept(stored); err != nil {
		return nil, err
	}
	resumed := stored.DeepCopy()
	resumed.Spec.Paused = false
	if err := o.Set(resumed, o.changed); err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(resumed.Spec, stored.Spec) && equality.Semantic.DeepEqual(resumed.Annotations, stored.Annotations) {
		printable.Printf(streams.Out, "devicedrain %s already exists: %s\n", stored.Name, clusterwrite.Progress(stored))
		return stored, nil
	}
	resumed, err = client.Update(ctx, resumed, false)
	if err == nil {
		printable.Printf(streams.Out, "devicedrain %s resumed: %s\n", resumed.Name, clusterwrite.Progress(resumed))
	}
	return resumed, err
}
