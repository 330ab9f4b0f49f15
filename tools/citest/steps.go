package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// controlPlane are the modules whose tests start a control plane.
var controlPlane = []string{"test/envtest"}

// longest are the packages of a module whose tests take minutes. They begin first, so that no core is idle while
// the last of them runs.
var longest = map[string][]string{".": {"./internal/cli"}, "test/envtest": {"./installed", "./drain", "./release", "./guard"}}

// waiting are the modules whose tests wait more than they compute.
var waiting = []string{"test/node", "test/console"}

// newestOnly are modules whose tests start a control plane of the newest minor, if they
// can: test/node wants a kubelet with it, test/certmanager nothing of a minor, and test/scale
// compares sizes.
var newestOnly = []string{"test/certmanager", "test/node", scaling}

// buildsFirst are the other modules whose first test run builds from Kubernetes.
var buildsFirst = []string{"test/certmanager", "test/evictor", "test/node", oracle, scaling}

// oracle is the module that asks the API server's own code.
const oracle = "test/oracle"

// tracking is the module that compares trackers.
const tracking = "test/tracker"

// scaling is the module that measures clusters of many nodes.
const scaling = "test/scale"

// olderMinors are the minors other than the newest whose control plane is tested.
var olderMinors = []string{"1.36", "1.35", "1.34"}

// kubeletVariable is the minor of the kubelet of test/node, if it is not the newest.
const kubeletVariable = "DRA_STEWARD_KUBELET"

// prose is the module that checks the texts for users.
const prose = "tools/prose"

// release and signing are the modules whose long tests build goreleaser, cosign and helm.
const (
	release = "tools/release"
	signing = "test/signing"
)

// A step is one command.
type step struct {
	name string
	dir  string
	env  []string
	args []string
	// silent steps fail when the command prints anything, as gofmt -l does.
	silent bool
	// parallel steps run at the same time as the next ones: they mostly wait.
	parallel bool
	// ownSettings steps run with the settings of their caller: the race detector and vale need a C
	// compiler, and the API server that scheduler_perf starts looks for its source.
	ownSettings bool
}

// compileOnce are the settings with which vet, staticcheck, the tests and the programs that tests
// build compile a package once, and a second clone does not compile it again.
func compileOnce() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
}

// environment is that of the command.
func (s step) environment() []string {
	if s.ownSettings {
		return append(os.Environ(), s.env...)
	}
	return append(compileOnce(), s.env...)
}

// String is the command line that runs the step alone.
func (s step) String() string {
	words := slices.Concat(s.env, []string{filepath.Base(s.args[0])}, s.args[1:])
	words = slices.DeleteFunc(words, func(word string) bool { return word == "-json" })
	if s.dir != "." {
		words = slices.Concat([]string{"cd", s.dir, "&&"}, words)
	}
	return strings.Join(words, " ")
}

// suite returns the steps of the suite of that name, for the repository in root.
func suite(name, root string) ([]step, error) {
	modules, err := findModules(root)
	if err != nil {
		return nil, err
	}
	switch name {
	case "lint":
		return lint(modules)
	case "short", "all":
		steps, err := lint(modules)
		if name == "short" {
			modules = slices.DeleteFunc(modules, func(module string) bool {
				return slices.Contains(slices.Concat(controlPlane, newestOnly), module)
			})
		}
		for _, module := range inOrder(modules) {
			s := test(module)
			if os.Getenv("CI") == "true" {
				s = again(s)
			}
			steps = append(steps, s)
		}
		return steps, err
	case "long":
		performance, err := performanceSteps(root, modules)
		return append(long(modules), performance...), err
	}
	return nil, fmt.Errorf("no suite %q: want short, all, long or lint", name)
}

// findModules lists the folders with a go.mod, the root first, so that a new module
// is tested from its first day.
func findModules(root string) (modules []string, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.Name() == "go.mod":
			modules = append(modules, filepath.ToSlash(filepath.Dir(name)))
		}
		return nil
	})
	slices.Sort(modules)
	return modules, err
}

// inOrder puts what runs alone first and what mostly waits before the rest, which runs at
// the same time.
func inOrder(modules []string) []string {
	rank := func(module string) int {
		switch {
		case module == "." || slices.Contains(controlPlane, module):
			return 0
		case slices.Contains(waiting, module):
			return 1
		}
		return 2
	}
	return slices.SortedStableFunc(slices.Values(modules), func(a, b string) int { return rank(a) - rank(b) })
}

func lint(modules []string) ([]step, error) {
	staticcheck, err := toolPath("staticcheck")
	if err != nil {
		return nil, err
	}
	return lintSteps(modules, staticcheck), nil
}

func lintSteps(modules []string, staticcheck string) []step {
	steps := []step{{name: "format", dir: ".", args: []string{"gofmt", "-l", "."}, silent: true}}
	for _, module := range modules {
		steps = append(steps,
			step{name: "vet " + module, dir: module, args: []string{"go", "vet", "./..."}},
			step{name: "staticcheck " + module, dir: module, args: []string{staticcheck, "./..."}})
	}
	if slices.Contains(modules, prose) {
		// From its folder to the root of the tree.
		steps = append(steps, step{name: "prose", dir: prose, ownSettings: true, args: []string{"go", "run", ".", "../.."}})
	}
	return steps
}

