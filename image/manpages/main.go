// Command manpages writes the manual pages of dra-steward, one for each command, and its
// completions for four shells.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra/doc"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/tools/build"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: manpages TREE FOLDER")
		os.Exit(2)
	}
	stamp, err := build.Read(context.Background(), os.Args[1])
	if err == nil {
		err = write(os.Args[2], stamp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(2)
	}
}

// write fills man and completions in the folder. The same source and stamp give the same files.
func write(dir string, stamp build.Stamp) error {
	root := cli.Command(cmdutil.Streams{})
	root.DisableAutoGenTag = true
	manuals, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := errors.Join(os.RemoveAll(manuals), os.MkdirAll(manuals, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	// GenManTree puts in today's date where the header has none.
	header := &doc.GenManHeader{Section: "1", Date: &stamp.Time, Source: "dra-steward " + strings.TrimPrefix(stamp.Version, "v"), Manual: "dra-steward"}
	if err := doc.GenManTree(root, header, manuals); err != nil {
		return err
	}
	root.InitDefaultCompletionCmd()
	file := func(name string) string { return filepath.Join(completions, name) }
	return errors.Join(
		root.GenBashCompletionFileV2(file("dra-steward.bash"), true),
		root.GenZshCompletionFile(file("_dra-steward")),
		root.GenFishCompletionFile(file("dra-steward.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(file("dra-steward.ps1")))
}
