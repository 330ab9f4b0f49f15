// Package config is the command that checks configuration files.
package config

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// Command returns the command config.
func Command(streams cmdutil.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or print its schema",
		Long: `config checks the configuration file of serve and lint: limits, severities, exemptions
and more. A running webhook reads its file again when it changes, and refuses a file that
check refuses.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(configCheckCommand(streams), configSchemaCommand(streams))
	return c
}

func configCheckCommand(streams cmdutil.Streams) *cobra.Command {
	var policies []string
	c := &cobra.Command{
		Use:   "check FILE…",
		Short: "Report the errors of configuration files, with line and column",
		Long: `check reads configuration files as serve and lint do and prints all errors with line and
column: unknown and duplicate fields, values out of range, unknown rules, policies and
parameters of policies, exemptions without a reason, and expired exemptions. With
--policies the policies of the site are known, too. Exit codes: 0 valid, 1 errors, 2 a file cannot
be read.`,
		Example: `  dra-steward config check site.yaml
  helm template dra-steward charts/dra-steward -f values.yaml -s templates/configmap.yaml |
    yq '.data."config.yaml"' | dra-steward config check /dev/stdin`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			set, err := policyload.Load(c.Context(), policies)
			if err != nil {
				return err
			}
			return checkConfigs(streams, set, files, time.Now())
		},
	}
	c.Flags().StringArrayVar(&policies, "policies", nil, "folder or OPA bundle with policies in addition to the library (repeatable)")
	return c
}

func checkConfigs(streams cmdutil.Streams, set *policy.Set, files []string, now time.Time) (result error) {
	book, err := rulebook.Open()
	if err != nil {
		return err
	}
	for _, name := range files {
		file, err := config.Load(name)
		if err != nil && file.Name == "" {
			return err
		}
		if err == nil {
			_, err = (&lint.Sites{Book: book}).Site(file)
		}
		if err == nil {
			err = file.Locate(policyload.Check(set, file.StewardConfiguration, false))
		}
		if err == nil {
			_, err = policyload.NewEngine(set, file.StewardConfiguration, 0)
			err = file.Locate(err)
		}
		if err != nil {
			_ = printable.Page(streams.Out, printable.Error(err)+"\n")
			result = cmdutil.ErrFindings
			continue
		}
		expired, err := expiredExemptions(file, now)
		if err != nil {
			return err
		}
		for _, line := range expired {
			printable.Printf(streams.Out, "%s\n", line)
			result = cmdutil.ErrFindings
		}
		if expired == nil {
			printable.Printf(streams.Out, "%s: valid (revision %s)\n", name, file.Revision)
		}
	}
	return result
}

// expiredExemptions are lines about the exemptions of a file that do not count any more.
func expiredExemptions(file config.File, now time.Time) (lines []string, _ error) {
	reviewer, err := review.New(file.StewardConfiguration)
	if err != nil {
		return nil, err
	}
	for _, i := range reviewer.Expired(now) {
		lines = append(lines, file.At(fmt.Sprintf("exemptions[%d].expires", i), fmt.Sprintf(
			"exemptions[%d].expires: expired and ignored: remove or renew it", i)).Error())
	}
	return lines, nil
}

func configSchemaCommand(streams cmdutil.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the configuration file",
		Long: `schema prints the JSON schema of the configuration file, for editors: save it, and begin
your file with "# yaml-language-server: $schema=dra-steward.schema.json".`,
		Example: `  dra-steward config schema > dra-steward.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := streams.Out.Write(config.Schema)
			return err
		},
	}
}
