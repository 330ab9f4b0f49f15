package scheduler_test

import (
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// On an API server of 1.36, which Kubernetes does not support for a scheduler of 1.37, ours does not
// begin to lead: DeviceTaintRules of resource.k8s.io/v1 are not served there. Without that gate it
// binds pods by patches.
func TestOlderServer(t *testing.T) {
	if version := os.Getenv(assets.VersionVariable); version != "1.36" {
		t.Skipf("needs an API server of 1.36, and %s is %q; make test-long sets it to 1.36", assets.VersionVariable, version)
	}
	w := startWith(t, envtest.Options{Kubernetes: "1.36", Nodes: []string{"node-0"}})
	w.installType(t)
	w.grant(t)
	w.publish(t, "node-0", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"})
	w.patch(t, "rack", `{filter: {device: b}, attributes: {dc.example.com/rack: {string: r12}}}`)
	w.ask(t, "patched", "", `device.attributes["dc.example.com"].?rack.orValue("") == "r12"`)
	r := w.replica(t)
	eventually(t, "the scheduler asks for what is not served", func() bool { return strings.Contains(r.text(t), "failed to list *v1.DeviceTaintRule") })
	if holder, device := w.holder(t), w.device(t, "patched"); holder != "" || device != "" {
		t.Errorf("%q leads, the pod has %q", holder, device)
	}
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait() // it was killed
	w.replica(t, "--feature-gates=DRADeviceTaintRules=false")
	if got := w.isBound(t, "patched"); got != "node-0/b" {
		t.Errorf("the pod has %s", got)
	}
}
