package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
)

// left are the findings that no change of a manifest removes, by project and rule.
var left = map[string]string{
	"kubernetes-keps/unknown-field":   "the KEP proposes the field",
	"kubernetes-keps/field-dropped":   "the feature gate is off by default",
	"kubernetes-keps/attribute-value": "the feature gate is off by default",
	"nvidia-gpu/wrong-type":           "documentation that is shortened on purpose",
}

// TestManifestPatches: the patch of a project in docs/manifests applies to its manifests, has a
// change for each in which lint finds something, and leaves nothing that lint finds but what no
// change removes.
func TestManifestPatches(t *testing.T) {
	folder := corpus.Folder(t)
	sources := readSources(t, folder)
	before := reportsOf(t, folder)
	patched := t.TempDir()
	for _, project := range sources.projects {
		changes := readPatch(t, project)
		for _, file := range slices.Sorted(maps.Keys(sources.path)) {
			if strings.HasPrefix(file, project+"/") {
				patchFile(t, filepath.Join(folder, file), filepath.Join(patched, file), changes[sources.path[file]])
				delete(changes, sources.path[file])
			}
		}
		for file := range changes {
			t.Errorf("%s.patch changes %s, which is not among the manifests", project, file)
		}
	}
	stays := map[string]bool{}
	for _, r := range reportsOf(t, patched) {
		project, _, _ := strings.Cut(r.File, "/")
		key := project + "/" + r.Rule
		stays[key] = true
		if left[key] == "" {
			t.Errorf("after the patch: %s:%d: %s: %s [%s]", r.File, r.Line, r.Path, r.Message, r.Rule)
		}
	}
	for key, reason := range left {
		if !stays[key] {
			t.Errorf("no finding of %s stays: remove it from left (%s)", key, reason)
		}
	}
	if len(before) == 0 {
		t.Error("lint finds nothing in the manifests")
	}
}

// A hunk replaces lines by others.
type hunk struct{ old, new []string }

// readPatch reads the hunks of the patch of a project by path; it has an Index line for each file.
func readPatch(t *testing.T, project string) map[string][]hunk {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "manifests", project+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	changes, file := map[string][]hunk{}, ""
	for line := range strings.Lines(string(text)) {
		if path, is := strings.CutPrefix(line, "Index: "); is {
			file = strings.TrimSpace(path)
			continue
		}
		hunks := changes[file]
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			continue
		case strings.HasPrefix(line, "@@ "):
			changes[file] = append(hunks, hunk{})
			continue
		}
		last := &hunks[len(hunks)-1]
		if line[0] != '+' {
			last.old = append(last.old, line[1:])
		}
		if line[0] != '-' {
			last.new = append(last.new, line[1:])
		}
	}
	return changes
}

// patchFile writes a file with its hunks applied, one after the other.
func patchFile(t *testing.T, from, to string, hunks []hunk) {
	t.Helper()
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // of another kind than a manifest
	}
	if err != nil {
		t.Fatal(err)
	}
	done, rest := "", string(text)
	for _, h := range hunks {
		before, after, found := strings.Cut(rest, strings.Join(h.old, ""))
		if !found {
			t.Fatalf("%s: a hunk does not apply:\n%s", from, strings.Join(h.old, ""))
		}
		done, rest = done+before+strings.Join(h.new, ""), after
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(done+rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

// patchOf describes the patch of a project for its section of the page.
func patchOf(project string) string {
	text := fmt.Sprintf("\nThe change: [%s.patch](manifests/%[1]s.patch), for `git apply` at that commit.", project)
	for _, key := range slices.Sorted(maps.Keys(left)) {
		if rule, is := strings.CutPrefix(key, project+"/"); is {
			text += fmt.Sprintf(" Findings of %s stay: %s.", rule, left[key])
		}
	}
	return text + "\n"
}
