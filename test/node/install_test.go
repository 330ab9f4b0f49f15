package node

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
)

const (
	tree             = "../.."
	releaseName      = "dra-steward"
	releaseNamespace = "dra-steward"
	agentNamespace   = "dra-steward-nodes"
	releaseLabel     = "app.kubernetes.io/name=dra-steward"
)

// A release is dra-steward in a cluster of one node: image and chart come from a registry, as
// they do for a user.
type release struct {
	*world
	cluster  *envtest.Cluster
	registry string // its address
	// digests are those of the image by version, and scheduler is that of the image of the scheduler.
	digests   map[string]string
	scheduler string
	version   string // the one that is installed
}

// TestInstall pushes images and charts of two versions to a registry, and does with them what
// a user does: helm install, upgrade, rollback and uninstall. containerd pulls the images, runc
// runs them under the kubelet, and the API server reaches the webhook through its Service, which
// kube-proxy serves.
func TestInstall(t *testing.T) {
	if refusal != "" {
		t.Skip(refusal)
	}
	program(t, "helm")
	cluster := startNetworkedCluster(t)
	dir := tempDir(t)
	r := &release{cluster: cluster, registry: startRegistry(t)}
	r.world = newWorldIn(t, cluster, func(cdiDir string) string {
		return startContainerdWith(t, cdiDir, true, podNetworkIn(dir)).socket
	})
	startKubeProxy(t, cluster)
	r.push()
	t.Cleanup(r.describe)
	r.createClass()

	r.version = older
	r.helm(append(r.chart("install"), "--create-namespace",
		"--set", "image.registry="+r.registry, "--set", "image.repository=dra-steward", "--set", "image.digest="+r.digests[older],
		"--set", "mode=enforce", "--set", "replicaCount=2",
		"--set", "node.enabled=true", "--set", "node.namespace="+agentNamespace, "--set", "node.createNamespace=true", "--set", "node.cdiDirs={"+r.cdiDir+"}")...)
	r.checkPods()
	r.checkDenied()
	r.checkHolder()

	writer, before := r.startWriter(), r.pods()
	r.version = newer
	// Without a digest the chart takes the image of its own version.
	r.helm(append(r.chart("upgrade"), "--reuse-values", "--set", "image.digest=", "--set", "limits.requestsPerClaim=1")...)
	r.checkPods()
	r.checkReplaced(before)
	r.eventually("the new limit is in force", func(ctx context.Context) (bool, string) {
		err := r.dryRun(ctx, twoRequests())
		return err != nil && strings.Contains(err.Error(), "spec.devices.requests: Too many"), fmt.Sprint(err)
	})
	before, r.version = r.pods(), older
	r.helm("rollback", releaseName, "1", "--wait", "--timeout", "5m")
	r.checkPods()
	r.checkReplaced(before)
	r.eventually("the old limit is in force", func(ctx context.Context) (bool, string) {
		err := r.dryRun(ctx, twoRequests())
		return err == nil, fmt.Sprint(err)
	})
	writer.stop()
	r.checkScheduler()

	r.helm("uninstall", releaseName, "--wait", "--timeout", "5m")
	r.checkGone()
}

// startRegistry serves an empty registry on the loopback interface.
func startRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// checkBill: who pulls the image of this machine finds its bill of materials.
func (r *release) checkBill(tag name.Tag, bill v1.Hash) {
	r.Helper()
	pulled, err := remote.Image(tag, remote.WithContext(r.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		r.Fatal(err)
	}
	digest, err := pulled.Digest()
	if err != nil {
		r.Fatal(err)
	}
	referrers, err := remote.Referrers(tag.Context().Digest(digest.String()), remote.WithContext(r.Context()))
	if err != nil {
		r.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != bill {
		r.Errorf("%s: the image refers to %+v, %v, want the bill of materials %s", tag, manifest, err, bill)
	}
}

// helm runs helm as the administrator, with nothing of the user who runs the tests.
func (r *release) helm(arguments ...string) string {
	r.Helper()
	begin := time.Now()
	home := tempDir(r)
	command := exec.CommandContext(r.Context(), program(r, "helm"), append(arguments, "--namespace", releaseNamespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+r.cluster.Kubeconfig(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out := r.output(command)
	r.Logf("helm %s: %s", arguments[0], time.Since(begin).Round(100*time.Millisecond))
	return out
}

func (r *release) output(command *exec.Cmd) string {
	r.Helper()
	out, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// checkPods: each component runs from the image of the version in the registry, in the network of pods, and with them those
// of more. helm does not wait for the only pod of a DaemonSet, which may be unavailable.
func (r *release) checkPods(more ...string) {
	r.Helper()
	want := append([]string{"webhook", "controller", "node"}, more...)
	r.eventually(fmt.Sprint(want, " are ready in the network of pods"), func(context.Context) (bool, string) {
		ready := map[string]int{}
		for _, pod := range r.pods() {
			component := pod.Labels["app.kubernetes.io/component"]
			for _, status := range pod.Status.ContainerStatuses {
				if status.Ready && strings.HasPrefix(pod.Status.PodIP, "10.88.0.") && r.isOurs(component, status.ImageID) {
					ready[component]++
				}
			}
		}
		return len(ready) == len(want) && ready["webhook"] == 2, fmt.Sprint(ready)
	})
}

// isOurs reports whether an image is the one that was pushed for a component of the version, pulled from the registry.
func (r *release) isOurs(component, id string) bool {
	digest := r.digests[r.version]
	if component == "scheduler" {
		digest = r.scheduler
	}
	return strings.HasPrefix(id, r.registry+"/") && strings.HasSuffix(id, "@"+digest)
}

// checkReplaced: of the pods before, none is left.
func (r *release) checkReplaced(before []corev1.Pod) {
	r.Helper()
	r.eventually("all pods are replaced", func(context.Context) (bool, string) {
		now := r.pods()
		for _, pod := range before {
			if slices.ContainsFunc(now, func(one corev1.Pod) bool { return one.UID == pod.UID }) {
				return false, pod.Namespace + "/" + pod.Name + " is left"
			}
		}
		return true, ""
	})
}

// pods are those of the release.
func (r *release) pods() []corev1.Pod {
	r.Helper()
	list, err := r.client.CoreV1().Pods("").List(r.Context(), metav1.ListOptions{LabelSelector: releaseLabel})
	if err != nil {
		r.Fatal(err)
	}
	return list.Items
}

func twoRequests() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "two-"}, Spec: claimSpec(exactly("a", 1), exactly("b", 1))}
}

// violating is a claim that asks for more devices than an allocation holds.
func violating() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "violating-"}, Spec: claimSpec(exactly("gpus", 40))}
}

