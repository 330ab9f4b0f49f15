package drain_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const maintenancePage = "../../../docs/maintenance.md"

// commandsOf are the commands of a section of the page, one each line, up to one that contains a text.
func commandsOf(t *testing.T, section, until string) (commands []string) {
	t.Helper()
	page, err := os.ReadFile(maintenancePage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, has := strings.Cut(string(page), "\n## "+section+"\n")
	if !has {
		t.Fatalf("%s has no section %q", maintenancePage, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "dra-steward ") && !strings.HasPrefix(line, "kubectl ") {
			continue
		}
		commands = append(commands, line)
		if until != "" && strings.Contains(line, until) {
			return commands
		}
	}
	return commands
}

// A shell runs commands of the page as they stand, with the names of the test and programs in PATH.
type shell struct {
	site
	dir   string
	names *strings.Replacer
}

// newShell has a node in the place of node-7, and dra-steward, kubectl and ssh in PATH.
func (s site) newShell(node string) shell {
	s.Helper()
	dir := s.TempDir()
	kubectl := cluster.Kubectl(s.Context()).Args
	programs := map[string]string{
		"kubectl":     "exec " + strings.Join(kubectl, " ") + ` "$@"`,
		"dra-steward": fmt.Sprintf("args=$1; shift; for arg; do args=\"$args\n$arg\"; done; %s=\"$args\" exec %s", argsVariable, os.Args[0]),
		"ssh":         "echo \"$@\" >> " + filepath.Join(dir, "ssh.log"),
	}
	for name, text := range programs {
		do(s, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	return shell{s, dir, strings.NewReplacer("gpu.example.com", s.driver, "gpu-driver/app=gpu-driver", driversNamespace+"/app="+s.name,
		"daemonset gpu-driver -n gpu-driver", "daemonset "+s.name+" -n "+driversNamespace, "node-7", node, "--name gpu-0", "--name "+s.name,
		"--cancel gpu-0", "--cancel "+s.name, "replace-gpu", s.name)}
}

// run runs a command, and returns its exit code.
func (s shell) run(command string) int {
	s.Helper()
	run := exec.CommandContext(s.Context(), "/bin/sh", "-c", s.names.Replace(command))
	run.Env = append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig())
	out, err := run.CombinedOutput()
	s.Logf("$ %s\n%s", s.names.Replace(command), out)
	if run.ProcessState == nil {
		s.Fatal(err)
	}
	return run.ProcessState.ExitCode()
}

// runAll runs the commands of a section, which all succeed.
func (s shell) runAll(commands []string) {
	s.Helper()
	if len(commands) < 2 {
		s.Fatalf("commands: %q", commands)
	}
	for _, command := range commands {
		if code := s.run(command); code != 0 {
			s.Fatalf("%s: exit code %d", command, code)
		}
	}
}

// TestPageDrainsANode types what the page says of a node.
func TestPageDrainsANode(t *testing.T) {
	s := newSite(t, "pagenode", perNode)
	s.ghost("pagenode-ghost")
	shell := s.newShell("pagenode-ghost")
	shell.runAll(commandsOf(t, "Drain a node", "firmware-update"))
	if did, err := os.ReadFile(filepath.Join(shell.dir, "ssh.log")); err != nil || string(did) != "pagenode-ghost sudo firmware-update\n" {
		t.Errorf("%q %v", did, err)
	}
}

// TestPageReplacesAGPU types what the page says of a device.
func TestPageReplacesAGPU(t *testing.T) {
	s := newSite(t, "pagegpu", perNode)
	s.ghost("pagegpu-ghost")
	s.newShell("pagegpu-ghost").runAll(commandsOf(t, "Replace a GPU", ""))
	s.completed()
}

// TestPageUpgradesADriver types what the page says of a driver. Its canary waits, with exit code 1.
func TestPageUpgradesADriver(t *testing.T) {
	s := newSite(t, "pagedriver", perNode)
	d := s.drive()
	s.replicas("web", 1, "")
	shell := s.newShell("node-1")
	commands := commandsOf(t, "Upgrade a driver", "--continue gpu.example.com --wait")
	if len(commands) != 4 {
		t.Fatalf("%q", commands)
	}
	s.removeRoll()
	for i, want := range []int{0, 0, 1, 0} {
		if i == 2 {
			commands[i] += " --name " + s.name + " --acknowledge '" + otherTests + "'"
		}
		if code := shell.run(commands[i]); code != want {
			t.Fatalf("%s: exit code %d, want %d", commands[i], code, want)
		}
	}
	s.completed()
	d.replaced("node-0", "node-1", "node-2")
}