// test returns the step that tests one module. Lint has vetted its packages.
func test(module string) step {
	args, packages := []string{"go", "test", "-json", "-vet=off"}, append(slices.Clone(longest[module]), "./...")
	switch {
	case slices.Contains(controlPlane, module):
		// Their packages wait three quarters of the time: three more than the two cores.
		args = append(args, "-p=5")
	case module == ".": // the first one waits half of the time
		args = append(args, "-p=3")
	}
	if slices.Contains(controlPlane, module) || slices.Contains(buildsFirst, module) {
		// The first run builds Kubernetes.
		args = append(args, "-timeout=60m")
	}
	return step{name: "test " + module, dir: module, ownSettings: module == prose, args: append(args, packages...), parallel: slices.Contains(waiting, module)}
}

// again runs tests whose results go test keeps: it does not see what programs that tests start read, nor what
// TestMain reads of the environment.
func again(s step) step {
	s.args = slices.Insert(s.args, 2, "-count=1")
	return s
}

func long(modules []string) (steps []step) {
	for _, module := range modules {
		if module == oracle {
			s := test(module)
			s.name += " on all minors"
			s.env = []string{"DRA_STEWARD_ORACLE=all"}
			steps = append(steps, again(s))
		}
	}
	for _, minor := range olderMinors {
		for _, module := range modules {
			if slices.Contains(controlPlane, module) {
				s := test(module)
				s.name += " on " + minor
				s.env = []string{"DRA_STEWARD_KUBERNETES=" + minor}
				steps = append(steps, again(s))
			}
		}
	}
	if slices.Contains(modules, ".") {
		steps = append(steps, step{name: "root module with the race detector", dir: ".", ownSettings: true, args: []string{"go", "test", "-json", "-vet=off", "-count=1", "-race", "-timeout=60m", "./..."}})
		steps = append(steps, step{
			name: "README.md in a fresh clone", dir: ".", env: []string{"DRA_STEWARD_LONG=1"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=^TestReadme$", "./tools/doctest"},
		})
	}
	steps = append(steps, longRelease(modules)...)
	steps = append(steps, slices.Concat(campaigns(modules), oldTrackers(modules))...)
	if slices.Contains(modules, "test/node") {
		steps = append(steps, onKubelets("drivers that end before their pods", "^Test(DriverPods|SharedClaim)$"), onKubelets("rolls over three kubelets", "^TestRoll$"))
		steps = append(steps, onKubelets("image, chart and node agent in containerd", "^Test(Containerd|ContainerdWithoutCDI|Install)$", "DRA_STEWARD_NODE_CONTAINERD=1"))
		steps = append(steps, olderKubelets()...)
	}
	if slices.Contains(modules, "test/envtest") {
		steps = append(steps, longControlPlane()...)
	}
	if slices.Contains(modules, scaling) {
		steps = append(steps, onManyNodes("scale from 100 to 1,000 nodes", "^Test(Scale|GuardForesight|Reactions)$", "DRA_STEWARD_SCALE=100,500,1000"),
			onManyNodes("eviction with 1,000 nodes", "^TestEviction$", "DRA_STEWARD_SCALE=1000"),
			onManyNodes("drain of 4,096 devices", "^TestDrain$", "DRA_STEWARD_SCALE=1000"),
			onManyNodes("jobs replaced for 45m", "^TestChurn$", "DRA_STEWARD_CHURN=45m"))
	}
	return steps
}

// onManyNodes measures large clusters.
func onManyNodes(name, run, env string) step {
	return step{
		name: name, dir: scaling, env: []string{env},
		args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=" + run, "./measure"},
	}
}

// onKubelets are long tests of test/node.
func onKubelets(name, run string, env ...string) step {
	return step{
		name: name, dir: "test/node", env: append([]string{"DRA_STEWARD_LONG=1"}, env...),
		args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=" + run, "."},
	}
}

// olderKubelets run the scenarios of the node agent with older kubelets, on the newest control plane. Those of
// console, drains and reactions are about controllers, and run with the newest kubelet only.
func olderKubelets() (steps []step) {
	for _, minor := range olderMinors {
		steps = append(steps, onKubelets("node agent with a kubelet "+minor, "^Test(Attribution|InitContainers|DevicePlugin|Reboot|SharedClaim|Health|Resize|ForceDeletion)$", kubeletVariable+"="+minor))
	}
	return steps
}

// campaigns run random histories for as long as DRA_STEWARD_CAMPAIGN says; a failure names its seed.
func campaigns(modules []string) (steps []step) {
	for _, one := range []struct{ module, name, length, run, at string }{
		{".", "histories of patches in slices", "10m", "^TestHistories$", "./pkg/patch/record"},
		{tracking, "tracker compared with that of kube-scheduler", "50m", "^TestDifferential$", "."},
		{"test/envtest", "hostile tenants", "10m", "", "./hostile"},
		{"test/envtest", "attacks on the thresholds", "10m", "^TestThresholds$", "./guard"},
		{"test/envtest", "evictions with kills", "50m", "", "./eviction/campaign"},
		{"test/envtest", "patches in slices with kills", "50m", "", "./materialize/campaign"},
	} {
		if !slices.Contains(modules, one.module) {
			continue
		}
		args, race := []string{"go", "test", "-json", "-count=1", "-timeout=60m"}, !slices.Contains(controlPlane, one.module) && canRace()
		if race {
			args = append(args, "-race")
		}
		if one.run != "" {
			args = append(args, "-run="+one.run)
		}
		steps = append(steps, step{
			name: one.name + " for " + one.length, dir: one.module,
			env: []string{"DRA_STEWARD_CAMPAIGN=" + one.length}, ownSettings: race, args: append(args, one.at),
		})
	}
	return steps
}

// oldTrackers run the trackers of Kubernetes' modules before and after a fix.
func oldTrackers(modules []string) []step {
	if !slices.Contains(modules, tracking) {
		return nil
	}
	return []step{{
		name: "the panic of older trackers", dir: tracking, env: []string{"DRA_STEWARD_LONG=1"},
		args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=^TestPanic$", "."},
	}}
}

// longControlPlane are the tests on a control plane that take minutes each.
func longControlPlane() []step {
	return []step{
		longTests("drains and eviction", "Test(Auto|Thousand|Long)", "./drain", "./eviction"),
		{
			name: "rolls, reactions and EvictionRequests", dir: "test/envtest", env: []string{"DRA_STEWARD_SLOW=1"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=^Test(Roll|Reaction|EvictionRequests)", "./drain"},
		},
		longTests("restarts, memory, uninstall and patches in slices", "Test(RollingRestart|Memory|NoFight|UninstallWithPatches|UpgradeFromBeforeReactions)", "./installed", "./materialize"),
		longTests("two profiles and capacity", "Test(TwoProfiles|Predictions)", "./scheduler", "./why"),
		longTests("builds that are reproducible", "TestReproducible", "./image"),
		{
			name: "upgrade of the cluster from 1.36 to 1.37", dir: "test/envtest", env: []string{"DRA_STEWARD_LONG=1", "DRA_STEWARD_KUBERNETES=1.36"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=^TestClusterUpgrade$", "./drain"},
		},
		{
			name: "audit of ten thousand claims", dir: "test/envtest", env: []string{"DRA_STEWARD_LONG=1"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=TestAuditMany", "./guard"},
		},
		{
			name: "long series of writes, apply and diff", dir: "test/envtest", env: []string{"DRA_STEWARD_LONG=1"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "./series"},
		},
		{
			name: "100,000 unreadable and re-encoded writes", dir: ".", env: []string{"DRA_STEWARD_LONG=1"},
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=^TestUnreadableAdmitsNothing$", "./webhook"},
		},
		predictions("360 predictions of where pods land"),
		predictions("72 predictions on 1.36", "DRA_STEWARD_KUBERNETES=1.36"),
		predictions("52 predictions on 1.35", "DRA_STEWARD_KUBERNETES=1.35"),
	}
}

// predictions are worlds in which a change is predicted and then made.
func predictions(name string, env ...string) step {
	return step{
		name: name, dir: "test/envtest", env: append([]string{"DRA_STEWARD_LONG=1"}, env...),
		args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "./foresight"},
	}
}

// longTests are the long tests of some packages of test/envtest.
func longTests(of, run string, packages ...string) step {
	return step{
		name: "long tests of " + of, dir: "test/envtest", env: []string{"DRA_STEWARD_LONG=1"},
		args: slices.Concat([]string{"go", "test", "-json", "-count=1", "-timeout=60m", "-run=" + run}, packages),
	}
}

// longRelease builds what a tag publishes, and signs it.
func longRelease(modules []string) (steps []step) {
	if slices.Contains(modules, release) {
		steps = append(steps, step{name: "release, as a snapshot for all platforms", dir: release, env: []string{"DRA_STEWARD_LONG=1"}, args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "./..."}})
	}
	if slices.Contains(modules, signing) {
		steps = append(steps, step{name: "signatures", dir: signing, env: []string{"DRA_STEWARD_LONG=1"}, args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "./..."}})
	}
	return steps
}

// canRace is true if the race detector can be built: it needs cgo.
func canRace() bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	enabled, compiler, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || enabled != "1" {
		return false
	}
	_, err = exec.LookPath(compiler)
	return err == nil
}

// toolPath builds a tool of go.tools.mod unless the cache has it, and returns its path.
// Called by its path it works in every module.
func toolPath(tool string) (string, error) {
	command := exec.Command("go", "tool", "-modfile=go.tools.mod", "-n", tool)
	command.Env, command.Stderr = compileOnce(), os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimSpace(string(out)), nil
}
