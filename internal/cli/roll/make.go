package roll

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// wanted is the roll that arguments and flags ask for.
func (o *options) wanted(args []string) (*v1alpha1.DeviceRoll, error) {
	r := &v1alpha1.DeviceRoll{}
	if len(args) > 0 {
		r.Spec.Driver = args[0]
	}
	if err := errors.Join(o.setWork(&r.Spec), o.setNodes(&r.Spec), o.set(r)); err != nil {
		return nil, err
	}
	if r.Name = o.name; r.Name == "" {
		r.Name = nameOf(r.Spec)
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

// set writes the settings whose flags were given.
func (o *options) set(r *v1alpha1.DeviceRoll) error {
	s := &r.Spec
	if o.changed("at-a-time") {
		s.AtATime = &o.atATime
	}
	if o.changed("per-label") {
		s.PerLabel = o.perLabel
	}
	if o.changed("canary") {
		s.Canary = o.canary
	}
	for i, into := range []**metav1.Duration{&s.Timeouts.Drain, &s.Timeouts.Driver, &s.Timeouts.Work, &s.Timeouts.Proof} {
		if !o.changed(steps()[i] + "-timeout") {
			continue
		}
		if *into = nil; o.timeouts[i] != 0 {
			*into = &metav1.Duration{Duration: o.timeouts[i]}
		}
	}
	return errors.Join(o.setProof(s), o.setDrain(r))
}

func (o *options) setProof(s *v1alpha1.DeviceRollSpec) error {
	if !slices.ContainsFunc([]string{"proof-namespace", "proof-class", "proof-image", "proof-command"}, o.changed) {
		return nil
	}
	proof := o.proof
	if proof.Namespace == "" || proof.DeviceClassName == "" || proof.Image == "" {
		return errors.New("--proof-namespace, --proof-class, --proof-image: a proof needs all three")
	}
	if s.Proof != nil && !o.changed("proof-command") {
		proof.Command = s.Proof.Command
	}
	s.Proof = &proof
	return nil
}

// setDrain writes how the devices are drained, as the flags of drain have it.
func (o *options) setDrain(r *v1alpha1.DeviceRoll) error {
	s := &r.Spec.Drain
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Annotations: r.Annotations}, Spec: s.Of()}
	if err := o.Set(d, o.changed); err != nil {
		return err
	}
	r.Annotations = d.Annotations
	s.EvictionsPerMinute, s.PodsWithoutController = d.Spec.EvictionsPerMinute, d.Spec.PodsWithoutController
	s.WithPartitions, s.Windows = d.Spec.WithPartitions, d.Spec.Windows
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

// create creates a roll, or goes on with one that exists.
func (o *options) create(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, wanted *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	made, err := client.CreateRoll(ctx, wanted, false)
	if err == nil {
		printable.Printf(streams.Out, "deviceroll %s created\n", made.Name)
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, noType(err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // with the status that the controller writes
		made, err = o.again(ctx, streams, client, wanted)
		return err
	})
	return made, err
}

// again writes the settings whose flags were given into the roll that exists.
func (o *options) again(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, wanted *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	there, err := client.GetRoll(ctx, wanted.Name)
	if err != nil {
		return nil, err
	}
	proof := ptr.Deref(there.Spec.Proof, o.proof)
	switch {
	case there.Spec.Driver != wanted.Spec.Driver || !equality.Semantic.DeepEqual(there.Spec.Nodes, wanted.Spec.Nodes) ||
		!equality.Semantic.DeepEqual(there.Spec.DriverPods, wanted.Spec.DriverPods) || !equality.Semantic.DeepEqual(there.Spec.NodeWork, wanted.Spec.NodeWork):
		return nil, fmt.Errorf("DeviceRoll %s already exists for other work: choose another --name", there.Name)
	case there.Status.CompletionTime != nil:
		return nil, fmt.Errorf("DeviceRoll %s is complete since %s: delete it (dra-steward roll --delete %[1]s) to roll again, or choose another --name", there.Name, there.Status.CompletionTime.UTC().Format(time.RFC3339))
	case o.changed("proof-namespace") && o.proof.Namespace != proof.Namespace: // the controller looks for the pods of proofs in one namespace
		return nil, fmt.Errorf("DeviceRoll %s already exists with --proof-namespace %q, which stays as it was created: leave the flag out, or choose another --name", there.Name, proof.Namespace)
	}
	changed := there.DeepCopy()
	if err := o.set(changed); err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(changed.Spec, there.Spec) && equality.Semantic.DeepEqual(changed.Annotations, there.Annotations) {
		printable.Printf(streams.Out, "deviceroll %s already exists: %s\n", there.Name, roll.Progress(there))
		return there, nil
	}
	changed, err = client.UpdateRoll(ctx, changed)
	if err == nil {
		printable.Printf(streams.Out, "deviceroll %s changed: %s\n", changed.Name, roll.Progress(changed))
	}
	return changed, err
}

// noType names the missing part where the API server does not know the type.
func noType(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: is the type DeviceRoll installed? helm installs it, with controller.rolls.enabled=true for its controller", err)
	}
	return err
}
