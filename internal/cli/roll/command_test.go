package roll

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/roll"
)

func works(t *testing.T) *roll.Client {
	r := v1alpha1.DeviceRoll{TypeMeta: metav1.TypeMeta{Kind: "DeviceRoll", APIVersion: v1alpha1.APIVersion}, ObjectMeta: metav1.ObjectMeta{Name: "firmware"}}
	r.Spec.NodeWork = &v1alpha1.RollNodeWork{}
	r.Status.Nodes = []v1alpha1.RollNode{{Name: "node-7", State: v1alpha1.RollWorking}}
	var mutex sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if request.Method == http.MethodPut {
			next := v1alpha1.DeviceRoll{}
			_ = json.NewDecoder(request.Body).Decode(&next)
			if next.ResourceVersion != r.ResourceVersion {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict})
				return
			}
			next.ResourceVersion += "1"
			if r = next; len(r.Spec.WorkDone) > 0 {
				r.Status.CompletionTime = &metav1.Time{Time: time.Now()}
			}
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	t.Cleanup(server.Close)
	client, err := roll.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestTimeout: the time to wait does not end the work on a node.
func TestTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	o := &options{command: "echo begin >>" + file + "; sleep 2; echo end >>" + file, timeout: time.Second}
	var out bytes.Buffer
	err := o.follow(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, works(t), "firmware")
	text, _ := os.ReadFile(file)
	if !strings.Contains(string(text), "end") || err != nil && !errors.Is(err, cmdutil.ErrFindings) {
		t.Errorf("the work: %q; the command: %v", text, err)
	}
}

// TestTwice: the same command again shows the progress, and does not do the work once more.
func TestTwice(t *testing.T) {
	file, client := filepath.Join(t.TempDir(), "log"), works(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			o := &options{command: "echo begin >>" + file + "; sleep 2"}
			var out bytes.Buffer
			_ = o.follow(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, "firmware")
		})
	}
	both.Wait()
	if text, _ := os.ReadFile(file); strings.Count(string(text), "begin") != 1 {
		t.Errorf("the work on node-7 began %d times", strings.Count(string(text), "begin"))
	}
}

// TestNoneAtATime: a wrong number, which the API server refuses, does not end a dry run.
func TestNoneAtATime(t *testing.T) {
	zero := int32(0)
	now := metav1.Now()
	r := &v1alpha1.DeviceRoll{Spec: v1alpha1.DeviceRollSpec{AtATime: &zero}}
	previous := v1alpha1.DeviceRoll{}
	previous.Status.Nodes = []v1alpha1.RollNode{{State: v1alpha1.RollDone, StartTime: &now, CompletionTime: &now}}
	printDuration(&bytes.Buffer{}, r, 3, []v1alpha1.DeviceRoll{previous})
}
