package controllers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/controllers"
)

// TestFolders: each folder is one controller of the list, and each controller is on the page
// about the architecture.
func TestFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, c := range controllers.All() {
		if _, err := os.Stat(filepath.Join("../..", c.Folder)); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if row := "| " + c.Name + " | " + strings.TrimSuffix(c.Does, ".") + " | `--" + c.Flag + "` |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/architecture.md lacks the line\n%s", row)
		}
		listed = append(listed, c.Folder)
	}
	for _, entry := range entries {
		if folder := "internal/controllers/" + entry.Name(); entry.IsDir() && !slices.Contains(listed, folder) {
			t.Errorf("%s is not in the list of controllers.go", folder)
		}
	}
}

// TestRun: the first error ends the other controllers. A controller that cannot start because
// the program ends has not failed.
func TestRun(t *testing.T) {
	broken := errors.New("informer has stopped already")
	waits := controllers.Named("waits", func(ctx context.Context) error {
		<-ctx.Done()
		return broken
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := controllers.Run(ctx, []controllers.Controller{waits, waits}); err != nil {
		t.Errorf("at the end of the program: %v", err)
	}
	failed := errors.New("no rights")
	fails := controllers.Named("fails", func(context.Context) error { return failed })
	if err := controllers.Run(t.Context(), []controllers.Controller{waits, fails}); !errors.Is(err, failed) || err.Error() != "controller fails: no rights" {
		t.Errorf("got %v", err)
	}
}
