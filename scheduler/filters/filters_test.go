// Package filters compares where pods land by package placement with the filters of kube-scheduler.
package filters

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

var (
	pairs = flag.Int("pairs", 3_000, "pairs of a pod and a node for each filter")
	seed  = flag.Uint64("seed", 0, "of the first world; 0 is that of the time")
)

// TestFilters compares each filter on random worlds.
func TestFilters(t *testing.T) {
	metrics.Register()
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d -pairs %d", first, *pairs)
	for name, about := range filters() {
		t.Run(name, func(t *testing.T) {
			refused := 0
			done := 0
			for world := first; done < *pairs; world++ {
				w := newWorld(world, name, about)
				theirs, err := w.theirs(t.Context(), name)
				if err != nil {
					t.Fatalf("seed %d: %v", world, err)
				}
				for i := range w.waiting {
					for j, n := range w.nodes {
						ours, reason := w.ours(t.Context(), w.waiting[i], n.Name)
						if ours != theirs[i][j] {
							w = w.smallest(t, name, i, n.Name)
							t.Fatalf("seed %d: kube-scheduler places %t, placement %t (%s), in\n%s", world, theirs[i][j], ours, reason, w)
						}
						if done++; !ours {
							refused++
						}
					}
				}
			}
			if refused < done/50 || refused > done-done/50 {
				t.Errorf("%d of %d pairs do not fit: the worlds say little", refused, done)
			}
			t.Logf("%d pairs, of which %d do not fit", done, refused)
		})
	}
}

// lister gives plugins the nodes of a world.
type lister struct{ *cache.Snapshot }

// theirs asks a plugin of kube-scheduler about each pod and node.
func (w *world) theirs(ctx context.Context, name string) (fits [][]bool, _ error) {
	objects := make([]runtime.Object, 0, len(w.namespaces)+len(w.volumes)+len(w.volumeClaims))
	for _, n := range w.namespaces {
		objects = append(objects, n)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	for _, n := range w.namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(n); err != nil {
			return nil, err
		}
	}
	for _, v := range w.volumes {
		if err := factory.Core().V1().PersistentVolumes().Informer().GetIndexer().Add(v); err != nil {
			return nil, err
		}
	}
	for _, c := range w.volumeClaims {
		if err := factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(c); err != nil {
			return nil, err
		}
	}
	snapshot := cache.NewSnapshot(w.pods, w.nodes)
	profile := &config.KubeSchedulerProfile{SchedulerName: "default-scheduler", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: "PrioritySort"}}}, Bind: config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}}},
		PreFilter: config.PluginSet{Enabled: []config.Plugin{}}, Filter: config.PluginSet{Enabled: []config.Plugin{{Name: name}}},
	}}
	if hasPreFilter(name) {
		profile.Plugins.PreFilter.Enabled = []config.Plugin{{Name: name}}
	}
	args, err := argsOf(name)
	if err != nil {
		return nil, err
	}
	if args != nil {
		profile.PluginConfig = []config.PluginConfig{{Name: name, Args: args}}
	}
	f, err := schedulerruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, schedulerruntime.WithSnapshotSharedLister(lister{snapshot}),
		schedulerruntime.WithInformerFactory(factory), schedulerruntime.WithClientSet(fake.NewClientset()), schedulerruntime.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	for _, pod := range w.waiting {
		row := make([]bool, len(w.nodes))
		state := framework.NewCycleState()
		result, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
		for i, n := range w.nodes {
			if !status.IsSuccess() && !status.IsSkip() || !result.AllNodes() && !result.NodeNames.Has(n.Name) {
				continue
			}
			info, err := snapshot.NodeInfos().Get(n.Name)
			if err != nil {
				return nil, err
			}
			row[i] = f.RunFilterPlugins(ctx, state, pod, info).IsSuccess()
		}
		fits = append(fits, row)
	}
	return fits, nil
}

var _ fwk.SharedLister = lister{}

