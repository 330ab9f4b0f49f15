package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// A Problem is one thing that keeps an id from being applied.
type Problem struct {
	// Reason is the ID of one of Reasons.
	Reason string `json:"reason"`
	// Detail names the file or path of the host, and what is wrong with it.
	Detail string `json:"detail"`
}

// A Result is what the runtime would make of an id.
type Result struct {
	ID string `json:"id"`
	// Spec is the path, on the host, of the specification that has the device; empty
	// if the id does not resolve.
	Spec string `json:"spec,omitempty"`
	// Version is the cdiVersion of Spec.
	Version string `json:"cdiVersion,omitempty"`
	// Problems is empty if the runtime would resolve and apply the id.
	Problems []Problem `json:"problems,omitempty"`
}

// OK reports whether the runtime resolves and applies the id.
func (r Result) OK() bool { return len(r.Problems) == 0 }

// Check reports whether the runtime resolves and applies an id. Device nodes, mounts
// and hooks are looked for now, specifications are those of the Registry.
func (r *Registry) Check(id string) Result {
	result := Result{ID: id}
	vendor, class, name, err := parser.ParseQualifiedName(id)
	if err != nil {
		result.Problems = []Problem{{reasonInvalidName, err.Error()}}
		return result
	}
	if r.disabled {
		result.Problems = []Problem{{reasonDisabled, "the container runtime is configured to leave CDI devices out: containers start without them"}}
		return result
	}
	f, problem := r.find(vendor+"/"+class, name)
	if f == nil {
		result.Problems = []Problem{problem}
		return result
	}
	result.Spec, result.Version = f.path, f.spec.Version
	for _, edits := range []specs.ContainerEdits{f.spec.ContainerEdits, f.spec.GetDevice(name).ContainerEdits} {
		result.Problems = append(result.Problems, r.check(edits)...)
	}
	return result
}

// find returns the file that the runtime takes a device from, or why there is none.
func (r *Registry) find(kind, name string) (*file, Problem) {
	var found *file
	for i := range r.files {
		f := &r.files[i]
		if f.spec == nil || r.tooNew(*f) || f.spec.Kind != kind || f.spec.GetDevice(name) == nil {
			continue
		}
		// A conflict counts even if a later directory has the device again: the library
		// drops the device at the end of its scan.
		if found != nil && found.priority == f.priority {
			return nil, Problem{reasonConflict, fmt.Sprintf("%s and %s both have the device", found.path, f.path)}
		}
		found = f
	}
	if found == nil {
		return nil, r.whyNot(kind, name)
	}
	return found, Problem{}
}

// whyNot says why no file that loads has the device. The file that looks most like
// the one that was meant decides.
func (r *Registry) whyNot(kind, name string) Problem {
	var sameKind []string
	for _, f := range r.files {
		has := f.kind == kind && slices.Contains(f.devices, name)
		switch {
		case f.spec != nil && r.tooNew(f) && has:
			return r.newer(f)
		case f.spec == nil && (has || f.kind == "" && f.mentions(kind)):
			return f.problem
		case f.spec != nil && f.kind == kind:
			sameKind = append(sameKind, f.path)
		}
	}
	if path := r.ignored(kind, name); path != "" {
		return Problem{reasonSpecIgnored, path + ": has the device, but is not read"}
	}
	switch len(sameKind) {
	case 0:
	case 1:
		return Problem{reasonNoDevice, fmt.Sprintf("%s: is of kind %s, without device %q", sameKind[0], kind, name)}
	default:
		return Problem{reasonNoDevice, fmt.Sprintf("%d specifications are of kind %s, none has device %q", len(sameKind), kind, name)}
	}
	for _, f := range r.files {
		if f.spec == nil && f.kind == kind {
			return f.problem
		}
	}
	if len(r.problems) > 0 {
		return r.problems[0]
	}
	return Problem{reasonNoSpec, "no specification of kind " + kind}
}

// check looks for what edits need of the host, as far as it can be seen.
func (r *Registry) check(edits specs.ContainerEdits) (problems []Problem) {
	for _, node := range edits.DeviceNodes {
		if r.covers(cmp.Or(node.HostPath, node.Path)) {
			problems = append(problems, r.root.checkNode(*node)...)
		}
	}
	for _, mount := range edits.Mounts {
		if !binds(mount) || !r.covers(mount.HostPath) {
			continue
		}
		if _, err := r.root.stat(mount.HostPath); err != nil {
			problems = append(problems, Problem{reasonMountMissing, fmt.Sprintf("mount %s: %v", mount.HostPath, reasonOf(err))})
		}
	}
	for _, hook := range edits.Hooks {
		if !r.covers(hook.Path) {
			continue
		}
		info, err := r.root.stat(hook.Path)
		switch {
		case err != nil:
			problems = append(problems, Problem{reasonHookMissing, fmt.Sprintf("hook %s: %v", hook.Path, reasonOf(err))})
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			problems = append(problems, Problem{reasonHookNotExecutable, fmt.Sprintf("hook %s: mode %s", hook.Path, info.Mode())})
		}
	}
	return problems
}

