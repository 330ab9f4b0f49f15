package console

import (
	"context"
	"errors"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
)

// checkWrites refuses --allow-writes where nothing can be written.
func (o *options) checkWrites() error {
	switch {
	case !o.writes:
		return nil
	case o.export != "":
		return errors.New("--allow-writes: files change nothing: leave out --export, or --allow-writes")
	case o.read.Files != nil:
		return errors.New("--allow-writes: the objects of --from-files are in no cluster: leave out --from-files, or --allow-writes")
	}
	return nil
}

// A writer writes to the cluster of a kubeconfig.
type writer struct {
	config *rest.Config
	typed  kubernetes.Interface
	drains *ownclient.DrainClient
	faults clusterread.FaultCheck
}

// writer returns what writes; nil without --allow-writes.
func (o *options) writer(streams cmdutil.Streams) (console.Writer, error) {
	if !o.writes {
		return nil, nil
	}
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	return newWriter(config, o.faults)
}

func newWriter(config *rest.Config, check clusterread.FaultCheck) (*writer, error) {
	w := &writer{config: clusterwrite.Collecting(config), faults: check}
	var err error
	if w.typed, err = kubernetes.NewForConfig(w.config); err != nil {
		return nil, err
	}
	w.drains, err = ownclient.NewDrainClient(w.config)
	return w, err
}

func (w *writer) User(ctx context.Context) (string, error) { return clusterwrite.User(ctx, w.typed) }

// Faults are the warnings of the command about known faults, by line.
func (w *writer) Faults(ctx context.Context) ([]string, error) {
	var text strings.Builder
	err := w.faults.Check(ctx, cmdutil.Streams{Out: &text, Err: &text}, w.config, faults.RuleExists, false)
	if text.Len() == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(text.String(), "warning: ", "")), "\n"), err
}

// Rule finds out on each use which version of rules is served: that changes with the cluster.
func (w *writer) Rule(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error) {
	rules, err := clusterwrite.NewRules(w.config)
	if err != nil {
		return nil, err
	}
	return rules.Get(ctx, name)
}

func (w *writer) ApplyRule(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule, dry bool) (string, []string, error) {
	rules, err := clusterwrite.NewRules(w.config)
	if err != nil {
		return "", nil, err
	}
	ctx, warned := clusterwrite.Collect(ctx)
	did, err := rules.Apply(ctx, intent, stored, dry)
	return did, warned.Texts, err
}

func (w *writer) DeleteRule(ctx context.Context, stored *resourceapi.DeviceTaintRule, dry bool) ([]string, error) {
	rules, err := clusterwrite.NewRules(w.config)
	if err != nil {
		return nil, err
	}
	ctx, warned := clusterwrite.Collect(ctx)
	err = rules.Delete(ctx, stored, dry)
	return warned.Texts, err
}

func (w *writer) Drain(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	d, err := w.drains.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (w *writer) CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) ([]string, error) {
	ctx, warned := clusterwrite.Collect(ctx)
	d = d.DeepCopy()
	if err := clusterwrite.Note(ctx, w.typed, d, "", ""); err != nil {
		return nil, err
	}
	_, err := w.drains.Create(ctx, d, dry)
	return warned.Texts, err
}

func (w *writer) PauseDrain(ctx context.Context, d *v1alpha1.DeviceDrain, paused, dry bool) ([]string, error) {
	ctx, warned := clusterwrite.Collect(ctx)
	err := clusterwrite.Pause(ctx, w.drains, d.Name, paused, dry)
	return warned.Texts, err
}

func (w *writer) DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) ([]string, error) {
	ctx, warned := clusterwrite.Collect(ctx)
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.UID))}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err := w.drains.Delete(ctx, d.Name, options)
	return warned.Texts, err
}
