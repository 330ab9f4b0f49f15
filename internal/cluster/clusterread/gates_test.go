package clusterread

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const gateSample = `kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 0` + "\n"

// TestSchedulerMetrics: the gates come from the scheduler if it is named and may be read, else
// from the API server, else from the defaults. The token goes to the scheduler only.
func TestSchedulerMetrics(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	scheduler := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "https://registry.example.com/metrics", http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(gateSample))
		}
	}))
	defer scheduler.Close()
	var paths []string
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		if r.Header.Get("Authorization") != "" {
			t.Error("the API server got the token")
		}
		w.WriteHeader(answer)
		_, _ = w.Write([]byte(gateSample))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		metrics SchedulerMetrics
		status  int
		source  string
		taints  bool
		notes   int
		err     string
	}{
		"API server":          {SchedulerMetrics{}, 200, "the metrics of the API server", false, 0, ""},
		"forbidden":           {SchedulerMetrics{}, 403, "the defaults of Kubernetes 1.36 (metrics of the API server: forbidden)", true, 0, ""},
		"scheduler":           {SchedulerMetrics{scheduler.URL + "/metrics", token}, 403, "the metrics of kube-scheduler, " + scheduler.URL + "/metrics", false, 0, ""},
		"forbidden scheduler": {SchedulerMetrics{scheduler.URL + "/metrics", ""}, 200, "the metrics of the API server", false, 1, ""},
		"both forbidden":      {SchedulerMetrics{scheduler.URL + "/metrics", ""}, 403, "the defaults of Kubernetes 1.36 (metrics of the API server: forbidden)", true, 1, ""},
		"pod":                 {SchedulerMetrics{"kube-system/scheduler-1", ""}, 200, "the metrics of kube-scheduler, kube-system/scheduler-1", false, 0, ""},
		"pod that is missing": {SchedulerMetrics{"kube-system/scheduler-1:1234", ""}, 404, "", false, 0, "--scheduler-metrics kube-system/scheduler-1:1234: "},
		"a name":              {SchedulerMetrics{"scheduler-1", ""}, 200, "", false, 0, "must be a URL, NAMESPACE/POD or NAMESPACE/POD:PORT"},
		"a redirection":       {SchedulerMetrics{scheduler.URL + "/away", token}, 200, "", false, 0, "302 Found"},
		"a token without TLS": {SchedulerMetrics{"http://192.0.2.1/metrics", token}, 200, "", false, 0, "a token is sent by https only"},
		"a file that is not":  {SchedulerMetrics{scheduler.URL, token + "s"}, 200, "", false, 0, "--scheduler-token-file: "},
		"another kind of URL": {SchedulerMetrics{"ftp://localhost", ""}, 200, "", false, 0, "must be an http or https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			paths, answer = nil, tt.status
			l := &Snapshot{Minor: 36}
			err := tt.metrics.read(t.Context(), &reading{client: client}, l)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || l.Gates.Source != tt.source || l.Gates.Features.DeviceTaints != tt.taints || len(l.Notes) != tt.notes {
				t.Errorf("%v: %+v, notes %q", err, l.Gates, l.Notes)
			}
			if name == "pod" && (len(paths) != 1 || paths[0] != "/api/v1/namespaces/kube-system/pods/https:scheduler-1:10259/proxy/metrics") {
				t.Errorf("paths %q", paths)
			}
		})
	}
}
