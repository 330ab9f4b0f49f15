// Package corpus finds the public manifests that tests read. They are not part of the repository.
package corpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Variable is the environment variable that names the folder.
const Variable = "DRA_STEWARD_CORPUS"

// ErrMissing says that there is no such folder.
var ErrMissing = errors.New("no corpus of public manifests; set " + Variable + " to its folder")

// Find returns the folder: what Variable names, or shared/corpus next to the repository, looked
// for from the working directory upwards.
func Find() (string, error) {
	if folder := os.Getenv(Variable); folder != "" {
		if !holds(folder) {
			return "", fmt.Errorf("%w: %s has no %s", ErrMissing, folder, verdicts)
		}
		return folder, nil
	}
	for up := ".."; len(up) < len("../../../../../../.."); up = filepath.Join(up, "..") {
		if folder := filepath.Join(up, "shared", "corpus"); holds(folder) {
			return folder, nil
		}
	}
	return "", ErrMissing
}

// verdicts is the file with what a server says of each manifest.
const verdicts = "EXPECTATIONS.tsv"

func holds(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, verdicts))
	return err == nil
}

// Folder returns the folder. It skips the test if there is none.
func Folder(t testing.TB) string {
	t.Helper()
	folder, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return folder
}
