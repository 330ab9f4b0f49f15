package installed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// spoken collects warnings.
type spoken struct {
	mutex sync.Mutex
	text  string
}

func (s *spoken) HandleWarningHeader(_ int, _ string, text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.text += text + "\n"
}

// onStep is nil if a claim with too many tolerations is treated as on a step.
func onStep(ctx context.Context, mode string) error {
	config, said := cluster.Config(), &spoken{}
	config.WarningHandler = said
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, badClaim(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	denied, warned := err != nil && strings.Contains(err.Error(), "request-tolerations-max"), strings.Contains(said.text, "request-tolerations-max")
	want := map[string][2]bool{"observe": {false, false}, "warn": {false, true}, "default": {true, false}, "enforce": {true, false}}[mode]
	if got := [2]bool{denied, warned}; got != want {
		return fmt.Errorf("on %s denied and warned is %v, want %v (%v)", mode, got, want, err)
	}
	return nil
}

// TestLadder climbs from observe to enforce, a helm upgrade for each step, and goes back
// with rollbacks. On each step dra-steward report says beforehand what the next ones do, to
// what is stored and to what the webhooks have seen.
func TestLadder(t *testing.T) {
	step := func(mode string) map[string]any {
		values := quick()
		values["mode"] = mode
		return values
	}
	c, clients := install(t, step("observe"))
	h := newHelm(t, clients)
	eventually(t, "observe", func(ctx context.Context) error { return onStep(ctx, "observe") })
	var stored *resourceapi.ResourceClaim
	eventually(t, "observed by every replica", func(ctx context.Context) (err error) {
		stored, err = clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, badClaim(), metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		_ = clients.ResourceV1().ResourceClaims(stored.Namespace).Delete(context.Background(), stored.Name, metav1.DeleteOptions{})
	})
	wantReport(t, stored, "observe", "default", "enforce")

	var revisions []int
	for _, mode := range []string{"warn", "default", "enforce"} {
		upgrading(t, func() {
			revisions = append(revisions, h.release(t, step(mode)))
			waitReady(t, c)
		})
		eventually(t, mode, func(ctx context.Context) error { return onStep(ctx, mode) })
		if mode == "warn" {
			wantReport(t, stored, "warn", "default", "enforce")
		}
	}
	for i, mode := range []string{"default", "warn"} {
		upgrading(t, func() {
			h.rollback(t, revisions[1-i])
			waitReady(t, c)
		})
		eventually(t, "back on "+mode, func(ctx context.Context) error { return onStep(ctx, mode) })
	}
	upgrading(t, func() {
		h.release(t, quick()) // as the other tests expect it
		waitReady(t, c)
	})
}

// wantReport runs dra-steward report: the claim would be refused on these steps and on no
// other, and the webhooks have seen such claims.
func wantReport(t *testing.T, stored *resourceapi.ResourceClaim, today string, refusing ...string) {
	t.Helper()
	var out, problems bytes.Buffer
	run := func(output string) int {
		out.Reset()
		return cli.Run(t.Context(), []string{"report", "--kubeconfig", cluster.Kubeconfig(), "-n", namespace, "-o", output}, cmdutil.Streams{Out: &out, Err: &problems})
	}
	var report struct {
		Mode     string
		Replicas int
		Notes    []string
		Steps    []struct {
			Mode    string
			Refused struct {
				Seen  int
				Codes []struct {
					Code    string
					Objects []string
					Seen    int
				}
			}
		}
	}
	eventually(t, "the replicas of the step before are gone", func(context.Context) error {
		if code := run("json"); code != cmdutil.ExitFindings {
			return fmt.Errorf("exit code %d: %s", code, problems.String())
		}
		report.Replicas, report.Notes = 0, nil
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Replicas == 2 {
			return err
		}
		return fmt.Errorf("%d replicas", report.Replicas)
	})
	// No clientCA is set, so the report says who may ask the webhook.
	if report.Mode != today || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "certificates.clientCA") {
		t.Errorf("mode %q, notes %q", report.Mode, report.Notes)
	}
	for _, step := range report.Steps {
		got := errors.New("not refused")
		for _, code := range step.Refused.Codes {
			if code.Code == "request-tolerations-max" && strings.Contains(strings.Join(code.Objects, " "), stored.Name) && code.Seen > 0 {
				got = nil
			}
		}
		if want := strings.Contains(strings.Join(refusing, " "), step.Mode); (got == nil) != want {
			t.Errorf("the step %s refuses the claim: %v, want %v\n%s", step.Mode, got == nil, want, out.String())
		}
	}
	run("text")
	t.Logf("on %s:\n%s", today, out.String())
}
