package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
	"github.com/dra-steward/dra-steward/tools/build"
)

// many is how many claims TestAuditMany stores.
const many = 10_000

// maxAuditMemory bounds the greatest resident memory of an audit, in MB: pages of lists are
// judged as they come and not kept.
const maxAuditMemory = 250

// TestAuditMany: an audit of ten thousand claims stays small, finds every bad one, and a
// second run writes the same bytes.
func TestAuditMany(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("ten thousand claims take minutes; make test-long runs it")
	}
	binary := filepath.Join(t.TempDir(), "dra-steward")
	if err := build.Program(t.Context(), build.Options{Tree: "../../..", Output: binary}); err != nil {
		t.Fatal(err)
	}
	c := client(t, cluster.Config())
	claims := map[string][]resourceapi.DeviceToleration{}
	for i := range many {
		tolerations := []resourceapi.DeviceToleration{{Key: fmt.Sprintf("example.com/fault-%d", i%50), Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		if i%100 == 0 {
			tolerations = append(tolerations, resourceapi.DeviceToleration{})
		}
		claims[fmt.Sprintf("claim-%05d", i)] = tolerations
	}
	auditNamespace(t, c, "audit-many", claims)
	t.Cleanup(func() {
		_ = c.ResourceV1().ResourceClaims("audit-many").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	var first []byte
	for run := range 2 {
		audit := exec.CommandContext(t.Context(), binary, "audit", "--kubeconfig", cluster.Kubeconfig(), "--namespace", "audit-many", "-o", "json")
		var written, problems bytes.Buffer
		audit.Stdout, audit.Stderr = &written, &problems
		begin := time.Now()
		most, err := testmemory.Run(audit)
		out := written.Bytes()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != cmdutil.ExitFindings {
			t.Fatalf("%v\n%s", err, problems.String())
		}
		memory := most >> 20
		t.Logf("run %d: %d claims, %v, %d MB at most, %d bytes written", run+1, many, time.Since(begin).Round(time.Millisecond), memory, len(out))
		if memory > maxAuditMemory {
			t.Errorf("%d MB, want at most %d", memory, maxAuditMemory)
		}
		if got := bytes.Count(out, []byte(`"DRA-TOL-001"`)); got < many/100 {
			t.Errorf("%d mentions of DRA-TOL-001, want one for each of %d bad claims", got, many/100)
		}
		if run > 0 && !bytes.Equal(first, out) {
			t.Error("the second run writes other bytes")
		}
		first = out
	}
}
