package roll

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
)

// firmware is a roll that waits for work on nodes.
func firmware(nodes ...string) *v1alpha1.DeviceRoll {
	r := &v1alpha1.DeviceRoll{TypeMeta: metav1.TypeMeta{Kind: "DeviceRoll", APIVersion: v1alpha1.APIVersion}, ObjectMeta: metav1.ObjectMeta{Name: "firmware", ResourceVersion: "1"}}
	r.Spec.NodeWork = &v1alpha1.RollNodeWork{}
	for _, node := range nodes {
		r.Status.Nodes = append(r.Status.Nodes, v1alpha1.RollNode{Name: node, State: v1alpha1.RollWorking})
	}
	return r
}

// served serves a roll, which is complete when no node waits for work. First, before sees each request, and refuses it
// with a status other than 0.
func served(t *testing.T, r *v1alpha1.DeviceRoll, before func(request *http.Request) (status int)) *ownclient.RollClient {
	var mutex sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if status := before(request); status != 0 {
			w.WriteHeader(status)
			return
		}
		if request.Method == http.MethodPut {
			next := v1alpha1.DeviceRoll{}
			_ = json.NewDecoder(request.Body).Decode(&next)
			if next.ResourceVersion != r.ResourceVersion {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict})
				return
			}
			next.ResourceVersion += "1"
			if *r = next; ready(r) == "" {
				r.Status.CompletionTime = &metav1.Time{Time: time.Now()}
			}
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	t.Cleanup(server.Close)
	client, err := ownclient.NewRollClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func works(t *testing.T) *ownclient.RollClient {
	return served(t, firmware("node-7"), func(*http.Request) int { return 0 })
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

// TestReady: the command works on nodes that the roll holds for it.
func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.DeviceRoll)
		want   string
	}{
		"both":           {func(*v1alpha1.DeviceRoll) {}, "node-1"},
		"one is done":    {func(r *v1alpha1.DeviceRoll) { r.Spec.WorkDone = []string{"node-1"} }, "node-2"},
		"one is skipped": {func(r *v1alpha1.DeviceRoll) { r.Spec.Skip = []string{"node-1"} }, "node-2"},
		"one has failed": {func(r *v1alpha1.DeviceRoll) { r.Status.Nodes[0].State = v1alpha1.RollFailed }, "node-2"},
		"undone":         {func(r *v1alpha1.DeviceRoll) { r.Spec.Undo = true }, ""},
		"paused":         {func(r *v1alpha1.DeviceRoll) { r.Spec.Paused = true }, "node-1"}, // drained nodes are finished
	} {
		r := firmware("node-1", "node-2")
		tt.change(r)
		if got := ready(r); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestSkippedMeanwhile: a node that is skipped while the command works on another is left alone.
func TestSkippedMeanwhile(t *testing.T) {
	file, r := filepath.Join(t.TempDir(), "log"), firmware("node-1", "node-2")
	client := served(t, r, func(*http.Request) int {
		if text, _ := os.ReadFile(file); len(text) > 0 && r.Spec.Skip == nil {
			r.Spec.Skip, r.Status.Nodes[1].State, r.ResourceVersion = []string{"node-2"}, v1alpha1.RollSkipped, r.ResourceVersion+"1"
		}
		return 0
	})
	o := &options{command: "echo $NODE >>" + file}
	var out bytes.Buffer
	err := o.follow(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, "firmware")
	if text, _ := os.ReadFile(file); err != nil || string(text) != "node-1\n" {
		t.Errorf("%v; the command worked on %q, and said\n%s", err, text, &out)
	}
}

// TestAway: an API server that is away when the command ends does not make the work be done twice.
func TestAway(t *testing.T) {
	file, r, refused := filepath.Join(t.TempDir(), "log"), firmware("node-7"), 0
	client := served(t, r, func(*http.Request) int {
		if text, _ := os.ReadFile(file); len(text) == 0 || refused > 1 {
			return 0
		}
		refused++
		return http.StatusServiceUnavailable
	})
	o := &options{command: "echo $NODE >>" + file, patience: time.Minute}
	var out bytes.Buffer
	err := o.follow(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, "firmware")
	if text, _ := os.ReadFile(file); err != nil || string(text) != "node-7\n" || len(r.Spec.WorkDone) != 1 || r.Annotations[commandAnnotation] != "" {
		t.Errorf("%v; the command worked on %q; the roll has %v, %v; it said\n%s", err, text, r.Spec.WorkDone, r.Annotations, &out)
	}
	if !strings.Contains(out.String(), "trying again for up to 1m0s") {
		t.Errorf("it said\n%s", &out)
	}
}

// TestTakenAway: a node that is taken, although the answer is lost, is this command's.
func TestTakenAway(t *testing.T) {
	file, r, lost := filepath.Join(t.TempDir(), "log"), firmware("node-7"), false
	client := served(t, r, func(request *http.Request) int {
		if lost || request.Method != http.MethodPut {
			return 0
		}
		_ = json.NewDecoder(request.Body).Decode(r)
		lost, r.ResourceVersion = true, r.ResourceVersion+"1"
		return http.StatusServiceUnavailable
	})
	o := &options{command: "echo $NODE >>" + file, patience: time.Minute}
	var out bytes.Buffer
	err := o.follow(t.Context(), cmdutil.Streams{Out: &out, Err: &out}, client, "firmware")
	if text, _ := os.ReadFile(file); err != nil || string(text) != "node-7\n" {
		t.Errorf("%v; the command worked on %q, and said\n%s", err, text, &out)
	}
}

// TestNotRecorded: when the API server stays away, the error has the command that records the work.
func TestNotRecorded(t *testing.T) {
	r := firmware("node-1", "node-7")
	r.Spec.WorkDone = []string{"node-1"}
	client := served(t, r, func(request *http.Request) int {
		if request.Method == http.MethodGet && r.Annotations[commandAnnotation] != "" {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	err := (&options{command: "true"}).follow(t.Context(), cmdutil.Streams{Out: io.Discard, Err: io.Discard}, client, "firmware")
	want := `kubectl patch deviceroll firmware --type merge -p '{"metadata":{"annotations":{"dra-steward.io/command":null}},"spec":{"workDone":["node-1","node-7"]}}'`
	if err == nil || !strings.Contains(err.Error(), "the work on node-7 is done") || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFollowAway: a read that fails does not end the waiting, unless the API server stays away.
func TestFollowAway(t *testing.T) {
	for patience, want := range map[time.Duration]bool{time.Minute: true, 0: false} {
		r, reads := firmware(), 0
		r.Status.CompletionTime = &metav1.Time{Time: time.Now()}
		client := served(t, r, func(*http.Request) int {
			if reads++; reads < 3 {
				return http.StatusServiceUnavailable
			}
			return 0
		})
		o := &options{patience: patience}
		if err := o.follow(t.Context(), cmdutil.Streams{Out: io.Discard, Err: io.Discard}, client, "firmware"); (err == nil) != want {
			t.Errorf("%s: %v", patience, err)
		}
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
