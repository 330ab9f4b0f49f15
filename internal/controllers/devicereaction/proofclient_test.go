package devicereaction_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/devicereaction"
)

// TestOutput: the end of the newest pod of a Job is one bounded line without control characters,
// whatever the pod writes.
func TestOutput(t *testing.T) {
	failed := corev1.ContainerStatus{Name: "check", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}
	pod := func(name string, age time.Duration, status corev1.PodStatus) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "proofs", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-age))}, Status: status}
		p.Spec.Containers = []corev1.Container{{Name: "check"}}
		return p
	}
	for name, tt := range map[string]struct {
		pods []corev1.Pod
		log  string
		code int
		want string
	}{
		"the last line":     {[]corev1.Pod{pod("new", 0, corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{failed}}), pod("old", time.Hour, corev1.PodStatus{Phase: corev1.PodSucceeded})}, "one\ntoo slow\n\n", 200, "container check, exit code 3: too slow"},
		"escape sequences":  {[]corev1.Pod{pod("a", 0, corev1.PodStatus{Phase: corev1.PodSucceeded})}, "\x1b[2J\x1b]0;owned\x07 fine", 200, `\u001b[2J\u001b]0;owned\u0007 fine`},
		"an endless line":   {[]corev1.Pod{pod("a", 0, corev1.PodStatus{Phase: corev1.PodSucceeded})}, strings.Repeat("a", 1<<20), 200, strings.Repeat("a", 253) + "…"},
		"nothing":           {[]corev1.Pod{pod("a", 0, corev1.PodStatus{Phase: corev1.PodSucceeded})}, "", 200, "its log is empty"},
		"no log":            {[]corev1.Pod{pod("a", 0, corev1.PodStatus{Phase: corev1.PodSucceeded})}, "", 500, "its log cannot be read: "},
		"no pod":            {nil, "", 200, "no pod: see the events of the Job"},
		"it is unscheduled": {[]corev1.Pod{pod("a", 0, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}})}, "", 200, "pod a does not run: 0/1 nodes are available"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/log") {
					rw.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(rw).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: tt.pods})
					return
				}
				if strings.HasSuffix(r.URL.Path, "/old/log") {
					t.Error("the log of the older pod was read")
				}
				rw.WriteHeader(tt.code)
				_, _ = rw.Write([]byte(tt.log))
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			got := devicereaction.ProofClient{Client: client, Namespace: "proofs"}.Output(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "proofs", Name: "job"}})
			if got != tt.want && (tt.code == 200 || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
