package clusterwrite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
)

// A Drain has the settings of a drain other than its devices, as the flags of drain do.
type Drain struct {
	Rate, PerNamespace, PerNode int32
	Order                       []string
	Via                         string
	Deadline                    time.Duration
	// Action is that at the deadline.
	Action       string
	Windows      []string
	Acknowledged string
	// EvictBare also evicts pods without a controller.
	EvictBare, WithPartitions, WithoutCordon, Uncordon bool
}

// Set writes the settings whose flags were given.
func (o Drain) Set(d *v1alpha1.DeviceDrain, given func(flag string) bool) error {
	s := &d.Spec
	if given("rate") {
		s.EvictionsPerMinute = &o.Rate
	}
	if given("max-per-namespace") {
		s.MaxPerNamespace = limit(o.PerNamespace)
	}
	if given("max-per-node") {
		s.MaxPerNode = limit(o.PerNode)
	}
	if given("order") && len(o.Order) > 0 {
		s.Order = nil
		for _, criterion := range o.Order {
			s.Order = append(s.Order, v1alpha1.DrainOrder(criterion))
		}
	}
	if given("via") && o.Via != "" {
		s.Via = v1alpha1.DrainVia(o.Via)
	}
	if given("deadline") {
		s.Deadline = o.deadline()
	}
	if given("window") {
		if err := o.SetWindows(s); err != nil {
			return err
		}
	}
	if given("evict-pods-without-controller") {
		s.PodsWithoutController = only(o.EvictBare, v1alpha1.EvictPods)
	}
	if given("with-partitions") {
		s.WithPartitions = o.WithPartitions
	}
	if given("without-cordon") {
		s.WithoutCordon = o.WithoutCordon
	}
	if given("uncordon") {
		s.AtEnd = only(o.Uncordon, v1alpha1.EndUncordon)
	}
	if given("acknowledge") && o.Acknowledged != "" {
		if _, err := guard.ParseCeiling(o.Acknowledged); err != nil {
			return fmt.Errorf("--acknowledge: %w", err)
		}
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AcknowledgementAnnotation, o.Acknowledged)
	}
	return nil
}

// deadline is that of --deadline, nil for 0.
func (o Drain) deadline() *v1alpha1.DrainDeadline {
	if o.Deadline == 0 {
		return nil
	}
	return &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: o.Deadline}, Action: v1alpha1.DeadlineAction(o.Action)}
}

// only is a value for a flag that is true, and the default for one that is false.
func only[T ~string](set bool, value T) T {
	if set {
		return value
	}
	return ""
}

// limit is the value of a flag of which 0 is no limit.
func limit(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// SetWindows writes the windows of --window; an empty one removes those before it.
func (o Drain) SetWindows(s *v1alpha1.DeviceDrainSpec) error {
	s.Windows = nil
	for _, text := range o.Windows {
		if text == "" {
			s.Windows = nil
			continue
		}
		w, err := windows.Parse(text)
		if err != nil {
			return fmt.Errorf("--window: %w", err)
		}
		s.Windows = append(s.Windows, w)
	}
	return nil
}

// DrainName names a drain by what it drains, so that the same command finds it again.
func DrainName(spec v1alpha1.DeviceDrainSpec) string {
	first := "devices"
	if len(spec.Devices) == 1 {
		first = spec.Devices[0].Device
	}
	text, _ := json.Marshal([]any{spec.Devices, spec.Selector}) // they are plain strings
	sum := sha256.Sum256(text)
	return first[:min(len(first), 50)] + "-" + hex.EncodeToString(sum[:4])
}

// Note writes into a drain who creates it, and why. A user whose name cannot be read has none.
func Note(ctx context.Context, client kubernetes.Interface, d *v1alpha1.DeviceDrain, reason, ticket string) error {
	user, err := User(ctx, client)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return err
	}
	for annotation, text := range map[string]string{v1alpha1.OwnerAnnotation: user, v1alpha1.ReasonAnnotation: reason, v1alpha1.TicketAnnotation: ticket} {
		if text != "" {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, annotation, text)
		}
	}
	return nil
}

// Progress says in a line how far a drain has come.
func Progress(d *v1alpha1.DeviceDrain) string {
	n := d.Status.Counts
	state := "waiting for the controller"
	for _, kind := range []string{v1alpha1.DrainDrained, v1alpha1.DrainFailed, v1alpha1.DrainBlocked} {
		if c := meta.FindStatusCondition(d.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return fmt.Sprintf("%s, %d evicted, %d left: %s", c.Type, n.Evicted+n.Deleted, n.Remaining, c.Message)
		}
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainDraining); c != nil {
		state = c.Reason
		if state == v1alpha1.OutsideWindow || state == v1alpha1.WindowNotValid {
			state += " (" + c.Message + ")"
		}
	}
	return fmt.Sprintf("%s, %d evicted, %d left (%d leaving, %d waiting)", state, n.Evicted+n.Deleted, n.Remaining, n.Leaving, n.Waiting)
}

// DrainError adds the remedy where the type is missing.
func DrainError(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not know DeviceDrains: install the chart with crds.install (%w)", err)
	}
	return err
}

// Pauses reports whether a write makes a drain pause or go on. It does so for one that is paused by a reaction or a roll,
// which would let it go on.
func Pauses(d *v1alpha1.DeviceDrain, paused bool) bool {
	return d.Spec.Paused != paused || paused && d.Annotations[v1alpha1.PausedByAnnotation] != ""
}

// Pause pauses a drain until a user lets it go on, or makes it go on. One that is so already is not written. The controller
// writes its status at the same time: a conflict with that is tried again.
func Pause(ctx context.Context, client *ownclient.DrainClient, name string, paused, dry bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := client.Get(ctx, name)
		if err != nil || !Pauses(d, paused) {
			return err
		}
		if d.Spec.Paused = paused; paused {
			delete(d.Annotations, v1alpha1.PausedByAnnotation)
		}
		_, err = client.Update(ctx, d, dry)
		return err
	})
}
