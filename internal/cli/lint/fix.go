package lint

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/lint/fix"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// fixFiles writes defaults into files, or only shows what it would write.
func fixFiles(streams cmdutil.Streams, linter lint.Linter, dry bool, args []string) error {
	changed := false
	var unopened []error
	for file, err := range linter.Files(args...) {
		var done bool
		if link := (*manifest.Error)(nil); errors.As(err, &link) && link.Link {
			continue // the check, which follows, reports it
		}
		if err == nil {
			done, err = fixFile(streams, linter.Reader, dry, file)
		}
		if err != nil {
			unopened = append(unopened, err)
		}
		changed = changed || done
	}
	if len(unopened) > 0 {
		return errors.Join(unopened...)
	}
	if dry && changed {
		return cmdutil.ErrFindings
	}
	return nil
}

func fixFile(streams cmdutil.Streams, reader manifest.Reader, dry bool, file string) (changed bool, err error) {
	var text []byte
	switch {
	case file != manifest.Stdin:
		text, err = os.ReadFile(file)
	case dry:
		text, err = io.ReadAll(reader.Stdin)
	default:
		err = errors.New("--fix: standard input cannot be changed; use --diff, or name the file")
	}
	if err != nil {
		return false, err
	}
	result := fix.Text(reader, file, text)
	for _, c := range result.Left {
		printable.Printf(streams.Err, "%s: not written: the notation is not supported\n", c)
	}
	if len(result.Done) == 0 {
		return false, nil
	}
	if dry {
		_, err = streams.Out.Write(fix.Diff(file, text, result.Text))
		return true, err
	}
	if err := fix.Write(file, result.Text); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	for _, c := range result.Done {
		printable.Printf(streams.Err, "%s: written\n", c)
	}
	return true, nil
}
