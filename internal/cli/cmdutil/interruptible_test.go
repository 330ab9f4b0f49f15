package cmdutil_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// TestInterruptible: a read of an input without a writer ends with the context.
func TestInterruptible(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, _ := io.Pipe()
	reader := manifest.Reader{Stdin: cmdutil.Interruptible(ctx, silent)}
	cancel()
	for document, err := range reader.Walk(manifest.Stdin) {
		if document != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", document, err)
		}
	}
}

func TestInterruptibleReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := iotest.TestReader(cmdutil.Interruptible(ctx, strings.NewReader("kind: A")), []byte("kind: A")); err != nil {
		t.Error(err)
	}
}
