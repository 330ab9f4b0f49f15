// Package causes_test checks what `why` reports as the cause of a pending pod: for each
// cause, kube-scheduler leaves the pod pending, the first line of `why` names the cause, and
// the remedy of the second line, carried out as printed, lets kube-scheduler place the pod.
package causes_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// asCommand makes the test binary the program itself, so that a shell can run remedies.
const asCommand = "DRA_STEWARD_TEST_AS_COMMAND"

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	options := envtest.Options{ControllerManager: true, Scheduler: true, Kubectl: true, DeviceTaintRules: true, Nodes: []string{"node-0", "node-1"}}
	switch minor() {
	case "1.37":
		options.FeatureGates = map[string]bool{"GenericWorkload": true}
		options.RuntimeConfig = map[string]bool{"scheduling.k8s.io/v1beta1": true}
	case "1.35", "1.34":
		options.FeatureGates = map[string]bool{"DRAConsumableCapacity": true, "DRADeviceBindingConditions": true, "DRAExtendedResource": true, "DRAPartitionableDevices": true}
	}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}

// minor is that of the control plane.
func minor() string {
	parts := strings.SplitN(cmp.Or(os.Getenv(assets.VersionVariable), assets.DefaultVersion), ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// A world is the namespace of a case, with a driver and a class of its own.
type world struct {
	*testing.T
	name    string
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// path is the PATH in which remedies run.
	path string
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// resources are those that cases create, by kind.
func resources() map[string]schema.GroupVersionResource {
	dra := schema.GroupVersion{Group: "resource.k8s.io", Version: "v1"}
	core := schema.GroupVersion{Version: "v1"}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return map[string]schema.GroupVersionResource{
		"DeviceClass": dra.WithResource("deviceclasses"), "ResourceSlice": dra.WithResource("resourceslices"), "DeviceTaintRule": dra.WithResource("devicetaintrules"),
		"ResourceClaim": dra.WithResource("resourceclaims"), "ResourceClaimTemplate": dra.WithResource("resourceclaimtemplates"),
		"Pod": core.WithResource("pods"), "ResourceQuota": core.WithResource("resourcequotas"), "Namespace": core.WithResource("namespaces"),
		"Deployment": apps.WithResource("deployments"), "ReplicaSet": apps.WithResource("replicasets"), "StatefulSet": apps.WithResource("statefulsets"),
		"Job": {Group: "batch", Version: "v1", Resource: "jobs"}, "PodGroup": {Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"},
	}
}

// create makes the objects of a manifest, in which $ is the name of the case.
func (w *world) create(manifest string) {
	w.Helper()
	for document := range strings.SplitSeq(strings.ReplaceAll(manifest, "$", w.name), "\n---\n") {
		object := &unstructured.Unstructured{}
		w.must(utilyaml.Unmarshal([]byte(document), &object.Object))
		group, _, found := strings.Cut(object.GetAPIVersion(), "/")
		if !found {
			group = ""
		}
		resource, known := resources()[object.GetKind()]
		if !known || resource.Group != group {
			w.Fatalf("%s %s: not a resource of this test", object.GetAPIVersion(), object.GetKind())
		}
		if object.GetKind() == "DeviceTaintRule" {
			resource = cluster.DeviceTaintRules()
			object.SetAPIVersion(resource.GroupVersion().String())
		}
		var into dynamic.ResourceInterface = w.dynamic.Resource(resource)
		switch object.GetKind() {
		case "DeviceClass", "ResourceSlice", "DeviceTaintRule", "Namespace":
		default:
			into = w.dynamic.Resource(resource).Namespace(w.name)
		}
		_, err := into.Create(w.Context(), object, metav1.CreateOptions{FieldValidation: "Strict"})
		w.must(err)
	}
}

// pod returns the pod of the case, nil while it is being replaced.
func (w *world) pod(name string) *corev1.Pod {
	pod, err := w.client.CoreV1().Pods(w.name).Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return pod
}

// eventually polls until a condition holds, and fails with the last message otherwise.
func (w *world) eventually(holds func() (bool, string)) {
	w.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, message := holds()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatal(message)
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		}
	}
}

// runs waits until the scheduler has placed a pod.
func (w *world) runs(name string) {
	w.Helper()
	w.eventually(func() (bool, string) {
		pod := w.pod(name)
		if pod == nil {
			return false, "the pod does not exist"
		}
		return pod.Spec.NodeName != "", fmt.Sprintf("pod %s is pending: %+v", name, pod.Status.Conditions)
	})
}

// why runs the command and returns its output and exit code.
func (w *world) why(args ...string) (out string, code int) {
	var stdout, stderr bytes.Buffer
	args = append([]string{"why", "-n", w.name, "--kubeconfig", cluster.Kubeconfig()}, args...)
	code = cli.Run(w.Context(), args, cmdutil.Streams{Out: &stdout, Err: &stderr})
	if code == cmdutil.ExitFailed {
		w.Fatalf("%q: %s", args, stderr.String())
	}
	return stdout.String(), code
}

// typing is the editor of a person who corrects a class: a domain, and an attribute that is no number.
const typing = "KUBE_EDITOR=sed -i -e s/example.org/example.com/ -e s/>.3/!=string(3)/"

// shell runs a remedy as a person would type it.
func (w *world) shell(command string) {
	w.Helper()
	c := exec.CommandContext(w.Context(), "sh", "-e", "-c", command)
	c.Env = append(os.Environ(), "PATH="+w.path, "KUBECONFIG="+cluster.Kubeconfig(), "KUBERC=off", "KUBECACHEDIR="+w.TempDir(), typing)
	if out, err := c.CombinedOutput(); err != nil {
		w.Fatalf("%s\n%v\n%s", command, err, out)
	}
}

// programs makes a folder with kubectl and dra-steward, and returns a PATH that begins with
// it.
func programs(t *testing.T) string {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(cluster.Kubectl(t.Context()).Path, filepath.Join(dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asCommand, self)
	if err := os.WriteFile(filepath.Join(dir, "dra-steward"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}
