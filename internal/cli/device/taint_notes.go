package device

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

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

// given is the value of a flag, nil if it is not given.
func (n *notes) given(flag, value string) *string {
	if !n.changed(flag) {
		return nil
	}
	return &value
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
	name, err := clusterwrite.User(ctx, client)
	if err != nil {
		printable.Printf(streams.Err, "warning: your user name is not known (%v): set --owner\n", err)
	}
	return name, nil
}
