package node

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// read reads all sources of the node.
func (w *world) read(client *podresources.Client) podresources.Input {
	w.Helper()
	listing, err := client.List(w.Context(), time.Now())
	if err != nil {
		w.Fatal(err)
	}
	pods, err := w.client.CoreV1().Pods("").List(w.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		w.Fatal(err)
	}
	claims, err := w.client.ResourceV1().ResourceClaims("").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	prepared, err := checkpoint.ReadDRA(filepath.Join(kubeletRoot, checkpoint.DRAFile))
	if err != nil {
		w.Fatal(err)
	}
	in := podresources.Input{Listing: listing, Checkpoint: prepared, Pods: []*corev1.Pod{}, Claims: []*resourceapi.ResourceClaim{}}
	for i := range pods.Items {
		in.Pods = append(in.Pods, &pods.Items[i])
	}
	for i := range claims.Items {
		in.Claims = append(in.Claims, &claims.Items[i])
	}
	return in
}

// environments is the ground truth: what each container has in its environment.
func (w *world) environments() map[string]string {
	w.runtime.mutex.Lock()
	defer w.runtime.mutex.Unlock()
	return flatten(w.runtime.environments)
}

// flatten writes each container as "pod/container" -> sorted "dev_0=ns/claim/request", and devices of
// device plugins as "g_0=resource".
func flatten(environments map[string]map[string]string) map[string]string {
	flat := map[string]string{}
	for name, env := range environments {
		var devices []string
		for key, value := range env {
			for _, prefix := range []string{"DEVICE_", "PLUGIN_"} {
				if device, ok := strings.CutPrefix(key, prefix); ok {
					devices = append(devices, device+"="+value)
				}
			}
		}
		slices.Sort(devices)
		if len(devices) > 0 {
			flat[name] = strings.Join(devices, " ")
		}
	}
	return flat
}

// attributed writes holdings of containers in the same way.
func attributed(holdings []podresources.Holding) map[string]string {
	environments := map[string]map[string]string{}
	for _, h := range holdings {
		if h.Container == "" {
			continue
		}
		at := h.Pod + "/" + h.Container
		if environments[at] == nil {
			environments[at] = map[string]string{}
		}
		device := strings.ReplaceAll(h.Device, "-", "_")
		if h.Claim == "" {
			environments[at]["PLUGIN_"+device] = h.Resource
			continue
		}
		environments[at]["DEVICE_"+device] = h.Namespace + "/" + h.Claim + "/" + h.Request
	}
	return flatten(environments)
}

// raw writes the kubelet's own answer in the same way, without the requests that it
// does not have.
func raw(listing *podresources.Listing) (devices map[string]string, cdi map[string]int) {
	environments, cdi := map[string]map[string]string{}, map[string]int{}
	for _, pod := range listing.Pods {
		for _, c := range pod.GetContainers() {
			env := map[string]string{}
			for _, resource := range c.GetDynamicResources() {
				for _, d := range resource.GetClaimResources() {
					env["DEVICE_"+strings.ReplaceAll(d.GetDeviceName(), "-", "_")] = resource.GetClaimNamespace() + "/" + resource.GetClaimName()
					cdi[resource.GetClaimName()+" "+d.GetDeviceName()] = len(d.GetCdiDevices())
				}
			}
			environments[pod.GetName()+"/"+c.GetName()] = env
		}
	}
	return flatten(environments), cdi
}

// TestAttribution holds us to the environments of the containers, where the kubelet's
// own answer is wrong.
func TestAttribution(t *testing.T) {
	w := newWorld(t)
	w.createBase()
	want := 10
	all := pods()
	if !w.hasExtendedResources() {
		all = slices.DeleteFunc(all, func(p *corev1.Pod) bool { return p.Name == "extended" })
		want = 8
	}
	w.run(all...)
	client := podresources.New(podresources.Options{})
	defer client.Close()
	in := w.read(client)
	record(t, in)

	truth := w.environments()
	if len(truth) != want {
		t.Errorf("%d containers have devices, want %d: %v", len(truth), want, truth)
	}
	checkRawIsWrong(t, in.Listing)
	holdings := podresources.Attribute(in)
	if diff := cmp.Diff(truth, attributed(holdings)); diff != "" {
		t.Errorf("environments and holdings differ:\n%s", diff)
	}
	for _, h := range holdings {
		if want := cdiKind + "=" + string(h.ClaimUID) + "-" + h.Device; h.Exactness != podresources.Exact || h.Prepared != podresources.PreparedYes || !slices.Equal(h.CDIIDs, []string{want}) {
			t.Errorf("want it exact, prepared, with CDI id %s: %+v", want, h)
		}
		if h.AdminAccess != (h.Claim == "monitor") || h.PodUID == "" || h.ClaimUID == "" {
			t.Errorf("adminAccess or UIDs are wrong: %+v", h)
		}
	}
	checkPodLevel(t, holdings)
	t.Run("without sources", func(t *testing.T) { checkWithout(t, in, truth) })
	watch := startWatch(w)
	t.Run("metrics", func(t *testing.T) { watch.checkMetrics(in, truth) })
	t.Run("restart", func(t *testing.T) {
		released := watch.releases(func() { checkRestart(w, client, truth) })
		if released > 0 {
			t.Errorf("after the restart of the kubelet up to %d holdings were shown as released", released)
		}
	})
	t.Run("rate limit", func(t *testing.T) { checkRateLimit(w) })
	t.Run("broken CDI", func(t *testing.T) { checkBroken(w, in, watch) })
}