// covers reports whether a path of the host is below the host root, whether it exists or not.
func (r *Registry) covers(path string) bool {
	return len(r.visible) == 0 || slices.ContainsFunc(r.visible, func(folder string) bool {
		below, err := filepath.Rel(folder, filepath.Clean(path))
		return err == nil && filepath.IsLocal(below)
	})
}

// binds reports whether the source of a mount is a path of the host.
func binds(m *specs.Mount) bool {
	return m.Type == "" || m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// checkNode lets the library fill in a device node from the one under the host root.
func (h hostRoot) checkNode(node specs.DeviceNode) []Problem {
	path := cmp.Or(node.HostPath, node.Path)
	real, err := h.node(path)
	if err == nil {
		node.HostPath = real
		edits := cdi.ContainerEdits{ContainerEdits: &specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{&node}}}
		err = edits.Apply(&oci.Spec{})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return []Problem{{reasonDeviceNodeMissing, fmt.Sprintf("device node %s: not on the host", path)}}
	default:
		return []Problem{{reasonDeviceNodeMismatched, fmt.Sprintf("device node %s: %s", path, strings.ReplaceAll(err.Error(), real, path))}}
	}
}

// ignored returns a file that has the device where runtimes do not look, if any.
func (r *Registry) ignored(kind, name string) string {
	for _, path := range r.unreadFiles {
		f := r.readFile(path, -1)
		if f.spec != nil && f.kind == kind && slices.Contains(f.devices, name) {
			return path
		}
	}
	return ""
}

// unread lists what looks like specifications in a directory, and is not read.
func (r *Registry) unread(dir string, entry os.DirEntry) (paths []string) {
	path := filepath.Join(dir, entry.Name())
	if !entry.IsDir() {
		if filepath.Ext(path) == ".yml" {
			return []string{path}
		}
		return nil
	}
	real, err := r.root.resolve(path)
	if err != nil {
		return nil
	}
	below, err := os.ReadDir(real)
	if err != nil {
		return nil
	}
	for _, e := range below {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".json" || ext == ".yaml" || ext == ".yml") {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	return paths
}

// The reasons why an id is not applied. [Reasons] documents them.
const (
	reasonInvalidName          = "invalid-name"
	reasonNoSpec               = "no-spec"
	reasonNoDevice             = "no-device"
	reasonSpecIgnored          = "spec-ignored"
	reasonSpecInvalid          = "spec-invalid"
	reasonVersionTooNew        = "version-too-new"
	reasonVersionTooLow        = "version-too-low"
	reasonConflict             = "conflict"
	reasonDirectoryUnreadable  = "directory-unreadable"
	reasonDeviceNodeMissing    = "device-node-missing"
	reasonDeviceNodeMismatched = "device-node-mismatched"
	reasonMountMissing         = "mount-missing"
	reasonHookMissing          = "hook-missing"
	reasonHookNotExecutable    = "hook-not-executable"
	reasonDisabled             = "disabled"
)

// A Reason is a way in which an id fails. Its ID is in reports and metric labels.
type Reason struct {
	ID string
	// Doc is what is wrong and what helps.
	Doc string
}

// Reasons returns all reasons. Each has testdata/<ID>.txtar.
func Reasons() []Reason {
	return []Reason{
		{reasonInvalidName, "The id is not vendor/class=device. No runtime resolves it; the driver must name its devices otherwise."},
		{reasonNoSpec, "No specification in the directories of the runtime is of this vendor and class. The driver must write it again: it does so when the sandbox of the pod is created again."},
		{reasonNoDevice, "There are specifications of this vendor and class, but none has the device."},
		{reasonSpecIgnored, "The specification is where runtimes do not look: they read *.json and *.yaml directly in a directory, neither *.yml nor what is further below."},
		{reasonSpecInvalid, "The specification that names this vendor and class cannot be loaded: it is cut off, has an unknown field, or a device changes nothing."},
		{reasonVersionTooNew, "The specification has a cdiVersion that the runtime does not know. A newer runtime, or a driver that writes the lowest version it needs, helps."},
		{reasonVersionTooLow, "The specification uses a field that its cdiVersion does not have."},
		{reasonConflict, "Two specifications of one directory have the device. Runtimes then drop both, even if a directory of higher precedence has it too."},
		{reasonDirectoryUnreadable, "A directory cannot be read. Runtimes read no further directories after it."},
		{reasonDeviceNodeMissing, "A device node of the specification is not on the host. The driver of the device may not be loaded, or has been given another number."},
		{reasonDeviceNodeMismatched, "The path of a device node is something else on the host: no device, or one of another type."},
		{reasonMountMissing, "A mount of the specification has no source on the host. The runtime resolves the device, and the container fails to start."},
		{reasonHookMissing, "A hook of the specification is not on the host. The runtime resolves the device, and the container fails to start."},
		{reasonHookNotExecutable, "A hook of the specification is no executable file. The runtime resolves the device, and the container fails to start."},
		{reasonDisabled, "The container runtime is configured to leave CDI devices out (enable_cdi = false in containerd up to 2.2): containers start without them, and no error says so. It was asked at its CRI socket."},
	}
}