// hasPreFilter reports whether a plugin prepares its filter.
func hasPreFilter(name string) bool {
	return name != "NodeUnschedulable" && name != "NodeName" && name != "TaintToleration"
}

// argsOf are the arguments that a plugin has by default.
func argsOf(name string) (runtime.Object, error) {
	gvk := config.SchemeGroupVersion.WithKind(name + "Args")
	args, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: "+gvk.Kind+"\n"), nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	}
	return args, err
}

// ours asks placement.
func (w *world) ours(ctx context.Context, pod *corev1.Pod, node string) (bool, string) {
	c := placement.Cluster{Nodes: w.nodes, Pods: w.pods, Namespaces: w.namespaces,
		Storage: placement.Storage{VolumeClaims: w.volumeClaims, Volumes: w.volumes}}
	if w.simulation == nil {
		w.simulation = c.Begin()
	}
	asked := *pod
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node {
		return false, "NodeName"
	}
	asked.Spec.NodeName = node
	r, err := w.simulation.Fits(ctx, &asked)
	if err != nil {
		return false, err.Error()
	}
	return r.Lands(), r.Reason.Message
}

// smallest removes what a disagreement does not need.
func (w *world) smallest(t *testing.T, name string, pod int, node string) *world {
	now := &world{waiting: []*corev1.Pod{w.waiting[pod]}, nodes: w.nodes, pods: w.pods, namespaces: w.namespaces, volumes: w.volumes, volumeClaims: w.volumeClaims}
	disagrees := func(w *world) bool {
		w.simulation = nil
		theirs, err := w.theirs(t.Context(), name)
		for i, n := range w.nodes {
			if n.Name == node && err == nil {
				ours, _ := w.ours(t.Context(), w.waiting[0], node)
				return ours != theirs[0][i]
			}
		}
		return false
	}
	for smaller := true; smaller; {
		smaller = false
		for i := range now.pods {
			try := *now
			try.pods = without(now.pods, i)
			if disagrees(&try) {
				now, smaller = &try, true
				break
			}
		}
		for i := range now.nodes {
			try := *now
			try.nodes = without(now.nodes, i)
			if disagrees(&try) {
				now, smaller = &try, true
				break
			}
		}
	}
	return now
}

func without[T any](all []T, i int) []T {
	return append(append([]T{}, all[:i]...), all[i+1:]...)
}

func (w *world) String() (text string) {
	add := func(object any) {
		data, err := yaml.Marshal(object)
		if err != nil {
			data = []byte(err.Error())
		}
		text += "---\n" + string(data)
	}
	for _, n := range w.nodes {
		add(n)
	}
	for _, p := range append(w.pods, w.waiting...) {
		add(p)
	}
	return text
}

// A world is a cluster, and pods that wait in it.
type world struct {
	nodes         []*corev1.Node
	pods, waiting []*corev1.Pod
	namespaces    []*corev1.Namespace
	volumes       []*corev1.PersistentVolume
	volumeClaims  []*corev1.PersistentVolumeClaim
	simulation    *placement.Simulation
}

// newWorld makes one whose pods are about one filter.
func newWorld(seed uint64, filter string, about func(*maker, *corev1.Pod)) *world {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 7)), filter: filter, world: &world{}}
	for _, name := range []string{"a", "b", "c"} {
		m.world.namespaces = append(m.world.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: m.labels()}})
	}
	for i := range 1 + m.IntN(6) {
		m.world.nodes = append(m.world.nodes, m.node(fmt.Sprintf("n%d", i)))
	}
	m.storage()
	for i := range pick(m, 0, 2, 5, 12) {
		pod := m.pod(fmt.Sprintf("p%d", i), about)
		pod.Spec.NodeName = m.world.nodes[m.IntN(len(m.world.nodes))].Name
		if m.IntN(8) == 0 {
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		m.world.pods = append(m.world.pods, pod)
	}
	for i := range 1 + m.IntN(4) {
		m.world.waiting = append(m.world.waiting, m.pod(fmt.Sprintf("w%d", i), about))
	}
	return m.world
}
