package clusterwrite

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// A Taint has the settings of a taint rule other than the taint itself. A stored rule keeps those that are nil.
type Taint struct {
	// Expires is after what time the rule is deleted; 0 is never.
	Expires *time.Duration
	// Acknowledged is the ceiling of the impact; empty is none.
	Acknowledged          string
	Owner, Reason, Ticket *string
}

// maxNote is the length of an owner, a reason or a ticket, in bytes.
const maxNote = 256

// Check refuses what the API server does not check.
func (t Taint) Check() error {
	if d := t.Expires; d != nil && *d != 0 && *d < time.Minute {
		return fmt.Errorf("--for %s: must be at least a minute", *d)
	}
	if t.Acknowledged != "" {
		if _, err := guard.ParseCeiling(t.Acknowledged); err != nil {
			return fmt.Errorf("--acknowledge: %w", err)
		}
	}
	for _, note := range [...]struct {
		flag  string
		value *string
	}{{"owner", t.Owner}, {"reason", t.Reason}, {"ticket", t.Ticket}} {
		if err := checkNote(note.flag, note.value); err != nil {
			return err
		}
	}
	return nil
}

func checkNote(flag string, value *string) error {
	if value == nil {
		return nil
	}
	if len(*value) > maxNote {
		return fmt.Errorf("--%s: %d bytes: must be at most %d", flag, len(*value), maxNote)
	}
	for _, r := range *value {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return fmt.Errorf("--%s: %q: must be one line of text", flag, *value)
		}
	}
	return nil
}

// Intent is what is wanted of the rule for a target. stored is the one that exists, nil if none does,
// and user owns a rule that has no owner.
func (t Taint) Intent(target taints.Target, taint resourceapi.DeviceTaint, stored *resourceapi.DeviceTaintRule, user string, now time.Time) taints.Intent {
	var annotations map[string]string
	if stored != nil {
		annotations = stored.Annotations
	}
	pick := func(asked *string, annotation, otherwise string) string {
		if asked != nil {
			return *asked
		}
		if kept, has := annotations[annotation]; has {
			return kept
		}
		return otherwise
	}
	return taints.Intent{Target: target, Taint: taint, Acknowledged: t.Acknowledged, Expires: t.expiry(stored, now),
		Owner: pick(t.Owner, v1alpha1.OwnerAnnotation, user), Reason: pick(t.Reason, v1alpha1.ReasonAnnotation, ""), Ticket: pick(t.Ticket, v1alpha1.TicketAnnotation, "")}
}

// expiry is when a rule ends: as it is asked for, or as it is stored.
func (t Taint) expiry(stored *resourceapi.DeviceTaintRule, now time.Time) time.Time {
	if t.Expires != nil && *t.Expires > 0 {
		return now.Add(*t.Expires)
	}
	if stored == nil || t.Expires != nil {
		return time.Time{}
	}
	at, _, err := taints.Expiry(stored)
	if err != nil { // the controller ignores it, too
		return time.Time{}
	}
	return at
}

// User is the name of the user for the API server.
func User(ctx context.Context, client kubernetes.Interface) (string, error) {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// Warnings are those of the API server about the requests of one context.
type Warnings struct{ Texts []string }

type warningsKey struct{}

// Collect returns a context whose warnings are kept, and not printed. Requests with it are made one
// after the other.
func Collect(ctx context.Context) (context.Context, *Warnings) {
	w := &Warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

// collecting keeps warnings for a context of [Collect], and hands on all others.
type collecting struct{ otherwise rest.WarningHandler }

func (c collecting) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if w, ok := ctx.Value(warningsKey{}).(*Warnings); ok {
		w.Texts = append(w.Texts, text)
	} else if c.otherwise != nil {
		c.otherwise.HandleWarningHeader(code, agent, text)
	}
}

// Collecting returns a configuration of clients that know [Collect].
func Collecting(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler, config.WarningHandlerWithContext = nil, collecting{config.WarningHandler}
	return config
}
