package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// holdings are those of containers, as the sources have them now.
func (w *world) holdings() map[string]string {
	w.Helper()
	client := podresources.New(podresources.Options{})
	defer client.Close()
	return attributed(podresources.Attribute(w.read(client)))
}

// createShared creates a class and a claim of one device.
func (w *world) createShared() {
	w.createClass()
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: claimSpec(exactly("r", 1))})
}

// TestReboot: a node starts again. Its CDI files are gone with /run, and so are its containers;
// the kubelet's checkpoint is there. Until the kubelet has prepared the claims again they are
// findings.
func TestReboot(t *testing.T) {
	w := newWorld(t)
	w.createShared()
	w.run(pod("default", "rebooted", named("shared"), container("main", corev1.ResourceClaim{Name: "c"})))
	truth, prepared := w.environments(), w.driver.prepared()
	w.kubelet.stop(t)
	files, err := filepath.Glob(filepath.Join(w.cdiDir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("CDI files: %v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	w.runtime.reboot()
	if code, out := w.nodeCheck(); code != cmdutil.ExitFindings || !strings.Contains(out, "no-spec") || !strings.Contains(out, "claim default/shared") {
		t.Errorf("node check after the reboot: %d %s", code, out)
	}
	w.kubelet.start(t)
	w.eventually("the container runs again, with its device", func(context.Context) (bool, string) {
		now := w.environments()
		return w.driver.prepared() > prepared && cmp.Equal(truth, now), fmt.Sprint(now, w.runtime.failure("rebooted", "main"))
	})
	w.eventually("the kubelet lists the pod", func(context.Context) (bool, string) {
		now := w.holdings()
		return cmp.Equal(truth, now), fmt.Sprint(now)
	})
	if code, out := w.nodeCheck(); code != cmdutil.ExitClean {
		t.Errorf("node check at the end: %d %s", code, out)
	}
}