func (r *release) dryRun(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	_, err := r.client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// checkDenied: the API server gets the denial from the pods, and defaults from them.
func (r *release) checkDenied() {
	r.Helper()
	err := r.dryRun(r.Context(), violating())
	if err == nil || !strings.Contains(err.Error(), "claim-devices-max") {
		r.Errorf("a claim for 40 devices: got %v, want a denial by claim-devices-max", err)
	}
}

// checkHolder: a pod gets a device, and the agent on the node says so.
func (r *release) checkHolder() {
	r.Helper()
	r.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}, Spec: claimSpec(exactly("gpu", 1))})
	holder := pod("default", "holder", named("held"), container("main", corev1.ResourceClaim{Name: "c"}))
	r.run(holder)
	if environment := r.environmentOf("holder", "main"); len(environment) != 1 {
		r.Errorf("the container has the devices %v, want one", environment)
	}
	var agent string
	for _, pod := range r.pods() {
		if pod.Namespace == agentNamespace {
			agent = pod.Status.PodIP
		}
	}
	r.eventually("the agent on the node reports the holder", func(ctx context.Context) (bool, string) {
		text, err := get(ctx, "http://"+net.JoinHostPort(agent, "8080")+"/metrics")
		return err == nil && strings.Contains(text, `pod="holder"`), fmt.Sprint(err, text)
	})
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// A writer creates violating claims as a tenant does, one after the other.
type writer struct {
	*release
	cancel                   context.CancelFunc
	done                     sync.WaitGroup
	denied, failed, admitted int
	last                     error
}

// startWriter starts a writer. In mode enforce none of its claims may be stored, whatever
// happens to the pods of the webhook.
func (r *release) startWriter() *writer {
	ctx, cancel := context.WithCancel(r.Context())
	w := &writer{release: r, cancel: cancel}
	w.done.Go(func() {
		for ctx.Err() == nil {
			_, err := r.client.ResourceV1().ResourceClaims("default").Create(ctx, violating(), metav1.CreateOptions{})
			switch {
			case ctx.Err() != nil:
			case err == nil:
				w.admitted++
			case strings.Contains(err.Error(), "claim-devices-max"):
				w.denied++
			default:
				w.failed++
				w.last = err
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return w
}

func (w *writer) stop() {
	w.Helper()
	w.cancel()
	w.done.Wait()
	w.Logf("violating claims during upgrade and rollback: %d denied, %d answered by another error (the last: %v), %d admitted", w.denied, w.failed, w.last, w.admitted)
	if w.admitted > 0 || w.denied == 0 {
		w.Errorf("of the violating claims %d were admitted and %d denied, want none and some", w.admitted, w.denied)
	}
}

// checkGone: what was installed is gone, the API server asks no webhook, and the pod of the
// tenant still runs.
func (r *release) checkGone() {
	r.Helper()
	ctx := r.Context()
	hooks, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil || len(hooks.Items) != 0 {
		r.Errorf("after uninstall there are %d webhook configurations, %v", len(hooks.Items), err)
	}
	r.eventually("the pods are gone", func(context.Context) (bool, string) {
		left := r.pods()
		return len(left) == 0, fmt.Sprint(len(left), " pods")
	})
	if err := r.dryRun(ctx, violating()); err != nil {
		r.Errorf("after uninstall a claim for 40 devices is refused: %v", err)
	}
	if _, err := r.client.CoreV1().Pods("default").Get(ctx, "holder", metav1.GetOptions{}); err != nil {
		r.Errorf("the pod of the tenant: %v", err)
	}
	for _, namespace := range []string{releaseNamespace, agentNamespace} {
		if err := r.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			r.Error(err)
		}
	}
}

// describe prints what a failed test left of the release.
func (r *release) describe() {
	if !r.Failed() {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	pods, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Log(err)
		return
	}
	for _, pod := range pods.Items {
		r.Logf("pod %s/%s: %s %s\n%v\n%v", pod.Namespace, pod.Name, pod.Status.Phase, pod.Status.PodIP, pod.Status.Conditions, pod.Status.ContainerStatuses)
		files, _ := filepath.Glob(filepath.Join("/var/log/pods", pod.Namespace+"_"+pod.Name+"_*", "*", "*.log"))
		for _, file := range files {
			content, _ := os.ReadFile(file)
			r.Logf("end of %s:\n%s", filepath.Base(filepath.Dir(file)), content[max(0, len(content)-3000):])
		}
	}
	events, err := r.client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Log(err)
		return
	}
	for _, event := range events.Items {
		if event.Type != corev1.EventTypeNormal {
			r.Logf("event of %s/%s: %s: %s", event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}
