package cdi

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/tools/txtar"
	library "tags.cncf.io/container-device-interface/pkg/cdi"
)

// agree holds us to the library: an id resolves here if and only if it does in the
// cache that runtimes use.
func agree(t testing.TB, registry *Registry, root string, ids []string) {
	t.Helper()
	cache, err := library.NewCache(library.WithAutoRefresh(false),
		library.WithSpecDirs(filepath.Join(root, "etc/cdi"), filepath.Join(root, "var/run/cdi")))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		result := registry.Check(id)
		device := cache.GetDevice(id)
		if (device != nil) != (result.Spec != "") {
			t.Errorf("%q: the library resolves it: %v; we: %+v", id, device != nil, result)
			continue
		}
		if device != nil && device.GetSpec().GetPath() != filepath.Join(root, result.Spec) {
			t.Errorf("%q: the library takes %s, we %s", id, device.GetSpec().GetPath(), result.Spec)
		}
		// What injection refuses, we refuse. The reverse does not hold: the library
		// does not look for mounts and hooks. Its device nodes are those of this
		// process, so only hosts without any can be compared.
		if _, err := cache.InjectDevices(&oci.Spec{}, id); err != nil && result.OK() && !hasNodes(device) {
			t.Errorf("%q: the library says %v, we nothing", id, err)
		}
	}
}

func hasNodes(device *library.Device) bool {
	return device != nil && len(device.ContainerEdits.DeviceNodes)+len(device.GetSpec().ContainerEdits.DeviceNodes) > 0
}

// TestThisHost checks real device nodes, with the root of this machine.
func TestThisHost(t *testing.T) {
	dir := t.TempDir()
	place(t, filepath.Join(dir, "a.json"), []byte(`{"cdiVersion": "0.6.0", "kind": "vendor.example/mem", "devices": [
		{"name": "null", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}},
		{"name": "block", "containerEdits": {"deviceNodes": [{"path": "/dev/null", "type": "b"}]}},
		{"name": "gone", "containerEdits": {"deviceNodes": [{"path": "/dev/no-such-device"}]}}]}`))
	registry, err := Read(Options{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{"null": "", "block": reasonDeviceNodeMismatched, "gone": reasonDeviceNodeMissing} {
		result := registry.Check("vendor.example/mem=" + name)
		if reason == "" && !result.OK() || reason != "" && (len(result.Problems) != 1 || result.Problems[0].Reason != reason) {
			t.Errorf("%s: %+v, want %q", name, result, reason)
		}
	}
}

// TestPipe: a named pipe that is called like a specification is not opened.
func TestPipe(t *testing.T) {
	root := t.TempDir()
	place(t, filepath.Join(root, "etc/cdi/a.yaml"), []byte("(fifo)"))
	registry, err := Read(Options{HostRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	if problems := registry.Problems(); len(problems) != 1 || problems[0].Reason != reasonSpecInvalid {
		t.Errorf("problems are %v, want one of the pipe", problems)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no host root":       {HostRoot: filepath.Join(t.TempDir(), "absent")},
		"relative directory": {Dirs: []string{"etc/cdi"}},
		"no version":         {MaxVersion: "latest"},
	} {
		if _, err := Read(o); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// FuzzCheck holds us to the library for any two files and any id.
func FuzzCheck(f *testing.F) {
	for _, content := range specContents(f) {
		f.Add(content, content, "vendor.example/gpu=0", true)
		f.Add(content, []byte("kind: vendor.example/gpu"), "vendor.example/gpu=1", false)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, id string, sameDir bool) {
		root := t.TempDir()
		other := "var/run/cdi/b.json"
		if sameDir {
			other = "etc/cdi/b.json"
		}
		for name, content := range map[string][]byte{"etc/cdi/a.yaml": first, other: second} {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		registry, err := Read(Options{HostRoot: root})
		if err != nil {
			t.Fatal(err)
		}
		agree(t, registry, root, []string{id, "vendor.example/gpu=0"})
	})
}

// specContents are the specifications of the examples.
func specContents(t testing.TB) [][]byte {
	all := map[string][]byte{}
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for file, content := range filesOf(t, name) {
			all[name+file] = content
		}
	}
	var contents [][]byte
	for _, key := range slices.Sorted(maps.Keys(all)) {
		contents = append(contents, all[key])
	}
	return contents
}

func filesOf(t testing.TB, name string) map[string][]byte {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range archive.Files {
		if filepath.Base(filepath.Dir(f.Name)) == "cdi" {
			files[f.Name] = f.Data
		}
	}
	return files
}
