package policyload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// PolicyLabel is what a ConfigMap with policies is labelled with.
const PolicyLabel = "dra-steward.io/policy"

// ConfigMaps puts the policies of the ConfigMaps of a namespace into force, together with
// others; as a whole, or not at all.
type ConfigMaps struct {
	Namespace string
	// StatusName is the ConfigMap in which the leader of the controllers writes down which
	// policies are loaded; empty is none.
	StatusName string
	Sources    []policy.Collection
	// Use puts policies into force, agrees reports whether it could.
	Use     func(Files, time.Time) error
	Agrees  func(Files) error
	Log     logr.Logger
	Metrics *Metrics

	Status  Status
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	Lister  corelisters.ConfigMapLister
	changed chan struct{}
	loaded  atomic.Bool
}

// NewConfigMaps prepares the informer; kubeconfig is as for newInformed.
func NewConfigMaps(p *ConfigMaps, kubeconfig string) (*ConfigMaps, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or leave out --policy-namespace", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	p.client = client
	p.factory = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(p.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = PolicyLabel + "=true" }))
	p.Lister = p.factory.Core().V1().ConfigMaps().Lister()
	p.changed = make(chan struct{}, 1)
	notify := func(any) { p.Again() }
	_, err = p.factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(any, any) { notify(nil) }, DeleteFunc: notify})
	return p, err
}

// Again loads the policies again: what refused them may have changed.
func (p *ConfigMaps) Again() { reconcile.Wake(p.changed) }

// Start puts the policies into force that are stored now, as far as nothing is wrong with them, before they are followed.
func (p *ConfigMaps) Start(ctx context.Context) error {
	list, err := p.client.CoreV1().ConfigMaps(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: PolicyLabel + "=true"})
	if err != nil {
		return err
	}
	var all []*corev1.ConfigMap
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	if err = p.take(ctx, all); err != nil {
		err = p.takeOthers(ctx, all, err)
	}
	return err
}

// Run follows the ConfigMaps until ctx ends.
func (p *ConfigMaps) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	if p.StatusName != "" {
		watching.Go(func() {
			if err := p.Status.watch(ctx, p.client, p.Namespace, p.StatusName); err != nil {
				p.Log.Error(err, "cannot watch the age of policies", "configMap", p.Namespace+"/"+p.StatusName)
			}
		})
	}
	p.factory.StartWithContext(ctx)
	defer p.factory.Shutdown()
	for _, synced := range p.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil
		}
	}
	for {
		p.load(ctx)
		p.loaded.Store(true)
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
	}
}

// load takes over what the ConfigMaps say now, if all of it is good. At the start no valid ones were in force before, so
// the ConfigMaps with problems are left out.
func (p *ConfigMaps) load(ctx context.Context) {
	all, err := p.Lister.ConfigMaps(p.Namespace).List(labels.Everything())
	if err == nil {
		err = p.take(ctx, all)
	}
	if err == nil {
		return
	}
	problems := p.problemsOf(err)
	if !p.loaded.Load() {
		err = errors.Join(err, p.takeOthers(ctx, all, err))
	}
	p.Metrics.refused()
	p.Status.refused(problems)
	p.Log.Error(err, "refused the policies of the ConfigMaps; the last valid ones stay in force", "namespace", p.Namespace)
}

// take puts the policies of ConfigMaps into force.
func (p *ConfigMaps) take(ctx context.Context, all []*corev1.ConfigMap) error {
	files, err := p.compile(ctx, all, Compile)
	now := time.Now()
	if err == nil {
		err = p.Use(files, now)
	}
	if err != nil {
		return err
	}
	p.Metrics.took(files.revision(), now)
	p.Status.took(files.revision(), now)
	p.Log.Info("loaded policies", "revision", files.revision(), "policies", len(files.Set.Policies()), "schemas", len(files.Schemas))
	return nil
}

// takeOthers puts the policies of those ConfigMaps into force that no problem is in; err is why not all are in force.
func (p *ConfigMaps) takeOthers(ctx context.Context, all []*corev1.ConfigMap, err error) error {
	for {
		problems := p.problemsOf(err)
		others := slices.DeleteFunc(slices.Clone(all), func(c *corev1.ConfigMap) bool {
			return slices.ContainsFunc(problems, func(problem policyoutcome.Problem) bool { return problem.ConfigMap == c.Name })
		})
		if len(others) == len(all) {
			return p.takeEach(ctx, all)
		}
		if err = p.take(ctx, others); err == nil {
			p.Log.Info("left out the ConfigMaps with policies that are refused", "inForce", len(others), "of", len(all))
			return nil
		}
		all = others
	}
}

