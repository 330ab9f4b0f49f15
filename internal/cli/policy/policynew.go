package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func policyNewCommand(streams cmdutil.Streams) *cobra.Command {
	var folder string
	c := &cobra.Command{
		Use: "new CODE", Short: "Write a policy with METADATA and tests to begin with", Args: cobra.ExactArgs(1),
		Long: `new writes a policy that denies requests for more than a number of devices, with a
parameter and tests that pass. Change it to what you need. It does not overwrite files.`,
		Example: `  dra-steward policy new ACME-GPU-001
  dra-steward policy test --policies acme-gpu-001`,
		RunE: func(_ *cobra.Command, args []string) error {
			code := args[0]
			if folder == "" {
				folder = strings.ToLower(code)
			}
			files, err := skeleton(code)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			for _, name := range []string{policyFile, testFile} {
				if err := create(filepath.Join(folder, name), files[name]); err != nil {
					return err
				}
				printable.Printf(streams.Out, "wrote %s\n", filepath.Join(folder, name))
			}
			printable.Printf(streams.Out, "next: %s policy test --policies %s\n", streams.Program(), folder)
			return nil
		},
	}
	c.Flags().StringVar(&folder, "folder", "", "folder for the files; the code in lower case if empty")
	return c
}

func create(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; choose another --folder", name)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
