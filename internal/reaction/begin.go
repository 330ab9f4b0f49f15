package reaction

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// begin creates drains of the devices that wait, the one that is sick for longest first. It
// returns why nothing more begins, if the guard says so.
func (w *work) begin() string {
	going := map[scope]int{}
	for name, d := range w.known {
		if d.Drain != "" && d.State == v1alpha1.ReactionDraining {
			for _, s := range scopes(name) {
				going[s]++
			}
		}
	}
	for _, d := range w.waiting() {
		switch drain, busy := w.Others[d.DeviceName], w.busy(going, d.DeviceName); {
		case drain != "":
			d.Message = "DeviceDrain " + drain + " has the device"
		case !w.acts():
			d.Message = "in the mode Act, the reaction drains the device"
		case busy != "":
			d.Message = busy
		case len(w.Create) == maxBegins:
			d.Message = "is next"
			w.WakeAt(w.Now)
		default:
			if over := w.check(d.DeviceName); over != "" {
				d.Message = condition.Bounded("the guard: "+over, 1024)
				return over
			}
			for _, s := range scopes(d.DeviceName) {
				going[s]++
			}
			d.Drain, d.State = drainName(w.Reaction.Name, d.DeviceName), v1alpha1.ReactionDraining
			w.Create = append(w.Create, w.drainOf(d))
			if why := w.NotCreated[d.Drain]; why != "" { // tried again, and nothing is drained yet
				d.Drain, d.State, d.Message = "", v1alpha1.ReactionWaiting, condition.Bounded(why, 1024)
			}
		}
	}
	return ""
}

// waiting are the devices that are sick for long enough, and have no drain.
func (w *work) waiting() (waiting []*v1alpha1.ReactionDevice) {
	for _, name := range w.names() {
		if d := w.known[name]; d.State == v1alpha1.ReactionWaiting {
			waiting = append(waiting, d)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *v1alpha1.ReactionDevice) int { return a.SickSince.Compare(b.SickSince.Time) })
	return waiting
}

// busy returns which drains a device waits for: those that go on at a time are within the
// limits, also where an acknowledgement allows more devices.
func (w *work) busy(going map[scope]int, name v1alpha1.DeviceName) string {
	for _, s := range scopes(name) {
		if most := w.limit(s); going[s] >= most {
			return fmt.Sprintf("waits for other drains: %s %s, and the brake allows %d at a time", plural.Of(going[s], "drain"), s, most)
		}
	}
	return ""
}

// check asks the thresholds of the guard about a drain, by itself and with the evictions of the
// window. It counts for the next ones if it may begin.
func (w *work) check(name v1alpha1.DeviceName) string {
	if w.Reaction.Spec.Then.CordonOnly {
		return ""
	}
	then, object := w.Reaction.Spec.Then, v1alpha1.DeviceDrainKind+" "+drainName(w.Reaction.Name, name)
	hit, perMinute := w.Hit(name), int(ptr.Deref(then.EvictionsPerMinute, 0))
	over, until := w.Window.Refuse(w.Now, guard.Step{
		Object: object, Does: "a drain of " + name.String(), Hit: hit, PerMinute: perMinute, Acknowledged: w.acknowledged, Annotate: "the reaction",
		Begins: windows.Begins(then.Windows, w.Now),
	}, w.Begun.With(w.began))
	if !until.IsZero() {
		w.WakeAt(until)
	}
	if over != "" {
		w.reason, w.message = v1alpha1.PausedGuard, over
		return over
	}
	w.began = append(w.began, guard.Start{Object: object, Time: w.Now, Hit: hit.Pace(perMinute, w.Window.Length)})
	return ""
}

// drainName is the name of the drain of a device: that of the reaction and a hash.
func drainName(reaction string, name v1alpha1.DeviceName) string {
	sum := sha256.Sum256([]byte(name.String()))
	return reaction + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}

func (w *work) drainOf(d *v1alpha1.ReactionDevice) *v1alpha1.DeviceDrain {
	then := w.Reaction.Spec.Then
	drain := &v1alpha1.DeviceDrain{
		ObjectMeta: metav1.ObjectMeta{Name: d.Drain, Labels: map[string]string{v1alpha1.ReactionLabel: w.Reaction.Name}, Annotations: map[string]string{
			v1alpha1.OwnerAnnotation: v1alpha1.DeviceReactionKind + "/" + w.Reaction.Name, v1alpha1.ReasonAnnotation: d.Cause,
		}},
		Spec: v1alpha1.DeviceDrainSpec{
			Devices: []v1alpha1.DeviceName{d.DeviceName}, Paused: then.CordonOnly, WithPartitions: then.WithPartitions, Via: then.Via,
			EvictionsPerMinute: then.EvictionsPerMinute, MaxPerNamespace: then.MaxPerNamespace, Order: then.Order,
			PodsWithoutController: then.PodsWithoutController, Windows: then.Windows, Deadline: then.Deadline, AtEnd: v1alpha1.EndHold,
		},
	}
	if ceiling, has := w.Reaction.Annotations[v1alpha1.AcknowledgementAnnotation]; has && w.wrong == "" {
		drain.Annotations[v1alpha1.AcknowledgementAnnotation] = ceiling
	}
	return drain
}
