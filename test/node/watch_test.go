package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/test/chart"
)

// A watch is our program on the node.
type watch struct {
	*world
	socket string

	mutex sync.Mutex // guards log
	log   bytes.Buffer
}

const metricsAddress = "127.0.0.1:18080"

func (w *watch) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.log.Write(p)
}

// startWatch runs dra-steward node watch with the rights that it needs, and no others.
func startWatch(w *world, flags ...string) *watch {
	const user = "system:serviceaccount:dra-steward:node"
	role := chartRole(w)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}}
	if _, err := w.client.RbacV1().ClusterRoles().Create(w.Context(), role, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	if _, err := w.client.RbacV1().ClusterRoleBindings().Create(w.Context(), binding, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	kubeconfig, err := inside.cluster.UserKubeconfig(user)
	if err != nil {
		w.Fatal(err)
	}
	program := &watch{world: w, socket: filepath.Join(tempDir(w), "corrected.sock")}
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, append([]string{"node", "watch", "--node-name", nodeName, "--kubeconfig", kubeconfig, "--cdi-dir", w.cdiDir,
			"--kubelet-root", kubeletRoot, "--device-plugins-dir", kubeletRoot + "/device-plugins", "--serve-socket", program.socket,
			"--metrics-address", metricsAddress, "--health-address", "127.0.0.1:18081"}, flags...),
			cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: program})
	}()
	w.Cleanup(func() {
		stop()
		if code := <-ended; code != cmdutil.ExitClean || w.Failed() {
			w.Errorf("node watch ended with %d:\n%s", code, program.log.String())
		}
	})
	return program
}

// chartRole is the role of the node agent, as the chart has it.
func chartRole(w *world) *rbacv1.ClusterRole {
	objects, err := chart.Render(map[string]any{"node": map[string]any{"enabled": true}}, chart.Options{})
	if err != nil {
		w.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" && object.GetLabels()["app.kubernetes.io/component"] == "node" {
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				w.Fatal(err)
			}
			return role
		}
	}
	w.Fatal("the chart has no role for the node agent")
	return nil
}

// metrics returns the lines of a metric.
func (w *watch) metrics(name string) (lines []string) {
	response, err := http.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(body), "\n") {
		if strings.HasPrefix(line, "dra_steward_node_"+name) {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkMetrics: the holders are those of the attribution, the corrected socket gives
// containers what they have, and a taint is shown at its holders.
func (w *watch) checkMetrics(in podresources.Input, truth map[string]string) {
	holdings := podresources.Attribute(in)
	w.eventually("all holders are shown", func(context.Context) (bool, string) {
		lines := w.metrics("device_holder_info{")
		return len(lines) == len(holdings), fmt.Sprintf("%d of %d: %s", len(lines), len(holdings), lines)
	})
	if lines := w.metrics("findings{"); strings.Contains(strings.Join(lines, " "), "} 1") || len(lines) != 6 {
		w.Errorf("nothing is wrong yet: %s", lines)
	}
	for _, line := range w.metrics("source_up{") {
		if !strings.HasSuffix(line, " 1") {
			w.Error(line)
		}
	}
	client := podresources.New(podresources.Options{Socket: w.socket})
	defer client.Close()
	listing, err := client.List(w.Context(), time.Now())
	if err != nil {
		w.Fatal(err)
	}
	corrected, _ := raw(listing)
	without := map[string]string{} // requests, which the API cannot say
	for name, devices := range truth {
		words := strings.Fields(devices)
		for i, word := range words {
			words[i] = word[:strings.LastIndex(strings.SplitN(word+"/", "/", 4)[0]+"/"+strings.SplitN(word, "/", 3)[1]+"/", "/")]
		}
		without[name] = strings.Join(words, " ")
	}
	if diff := cmp.Diff(without, corrected); diff != "" {
		w.Errorf("the corrected socket:\n%s", diff)
	}
	w.checkTaint()
}

func (w *watch) checkTaint() {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "degraded"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driverName), Pool: ptr.To(nodeName), Device: ptr.To("dev-2")},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/degraded", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}}
	if _, err := w.client.ResourceV1().DeviceTaintRules().Create(w.Context(), rule, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.eventually("the taint is shown at its holders", func(context.Context) (bool, string) {
		lines := w.metrics("device_taint_added_timestamp_seconds{")
		all := strings.Join(lines, "\n")
		return strings.Contains(all, `key="example.com/degraded"`) && strings.Contains(all, `tolerated="false"`), all
	})
}

// releases returns how many holdings were missing at most while something happens.
func (w *watch) releases(something func()) int {
	before := len(w.metrics("device_holder_info{"))
	fewest := before
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			fewest = min(fewest, len(w.metrics("device_holder_info{")))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	something()
	close(done)
	<-sampled
	return before - fewest
}

// checkBroken: a specification was removed at a time; metric and event say so.
func (w *watch) checkBroken(removed time.Time) {
	w.eventually("the metric shows the broken ids", func(context.Context) (bool, string) {
		lines := w.metrics("cdi_unresolvable{")
		return len(lines) == 6, strings.Join(lines, "\n") // three devices, in two containers each
	})
	w.Logf("a removed specification is shown after %s", time.Since(removed).Round(time.Millisecond))
	w.eventually("an event is on the pod", func(ctx context.Context) (bool, string) {
		events, err := w.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=requests,reason=CDIUnresolvable"})
		if err != nil || len(events.Items) == 0 {
			return false, fmt.Sprint("events: ", err)
		}
		return events.Items[0].Type == corev1.EventTypeWarning, ""
	})
}
