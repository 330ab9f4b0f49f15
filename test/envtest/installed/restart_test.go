package installed

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rate is how many claims are written in a second: with DRA_STEWARD_LONG, as in make
// test-long, as many as ask the webhook 500 times.
func rate() int {
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		return 500 / asksPerWrite
	}
	return 100
}

// TestRollingRestart replaces both webhooks in turn, as kubectl rollout restart does,
// while claims are written that are refused without an answer: none is refused.
func TestRollingRestart(t *testing.T) {
	c, clients := install(t, failClosed(nil))
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	before := kubelet.Pods("webhook")
	for _, pod := range before {
		memory, err := pod.Memory()
		must(t, err)
		t.Logf("%s: start to ready %v; idle %d MiB", pod.Object.Name, pod.Ready().Sub(pod.Started).Round(time.Millisecond), memory>>20)
	}
	writes := startLoad(t, rate())
	writes.sent(t, 3*rate())
	_, err := clients.AppsV1().Deployments(namespace).Patch(t.Context(), "dra-steward", types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339)), metav1.PatchOptions{})
	must(t, err)
	waitReady(t, c)
	eventually(t, "the previous ones are gone", func(context.Context) error { return count(2) })
	writes.sent(t, 3*rate())
	writes.end(t, fmt.Sprintf("a rolling restart at %d writes a second", rate()))
	for _, pod := range kubelet.Pods("webhook") {
		for _, previous := range before {
			if pod.Object.UID == previous.Object.UID {
				t.Errorf("%s was not replaced", pod.Object.Name)
			}
		}
	}
}