// hasExtendedResources reports whether the kubelet gives containers the devices of extended resources: with the
// gate DRAExtendedResource, which is off by default up to 1.35.
func (w *world) hasExtendedResources() bool { return w.minor >= 36 }

func checkPodLevel(t *testing.T, holdings []podresources.Holding) {
	for _, h := range holdings {
		if h.Pod == "pod-level" && h.Container == "" && h.Claim == "pod-level" && h.Request == "net" {
			return
		}
	}
	t.Error("the claim that no container refers to is missing")
}

// checkRawIsWrong fails when the kubelet is right: then this package can be simpler.
func checkRawIsWrong(t *testing.T, listing *podresources.Listing) {
	devices, cdi := raw(listing)
	if devices["requests/only-b"] != devices["requests/all"] {
		t.Errorf("the kubelet scopes devices to requests: %v", devices)
	}
	if devices["extended/first"] != devices["extended/second"] {
		t.Errorf("the kubelet scopes extended resources to containers: %v", devices)
	}
	if devices["pod-level/main"] != "" {
		t.Errorf("the kubelet lists claims that no container refers to: %v", devices)
	}
	var counts []int
	for name, n := range cdi {
		if strings.HasPrefix(name, "two-requests ") {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{1, 2, 3}) {
		t.Errorf("the kubelet does not accumulate CDI ids: %v", counts)
	}
}

// checkWithout takes sources away. Less is known, but nothing wrong is called exact.
func checkWithout(t *testing.T, in podresources.Input, truth map[string]string) {
	for name, less := range map[string]podresources.Input{
		"no checkpoint":           {Listing: in.Listing, Pods: in.Pods, Claims: in.Claims},
		"no listing":              {Pods: in.Pods, Claims: in.Claims, Checkpoint: in.Checkpoint},
		"no claims":               {Listing: in.Listing, Pods: in.Pods, Checkpoint: in.Checkpoint},
		"pods and claims":         {Pods: in.Pods, Claims: in.Claims},
		"pods and the checkpoint": {Pods: in.Pods, Checkpoint: in.Checkpoint},
		"listing only":            {Listing: in.Listing},
		"listing and checkpoint":  {Listing: in.Listing, Checkpoint: in.Checkpoint},
	} {
		holdings := podresources.Attribute(less)
		if len(holdings) == 0 {
			t.Errorf("%s: nothing is held", name)
		}
		for _, h := range holdings {
			if h.Exactness != podresources.Exact {
				continue
			}
			if h.ClaimUID != "" && !slices.Equal(h.CDIIDs, []string{cdiKind + "=" + string(h.ClaimUID) + "-" + h.Device}) {
				t.Errorf("%s: wrong CDI ids are called exact: %+v", name, h)
			}
			if h.AdminAccess != (h.Claim == "monitor") {
				t.Errorf("%s: a wrong adminAccess is called exact: %+v", name, h)
			}
			if device := strings.ReplaceAll(h.Device, "-", "_"); h.Container != "" && !strings.Contains(truth[h.Pod+"/"+h.Container], device+"="+h.Namespace+"/"+h.Claim) {
				t.Errorf("%s: a wrong holding is called exact: %+v", name, h)
			}
		}
		// With pods and claims, or the checkpoint, the devices are right even so.
		if less.Pods != nil && less.Claims != nil {
			if diff := cmp.Diff(truth, attributed(holdings)); diff != "" {
				t.Errorf("%s: environments and holdings differ:\n%s", name, diff)
			}
		}
		t.Logf("%s: %v", name, tally(holdings))
	}
}

func tally(holdings []podresources.Holding) string {
	counts := map[podresources.Exactness]int{}
	for _, h := range holdings {
		counts[h.Exactness]++
	}
	var words []string
	for _, exactness := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprint(counts[exactness], " ", exactness))
	}
	return strings.Join(words, ", ")
}
