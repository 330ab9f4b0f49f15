package whatif

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// upgradeOptions are the flags of upgrade.
type upgradeOptions struct {
	read             clusterread.Source
	from, to, output string
	noHeaders        bool
}

func upgradeCommand(streams cmdutil.Streams) *cobra.Command {
	var o upgradeOptions
	c := &cobra.Command{
		Use:   "upgrade --to VERSION",
		Short: "Show which stored objects another version of Kubernetes refuses, or stores without some fields",
		Long: `upgrade checks the stored objects of resource.k8s.io by the rules of the API server of the
present version and of another one, each with its default feature gates. It lists the findings of
the other version only: values that it refuses, and fields that it does not know or store. Rules
of the next version are those that Kubernetes has merged so far.

Exit codes: 0 the other version has no more findings, 1 it has, 2 the command failed.`,
		Example: fmt.Sprintf(`  dra-steward whatif upgrade --to 1.%d
  dra-steward whatif upgrade --to 1.35 --from 1.37 --from-files cluster.yaml`, apiserver.NewestMinor+1),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams) },
	}
	o.read.AddFlags(c)
	f := c.Flags()
	f.StringVar(&o.to, "to", "", "version of Kubernetes to compare with, such as 1.37")
	f.StringVar(&o.from, "from", "", "present version (default: that of the API server, or with --from-files the newest known)")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text"), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the headers of the columns")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text"))
	cmdutil.Complete(c, "to", lint.Minors())
	cmdutil.Complete(c, "from", lint.Minors())
	return c
}

func (o upgradeOptions) run(ctx context.Context, streams cmdutil.Streams) error {
	if err := cmdutil.CheckOutput(o.output, "text"); err != nil {
		return err
	}
	if o.to == "" {
		return fmt.Errorf("--to VERSION is missing: one of %s", strings.Join(lint.Minors(), ", "))
	}
	d := &difference{from: known(o.from), to: known(o.to), found: []lint.Diagnostic{}}
	if err := o.walk(ctx, streams, d); err != nil {
		return err
	}
	if o.output != "text" {
		if err := cmdutil.PrintTable(streams.Out, o.output, d.found, !o.noHeaders); err != nil {
			return err
		}
	} else if err := d.write(streams.Out, o.to, !o.noHeaders); err != nil {
		return err
	}
	if len(d.found) > 0 {
		return cmdutil.ErrFindings
	}
	return nil
}

// known is how lint calls a version: the one after the newest is next.
func known(version string) string {
	if version == fmt.Sprintf("1.%d", apiserver.NewestMinor+1) {
		return lint.Next
	}
	return version
}

// maxBatch is how many bytes of objects are checked at a time.
const maxBatch = 4 << 20

// walk checks the objects of files or of the cluster.
func (o upgradeOptions) walk(ctx context.Context, streams cmdutil.Streams, d *difference) error {
	if o.read.Files != nil {
		for document, err := range (manifest.Reader{Stdin: streams.In, MaxBytes: manifest.DumpBytes}).Walk(o.read.Files...) {
			if err != nil {
				return err
			}
			if document.Ours() {
				if err := d.add(document.Raw); err != nil {
					return err
				}
			}
		}
		return d.flush()
	}
	s, err := o.read.Lister(streams, "")
	if err != nil {
		return err
	}
	defer s.Progress.End()
	minor, err := s.Minor()
	if err != nil {
		return err
	}
	if d.from == "" && minor >= apiserver.OldestMinor && minor <= apiserver.NewestMinor {
		d.from = fmt.Sprintf("1.%d", minor)
	}
	all, _, err := s.Surroundings(ctx, nil)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Kind == "Namespace" {
			continue
		}
		if err := s.Each(ctx, l, d.add); err != nil {
			return err
		}
	}
	return d.flush()
}

// A difference is what only one of two versions finds.
type difference struct {
	from, to string
	batch    bytes.Buffer
	objects  int
	found    []lint.Diagnostic
}

func (d *difference) add(object []byte) error {
	d.objects++
	d.batch.Write(object)
	d.batch.WriteString("\n---\n")
	if d.batch.Len() >= maxBatch {
		return d.flush()
	}
	return nil
}

func (d *difference) flush() error {
	if d.batch.Len() == 0 {
		return nil
	}
	before, err := findings(d.batch.Bytes(), d.from)
	if err != nil {
		return err
	}
	after, err := findings(d.batch.Bytes(), d.to)
	if err != nil {
		return err
	}
	for _, f := range after {
		if !slices.Contains(before, f) {
			f.File, f.Document, f.Line, f.Column = "", 0, 0, 0
			d.found = append(d.found, f)
		}
	}
	d.batch.Reset()
	return nil
}

// findings are those of the API server of a version.
func findings(text []byte, version string) (all []lint.Diagnostic, _ error) {
	book, err := rulebook.Open()
	if err != nil {
		return nil, err
	}
	none := ""
	linter := lint.Linter{Reader: manifest.Reader{Stdin: bytes.NewReader(text), MaxBytes: 2 * maxBatch},
		Sites: &lint.Sites{File: &none, KubernetesVersion: version, Book: book}, Now: time.Now()}
	for result := range linter.Run(manifest.Stdin) {
		if result.Err != nil {
			return nil, result.Err
		}
		all = append(all, result.Reports...)
	}
	return all, nil
}

func (d *difference) write(out io.Writer, to string, headers bool) error {
	table := printable.NewTable(out, 3)
	for i, f := range d.found {
		if i == 0 && headers {
			printable.Printf(table, "KIND\tNAME\tFIELD\tRULE\tWHAT\n")
		}
		printable.Printf(table, "%s\t%s\t%s\t%s\t%s\n", f.Kind, f.Name, f.Path, f.Rule, f.Message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := printable.Printf(out, "%s: %s that only %s has\n", plural.Of(d.objects, "object"), plural.Of(len(d.found), "finding"), to)
	return err
}
