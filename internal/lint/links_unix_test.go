//go:build unix

package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndlessConfiguration: a configuration file that is a link to a device is refused before it is read.
func TestEndlessConfiguration(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(folder, ConfigurationFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := upwards(folder); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// TestLinks: a link to nothing or out of the folder is a warning, and the rest is checked; what it leads to is not read.
func TestLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	folder := t.TempDir()
	for name, text := range map[string]string{
		outside:                         "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: SECRET}\n",
		filepath.Join(folder, "a.yaml"): "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {selectors: [{cel: {expression: 'true'}}]}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"gone.yaml": "nowhere.yaml", "itself.yaml": "itself.yaml", "out.yaml": outside, "in.yaml": "a.yaml", "process.yaml": "/proc/self/environ"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, argument := range []string{folder, "."} {
		t.Chdir(folder)
		said, checked := map[string]string{}, 0
		for result := range linter(t).Run(argument) {
			if result.Err != nil || strings.Contains(result.Name, "SECRET") {
				t.Errorf("%s: %+v", argument, result)
			}
			if result.Name == "a" {
				checked++
			}
			for _, r := range result.Reports {
				if r.Rule == "unreadable" {
					said[filepath.Base(r.File)] = r.Severity.String() + ": " + r.Message
				}
			}
		}
		if checked != 2 || len(said) < 3 {
			t.Errorf("%s: %d checked, want 2; %v", argument, checked, said)
		}
		for file, want := range map[string]string{"gone.yaml": "does not exist", "itself.yaml": "too many links", "out.yaml": "outside"} {
			if !strings.HasPrefix(said[file], "warning: ") || !strings.Contains(said[file], want) {
				t.Errorf("%s: %s: %q, want a warning with %q", argument, file, said[file], want)
			}
		}
	}
}