// takeEach puts the policies of as many ConfigMaps into force as the configuration and each other agree with. A problem in
// the configuration, or in the library, names no ConfigMap.
func (p *ConfigMaps) takeEach(ctx context.Context, all []*corev1.ConfigMap) error {
	all = slices.SortedFunc(slices.Values(all), func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	var good []*corev1.ConfigMap
	if len(all) > 1 { // a single one was refused already
		for _, c := range all {
			if with := append(slices.Clone(good), c); p.take(ctx, with) == nil {
				good = with
			}
		}
	}
	if len(good) == 0 {
		return errors.New("no policies of ConfigMaps are in force")
	}
	p.Log.Info("left out the ConfigMaps with policies that are refused", "inForce", len(good), "of", len(all))
	return nil
}

// Compile reads everything, and runs the tests of the policies.
func (p *ConfigMaps) Compile(ctx context.Context) (files Files, _ error) {
	all, err := p.Lister.ConfigMaps(p.Namespace).List(labels.Everything())
	if err != nil {
		return files, err
	}
	return p.compile(ctx, all, Compile)
}

// compile reads ConfigMaps and makes a set of their policies and those of the other sources.
func (p *ConfigMaps) compile(ctx context.Context, all []*corev1.ConfigMap, set func(context.Context, []policy.Collection) (*policy.Set, error)) (files Files, err error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	sources := slices.Clone(p.Sources)
	var errs []error
	for _, c := range all {
		modules := fstest.MapFS{}
		for _, name := range slices.Sorted(maps.Keys(c.Data)) {
			switch {
			case strings.HasSuffix(name, ".rego"):
				modules[name] = &fstest.MapFile{Data: []byte(c.Data[name])}
			default:
				errs = append(errs, files.addSchema(p.sourceName(c.Name)+"/"+name, name, c.Data[name]))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.BinaryData)) {
			errs = append(errs, policy.Problem{File: p.sourceName(c.Name) + "/" + name,
				Message: "a key under binaryData is not read: kubectl puts files there that are not UTF-8; write the file in UTF-8, and create the ConfigMap again"})
		}
		sources = append(sources, policy.Collection{Name: p.sourceName(c.Name), Files: modules})
	}
	files.Set, err = set(ctx, sources)
	return files, errors.Join(append(errs, err)...)
}

// sourceName is what messages call a ConfigMap.
func (p *ConfigMaps) sourceName(name string) string {
	return "ConfigMap " + p.Namespace + "/" + name
}

// Check returns the problems that the policies have once a ConfigMap is stored. Their tests run only where runTests is
// true: what a test costs in memory has no bound.
func (p *ConfigMaps) Check(ctx context.Context, stored *corev1.ConfigMap, runTests bool) error {
	if stored.Labels[PolicyLabel] != "true" || stored.Namespace != p.Namespace {
		return nil
	}
	all, err := p.Lister.ConfigMaps(p.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	all = append(slices.DeleteFunc(all, func(c *corev1.ConfigMap) bool { return c.Name == stored.Name }), stored)
	set := Compile
	if !runTests {
		set = func(ctx context.Context, sources []policy.Collection) (*policy.Set, error) {
			return policy.Parse(ctx, sources...)
		}
	}
	files, err := p.compile(ctx, all, set)
	if err == nil {
		err = p.Agrees(files)
	}
	var errs []error
	for _, problem := range policy.Problems(err) {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// Ready is nil once the policies have been read for the first time.
func (p *ConfigMaps) Ready(*http.Request) error {
	if !p.loaded.Load() {
		return errors.New("the ConfigMaps with policies are not synced yet")
	}
	return nil
}

// Metrics say which policies are in force.
type Metrics struct {
	failed, success prometheus.Gauge
	info            *prometheus.GaugeVec
}

func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		failed: all.Gauge("dra_steward_policies_load_failed",
			"1 while the present policies of the ConfigMaps are refused; the last valid ones are in force."),
		success: all.Gauge("dra_steward_policies_last_success_timestamp_seconds",
			"When the policies in force were loaded."),
		info: all.Gauges("dra_steward_policies_info",
			"1 for the revision of the policies in force.", "revision"),
	}
	return m, all.Err()
}

func (m *Metrics) refused() { m.failed.Set(1) }

func (m *Metrics) took(revision string, at time.Time) {
	m.failed.Set(0)
	m.success.Set(float64(at.Unix()))
	m.info.Reset()
	m.info.WithLabelValues(revision).Set(1)
}
