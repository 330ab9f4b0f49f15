// Package console has the command console, which serves pages about the devices of a cluster on
// loopback.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// options are the flags of console.
type options struct {
	read    clusterread.Source
	faults  clusterread.FaultCheck
	address string
	port    int
	export  string
	group   string
	// writes adds forms to the pages.
	writes bool
	// release is the namespace of the release, config a file with its configuration.
	release, config string
	// controller is the name of the controller, which has the history.
	controller string
}

const help = `console serves pages about the devices of a cluster to your browser: a map of nodes and devices,
each device with its taints, patches and holders, why claims and pods wait, drains and what
blocks them, and capacities. It follows the cluster, and writes nothing to it without --allow-writes.

The pages show what your permissions let you read. Devices without a claim that you can read are
unknown, not free, if you are not allowed to read all claims.

console listens on loopback only. The address that it prints has a token, which the browser
exchanges for a cookie. It ends with Ctrl-C. On another machine, forward the port:
ssh -L 8080:127.0.0.1:8080 HOST dra-steward console --port 8080

With --allow-writes, pages have forms to taint and untaint devices, and to drain them, pause, continue
and cancel drains. A form shows what the change does, what the API server answers in a dry run, and
the command for it. The change is made when you confirm it, if it affects no more than was shown.

With --export, console writes the same pages as files for a ticket, and ends. The files show the
cluster at one time and need no server.`

// Command returns the command console.
func Command(streams cmdutil.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "console",
		Short: "Show the nodes, devices, taints, holders and drains in a browser",
		Long:  help,
		Example: `  dra-steward console
  dra-steward console --port 8080
  dra-steward console --allow-writes
  dra-steward console --export ticket-4711/
  dra-steward console --from-files cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams) },
	}
	o.read.AddFlags(c)
	f := c.Flags()
	f.StringVar(&o.address, "address", "127.0.0.1", "address of loopback to listen on")
	f.IntVar(&o.port, "port", 0, "port to listen on; 0 is any that is free")
	f.StringVar(&o.export, "export", "", "write the pages as files to this folder, which must be empty or not exist, and end")
	f.StringVar(&o.group, "group-by", "zone", "with --export: what the map is grouped by: zone, pool, driver, model, namespace, none or label:KEY")
	f.StringVar(&o.release, "release-namespace", "dra-steward", "namespace of the release, for the policies, the report and the history")
	f.StringVar(&o.controller, "controller", "dra-steward-controller", "name of the controller of the release, for the history")
	f.StringVar(&o.config, "config", "", "configuration file for the policies and the report to use instead of that of the release")
	f.BoolVar(&o.writes, "allow-writes", false, "add forms for taint, untaint, and drain with pause and cancel; each change is previewed and confirmed, and made with your permissions")
	o.faults.AddFlags(f)
	cmdutil.Complete(c, "group-by", fleet.Groupings())
	return c
}

func (o *options) run(ctx context.Context, streams cmdutil.Streams) error {
	if err := o.checkWrites(); err != nil {
		return err
	}
	if o.export != "" {
		return o.write(ctx, streams)
	}
	listener, err := console.Listen(o.address, o.port)
	if err != nil {
		return err
	}
	defer listener.Close()
	feed, err := o.feed(ctx, streams)
	if err != nil {
		return err
	}
	port, err := console.PortOf(listener)
	if err != nil {
		return err
	}
	gate := console.NewGate(port)
	if o.writes {
		gate.AllowWrites()
	}
	ended := make(chan error, 1)
	server := console.HTTP(feed.server.Handler(gate))
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	go func() { ended <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	printable.Printf(streams.Out, "open %s\n", gate.URL(o.address))
	printable.Printf(streams.Err, "%s; Ctrl-C ends it\n", feed.text())
	feed.follow(ctx)
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxConnections bounds the connections to the console: each page that is open has up to six.
const maxConnections = 512

// write writes the pages as files.
func (o *options) write(ctx context.Context, streams cmdutil.Streams) error {
	o.read.Watcher = nil
	feed, err := o.feed(ctx, streams)
	if err != nil {
		return err
	}
	written, err := feed.server.Export(ctx, console.ExportOptions{Folder: o.export, Group: o.group})
	if err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	printable.Printf(streams.Out, "%d files written; open %s\n", written.Files, written.Index)
	if written.Left > 0 {
		printable.Printf(streams.Err, "warning: %d devices have no page of their own: those with a taint, a drain or a patch come first\n", written.Left)
	}
	if written.LeftClaims > 0 {
		printable.Printf(streams.Err, "warning: %d claims and pods have no page of their own: those that wait come first\n", written.LeftClaims)
	}
	return nil
}

// checkAgain is how often a console looks whether its lists are current.
const checkAgain = time.Second
