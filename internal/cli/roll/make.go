package roll

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/roll"
)

// wanted is the roll that arguments and flags ask for.
func (o *options) wanted(args []string) (*v1alpha1.DeviceRoll, error) {
	r := &v1alpha1.DeviceRoll{}
	if len(args) > 0 {
		r.Spec.Driver = args[0]
	}
	s := &r.Spec
	if err := errors.Join(o.setWork(s), o.setNodes(s), o.setDrain(r)); err != nil {
		return nil, err
	}
	if o.atATime != 1 {
		s.AtATime = &o.atATime
	}
	s.PerLabel, s.Canary = o.perLabel, o.canary
	if p := o.proof; p.Namespace != "" || p.DeviceClassName != "" || p.Image != "" {
		if p.Namespace == "" || p.DeviceClassName == "" || p.Image == "" {
			return nil, errors.New("--proof-namespace, --proof-class, --proof-image: a proof needs all three")
		}
		s.Proof = &p
	}
	for i, into := range []**metav1.Duration{&s.Timeouts.Drain, &s.Timeouts.Driver, &s.Timeouts.Work, &s.Timeouts.Proof} {
		if o.timeouts[i] != 0 {
			*into = &metav1.Duration{Duration: o.timeouts[i]}
		}
	}
	if r.Name = o.name; r.Name == "" {
		r.Name = nameOf(*s)
	}
	return r, nil
}

// setWork writes what is done to the nodes.
func (o *options) setWork(s *v1alpha1.DeviceRollSpec) error {
	if o.work {
		s.NodeWork = &v1alpha1.RollNodeWork{}
		kind, what, _ := strings.Cut(o.until, "=")
		key, value, has := strings.Cut(what, "=")
		switch {
		case o.until == "":
		case kind == "condition" && what != "" && !has:
			s.NodeWork.Condition = &v1alpha1.RollNodeCondition{Type: what, Status: corev1.ConditionTrue}
		case kind == "annotation" && key != "" && has:
			s.NodeWork.Annotation = &v1alpha1.RollNodeAnnotation{Key: key, Value: value}
		default:
			return fmt.Errorf("--until %s: must be condition=TYPE or annotation=KEY=VALUE", o.until)
		}
		return nil
	}
	namespace, text, has := strings.Cut(o.driverPods, "/")
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if !has || namespace == "" || err != nil || len(set) == 0 {
		return fmt.Errorf("--driver-selector %q: must be NAMESPACE/KEY=VALUE[,KEY=VALUE...], such as gpu-driver/app=gpu-driver", o.driverPods)
	}
	s.DriverPods = &v1alpha1.RollDriverPods{Namespace: namespace, Labels: set}
	if o.waitFor != "" {
		s.DriverPods.Replace = v1alpha1.ReplaceWait
	}
	return nil
}

func (o *options) setNodes(s *v1alpha1.DeviceRollSpec) error {
	switch {
	case len(o.nodes) > 0 && o.nodeLabels != "":
		return errors.New("--nodes, --node-selector: one of them")
	case len(o.nodes) > 0:
		s.Nodes = &v1alpha1.RollNodes{Names: o.nodes}
	case o.nodeLabels != "":
		set, err := labels.ConvertSelectorToLabelsMap(o.nodeLabels)
		if err != nil {
			return fmt.Errorf("--node-selector: %w", err)
		}
		s.Nodes = &v1alpha1.RollNodes{Labels: set}
	}
	return nil
}

// setDrain writes how the devices are drained, as the flags of drain have it.
func (o *options) setDrain(r *v1alpha1.DeviceRoll) error {
	d := &v1alpha1.DeviceDrain{}
	if err := o.Set(d, func(flag string) bool { return flag != "rate" || o.Rate != v1alpha1.DrainRate }); err != nil {
		return err
	}
	r.Annotations = d.Annotations
	r.Spec.Drain = v1alpha1.DrainSettings{
		EvictionsPerMinute: d.Spec.EvictionsPerMinute, PodsWithoutController: d.Spec.PodsWithoutController,
		WithPartitions: d.Spec.WithPartitions, Windows: d.Spec.Windows,
	}
	return nil
}

// nameOf names a roll by what it is about, so that the same command finds it again.
func nameOf(s v1alpha1.DeviceRollSpec) string {
	text, _ := json.Marshal([]any{s.Driver, s.DriverPods, s.NodeWork, s.Nodes}) // they are plain strings
	sum := sha256.Sum256(text)
	first := strings.ReplaceAll(s.Driver, ".", "-")
	if first == "" {
		first = "nodes"
	}
	return strings.TrimRight(first[:min(len(first), 31)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// create creates a roll, or shows the progress of one that exists.
func create(ctx context.Context, streams cmdutil.Streams, client *roll.Client, wanted *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	made, err := client.CreateRoll(ctx, wanted, false)
	if err == nil {
		fmt.Fprintf(streams.Out, "deviceroll %s created\n", made.Name)
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, noType(err)
	}
	there, err := client.GetRoll(ctx, wanted.Name)
	switch {
	case err != nil:
		return nil, err
	case there.Spec.Driver != wanted.Spec.Driver || !equality.Semantic.DeepEqual(there.Spec.Nodes, wanted.Spec.Nodes) ||
		!equality.Semantic.DeepEqual(there.Spec.DriverPods, wanted.Spec.DriverPods) || !equality.Semantic.DeepEqual(there.Spec.NodeWork, wanted.Spec.NodeWork):
		return nil, fmt.Errorf("DeviceRoll %s already exists for other work: choose another --name", wanted.Name)
	case there.Status.CompletionTime != nil:
		return nil, fmt.Errorf("DeviceRoll %s is complete since %s: delete it (dra-steward roll --delete %[1]s) to roll again, or choose another --name", wanted.Name, there.Status.CompletionTime.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(streams.Out, "deviceroll %s already exists: %s\n", there.Name, roll.Progress(there))
	return there, nil
}

// noType names the missing part where the API server does not know the type.
func noType(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: is the type DeviceRoll installed? helm installs it, with controller.rolls.enabled=true for its controller", err)
	}
	return err
}
