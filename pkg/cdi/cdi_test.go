package cdi

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what comes out into the examples")

// TestExamples lays out the hosts of testdata and compares what is found there. Each
// reason has a file of its name.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { runExample(t, name) })
	}
	for _, reason := range Reasons() {
		if name := "testdata/" + reason.ID + ".txtar"; !slices.Contains(names, name) {
			t.Errorf("add %s with an id that fails for this reason", name)
		}
		if reason.Doc == "" {
			t.Errorf("reason %s needs documentation", reason.ID)
		}
	}
}

func runExample(t *testing.T, name string) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	o := Options{HostRoot: root}
	var ids []string
	var want string
	for _, f := range archive.Files {
		text := strings.TrimSpace(string(f.Data))
		switch f.Name {
		case "ids":
			ids = strings.Split(text, "\n")
		case "disabled":
			o.Disabled = true
		case "max-version":
			o.MaxVersion = text
		case "want":
			want = string(f.Data)
		default:
			place(t, filepath.Join(root, strings.TrimPrefix(f.Name, "host/")), f.Data)
		}
	}
	registry, err := Read(o)
	if err != nil {
		t.Fatal(err)
	}
	got := answers(t, registry, ids)
	if strings.Contains(got, root) {
		t.Errorf("paths must be those of the host:\n%s", got)
	}
	checkReasons(t, got)
	if *update {
		archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
		archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o.MaxVersion == "" && !o.Disabled && !strings.Contains(name, "var-run") && !strings.Contains(name, "spec-ignored") {
		agree(t, registry, root, ids)
	}
}

// place makes a file of the host: a named pipe, link or executable where its content
// says so.
func place(t testing.TB, path string, content []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	text := strings.TrimSpace(string(content))
	target, link := strings.CutPrefix(text, "(link) ")
	switch {
	case err != nil:
	case link:
		err = os.Symlink(target, path)
	case text == "(fifo)":
		err = syscall.Mkfifo(path, 0o644)
	case text == "(executable)":
		err = os.WriteFile(path, nil, 0o755)
	default:
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func answers(t *testing.T, registry *Registry, ids []string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	for _, id := range ids {
		if err := encoder.Encode(registry.Check(id)); err != nil {
			t.Fatal(err)
		}
	}
	if problems := registry.Problems(); len(problems) > 0 {
		out.WriteString("problems of files: ")
		if err := encoder.Encode(problems); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// checkReasons fails for a reason that the table does not have, and for an example of
// a reason that does not occur in it.
func checkReasons(t *testing.T, got string) {
	name := strings.TrimPrefix(t.Name(), "TestExamples/")
	known := map[string]bool{}
	for _, reason := range Reasons() {
		known[reason.ID] = true
	}
	if known[name] && !strings.Contains(got, `"reason": "`+name+`"`) {
		t.Errorf("the example must show %s:\n%s", name, got)
	}
	for _, part := range strings.Split(got, `"reason": "`)[1:] {
		if id, _, _ := strings.Cut(part, `"`); !known[id] {
			t.Errorf("reason %s is not in the table", id)
		}
	}
}

// What is not mounted below the host root is not called missing.
func TestVisible(t *testing.T) {
	root := t.TempDir()
	place(t, filepath.Join(root, "etc/cdi/gpu.json"), []byte(`{"cdiVersion": "0.6.0", "kind": "vendor.example/gpu", "devices": [{"name": "0", "containerEdits": {
		"deviceNodes": [{"path": "/dev/gpu0"}],
		"mounts": [{"hostPath": "/opt/lib", "containerPath": "/opt/lib"}, {"hostPath": "/usr/lib/gpu", "containerPath": "/usr/lib/gpu"}],
		"hooks": [{"hookName": "createContainer", "path": "/usr/bin/hook"}]}}]}`))
	for _, tt := range []struct {
		visible, want []string
	}{
		{nil, []string{reasonDeviceNodeMissing, reasonMountMissing, reasonMountMissing, reasonHookMissing}},
		{[]string{"/dev"}, []string{reasonDeviceNodeMissing}},
		{[]string{"/usr"}, []string{reasonMountMissing, reasonHookMissing}},
		{[]string{"/de"}, nil},
	} {
		registry, err := Read(Options{HostRoot: root, Visible: tt.visible})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, problem := range registry.Check("vendor.example/gpu=0").Problems {
			got = append(got, problem.Reason)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.visible, got, tt.want)
		}
	}
}
