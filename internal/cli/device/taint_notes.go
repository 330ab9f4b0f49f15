package device

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/taints"
)

// maxNote is the length of an owner, a reason or a ticket, in bytes.
const maxNote = 256

// notes are the flags for the owner of a taint, its reason and its ticket.
type notes struct {
	owner, reason, ticket string
	// changed reports whether a flag was given.
	changed func(flag string) bool
}

func (n *notes) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&n.owner, "owner", "", "who decides about the taint, such as a team (default: your user name)")
	c.Flags().StringVar(&n.reason, "reason", "", "why the devices are tainted")
	c.Flags().StringVar(&n.ticket, "ticket", "", "where the work is tracked: a URL or a number")
	n.changed = c.Flags().Changed
}

func (n *notes) check() error {
	for _, flag := range [...]struct{ name, value string }{{"owner", n.owner}, {"reason", n.reason}, {"ticket", n.ticket}} {
		if len(flag.value) > maxNote {
			return fmt.Errorf("--%s: %d bytes: must be at most %d", flag.name, len(flag.value), maxNote)
		}
		for _, r := range flag.value {
			if r == utf8.RuneError || unicode.IsControl(r) {
				return fmt.Errorf("--%s: %q: must be one line of text", flag.name, flag.value)
			}
		}
	}
	return nil
}

// set writes the notes into an intent. A flag that is not given keeps what is stored.
func (n *notes) set(intent *taints.Intent, stored map[string]string, user string) {
	pick := func(flag, value, annotation, otherwise string) string {
		if n.changed(flag) {
			return value
		}
		if kept, has := stored[annotation]; has {
			return kept
		}
		return otherwise
	}
	intent.Owner = pick("owner", n.owner, v1alpha1.OwnerAnnotation, user)
	intent.Reason = pick("reason", n.reason, v1alpha1.ReasonAnnotation, "")
	intent.Ticket = pick("ticket", n.ticket, v1alpha1.TicketAnnotation, "")
}

// user is the name of the user for the API server. It is empty if the API server does not tell it:
// the rule then has no owner, as before.
func (o taintOptions) user(ctx context.Context, streams cmdutil.Streams) (string, error) {
	if o.notes.changed("owner") || o.dry == cmdutil.DryRunClient {
		return "", nil
	}
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		fmt.Fprintf(streams.Err, "warning: your user name is not known (%v): set --owner\n", err)
		return "", nil
	}
	return review.Status.UserInfo.Username, nil
}
