//go:build schedulerperf

package schedulerperf_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/charts"
	"github.com/dra-steward/dra-steward/scheduler/plugin"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

const (
	// profile is that of docs/scheduler.md.
	profile = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: DynamicResources}, {name: DefaultPreemption}]
      enabled: [{name: PatchedDynamicResources, weight: 2}, {name: DefaultPreemption}]
`
	patchType = charts.Name + "/files/crds/dra-steward.io_resourceslicepatches.yaml"
	available = "dra_steward_scheduler_patches_available"
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}

// BenchmarkPerfScheduling runs the workloads of scheduler_perf with each scheduler. The
// allocators are those with which scheduler_perf runs the topics.
func BenchmarkPerfScheduling(b *testing.B) {
	set, err := assets.Get(b.Context(), assets.Options{Kubernetes: "1.37", Binaries: []string{assets.Etcd}, Output: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("PATH", filepath.Dir(set.Path(assets.Etcd))+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, topic := range []struct{ name, allocator string }{
		{"dra", "incubating"}, {"dra_extendedresource", "experimental"}, {deviceTaints, "experimental"},
	} {
		for _, which := range []string{stock, ours} {
			b.Run(topic.name+"/"+which, func(b *testing.B) {
				structured.EnableAllocators(topic.allocator)
				defer structured.EnableAllocators()
				run(b, topic.name, which)
			})
		}
	}
}

func run(b *testing.B, topic, which string) {
	folder := upstream(b, topic)
	path, registry := "", frameworkruntime.Registry(nil)
	if which == ours {
		path = filepath.Join(b.TempDir(), "scheduler.yaml")
		write(b, path, []byte(profile))
		registry = frameworkruntime.Registry{plugin.Name: (&plugin.Factory{Profiles: []string{corev1.DefaultSchedulerName}}).New}
	}
	config, err := rewrite(readConfig(b, topic, folder), path)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "performance-config.yaml")
	write(b, file, config)
	b.Chdir(folder) // the paths of templates are relative
	perf.RunBenchmarkPerfScheduling(b, file, topic, registry,
		perf.WithPrepareFn(func(tCtx ktesting.TContext) error { return prepare(tCtx, which) }),
		perf.WithNodeUpdateFn(func(_ ktesting.TContext, s *scheduler.Scheduler, _ *perf.Workload, _ *corev1.NodeList) error {
			return verify(s, which)
		}))
}

func write(b *testing.B, file string, data []byte) {
	b.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// prepare serves the type of patches, for both schedulers so that they have the same API
// server. Ours has read that there are none before the workload begins.
func prepare(tCtx ktesting.TContext, which string) error {
	if reads, err := readsPatches(); err != nil || reads {
		return errors.Join(err, errors.New("a workload has run in this process, whose metrics are left: select one workload with -bench"))
	}
	data, err := charts.FS.ReadFile(patchType)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return fmt.Errorf("%s: %w", patchType, err)
	}
	types := tCtx.Dynamic().Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := types.Create(tCtx, crd, metav1.CreateOptions{}); err != nil {
		return err
	}
	if which == stock {
		return nil
	}
	err = wait.PollUntilContextTimeout(tCtx, 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return readsPatches() })
	if err != nil {
		return fmt.Errorf("%s has not read ResourceSlicePatches: %w", plugin.Name, err)
	}
	return nil
}

// readsPatches reports whether the metric of the plugin says so.
func readsPatches() (bool, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return false, err
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == available && metric.GetGauge().GetValue() == 1 {
				return true, nil
			}
		}
	}
	return false, nil
}

// verify fails unless devices are allocated by the plugin that is to be measured, and by no
// other one.
func verify(s *scheduler.Scheduler, which string) error {
	wanted, other := names.DynamicResources, plugin.Name
	if which == ours {
		wanted, other = other, wanted
	}
	framework, has := s.Profiles[corev1.DefaultSchedulerName]
	if !has || len(s.Profiles) != 1 {
		return errors.New("the scheduler has other profiles than " + corev1.DefaultSchedulerName)
	}
	plugins := framework.ListPlugins()
	for name, set := range map[string]config.PluginSet{
		"preEnqueue": plugins.PreEnqueue, "preFilter": plugins.PreFilter, "filter": plugins.Filter, "postFilter": plugins.PostFilter,
		"score": plugins.Score, "reserve": plugins.Reserve, "preBind": plugins.PreBind,
	} {
		is := func(name string) func(config.Plugin) bool {
			return func(p config.Plugin) bool { return p.Name == name }
		}
		if !slices.ContainsFunc(set.Enabled, is(wanted)) || slices.ContainsFunc(set.Enabled, is(other)) {
			return fmt.Errorf("%s of the profile %s has the plugins %v, want %s and not %s", name, corev1.DefaultSchedulerName, set.Enabled, wanted, other)
		}
	}
	return nil
}
