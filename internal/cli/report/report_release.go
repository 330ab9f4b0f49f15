package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/manager"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/evictor"
)

// ofRelease selects what the chart installs.
const ofRelease = "app.kubernetes.io/name=dra-steward"

// askReplica is how long a replica has to tell its counters.
const askReplica = 5 * time.Second

// release reads the configuration in force, the policies, the counters of the webhook and
// the settings of the controller.
func (o reportOptions) release(ctx context.Context, streams cmdutil.Streams) (*releaseInfo, error) {
	r := &releaseInfo{}
	var err error
	if r.file, err = config.Load(o.config); err != nil {
		return nil, err
	}
	sources, err := policyload.Sources(o.policies)
	if err != nil {
		return nil, err
	}
	if o.read.Files != nil {
		r.note("manifests in files: the requests seen by the webhook are unknown")
		r.set, err = policyload.Compile(ctx, sources)
		return r, err
	}
	restConfig, err := o.read.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, err
	}
	maps, err := o.configMaps(ctx, streams, client, r)
	if err != nil {
		return nil, err
	}
	found, err := r.configure(maps, o.config == "")
	if err != nil {
		return nil, err
	}
	if o.config == "" && !found {
		return nil, fmt.Errorf("no release of dra-steward in namespace %s: set %s, or --config", o.namespace, cmp.Or(o.flag, "--namespace"))
	}
	policies := &policyload.ConfigMaps{Namespace: o.namespace, Sources: sources, Lister: policyLister(maps)}
	files, err := policies.Compile(ctx)
	if err != nil {
		return nil, fmt.Errorf("policies of ConfigMaps in namespace %s: %w", o.namespace, err)
	}
	r.set, r.maps = files.Set, maps
	r.expose(ctx, client)
	pods, err := clusterread.List[*corev1.Pod](ctx, &o.read, streams, "pods of the release", clusterread.WithLabels(client.CoreV1().Pods(o.namespace), ofRelease))
	if err != nil {
		r.note("the requests seen by the webhook are unknown: %v", err)
		return r, nil
	}
	return r, r.ask(ctx, client, pods, maps)
}

// configMaps reads those of the release, or only the one with its configuration where the user is
// not allowed to list them.
func (o reportOptions) configMaps(ctx context.Context, streams cmdutil.Streams, client kubernetes.Interface, r *releaseInfo) ([]*corev1.ConfigMap, error) {
	maps, err := clusterread.List[*corev1.ConfigMap](ctx, &o.read, streams, "ConfigMaps of namespace "+o.namespace, client.CoreV1().ConfigMaps(o.namespace))
	if apierrors.IsForbidden(err) {
		if one, unread := clusterread.Configuration(ctx, client, o.namespace); unread == nil {
			r.note("policies of ConfigMaps are unknown: you are not allowed to list the ConfigMaps of namespace %s", o.namespace)
			maps, err = []*corev1.ConfigMap{one}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the ConfigMaps of the release in namespace %s: %w; set %s, or use --config", o.namespace, err, cmp.Or(o.flag, "--namespace"))
	}
	return maps, nil
}

// expose notes which writes are admitted unchecked while the webhook is down, in the modes that
// refuse writes.
func (r *releaseInfo) expose(ctx context.Context, client kubernetes.Interface) {
	if mode := r.file.Mode; mode == v1alpha1.ModeObserve || mode == v1alpha1.ModeWarn {
		return
	}
	webhooks, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: ofRelease})
	if err != nil {
		r.note("unknown failurePolicy of the webhooks: %v", err)
		return
	}
	if exposure := report.Exposure(webhooks.Items); exposure != "" {
		r.note("%s", exposure)
	}
}

// configure takes over the configuration of the release, if it has one.
func (r *releaseInfo) configure(maps []*corev1.ConfigMap, wanted bool) (found bool, err error) {
	for _, m := range maps {
		text, has := m.Data["config.yaml"]
		if !wanted || !has || m.Labels["app.kubernetes.io/name"] != "dra-steward" {
			continue
		}
		r.file, err = config.Parse("ConfigMap "+m.Namespace+"/"+m.Name, []byte(text))
		return true, err
	}
	return false, nil
}

// policyLister lists the ConfigMaps with policies.
func policyLister(maps []*corev1.ConfigMap) corelisters.ConfigMapLister {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, m := range maps {
		if m.Labels[policyload.PolicyLabel] == "true" {
			_ = indexer.Add(m) // fails for what has no name only
		}
	}
	return corelisters.NewConfigMapLister(indexer)
}

// ask reads the counters of the webhook's replicas, and how the controller was started. Of
// pods that are leaving it takes what they still say.
func (r *releaseInfo) ask(ctx context.Context, client kubernetes.Interface, pods []*corev1.Pod, maps []*corev1.ConfigMap) error {
	r.counters = report.Seen{Findings: map[string]int{}, Defaults: map[string]int{}}
	controller, open, reached := false, false, false
	for _, pod := range pods {
		leaving := pod.DeletionTimestamp != nil
		switch pod.Labels["app.kubernetes.io/component"] {
		case "webhook":
			open = open || !leaving && answersAll(pod)
			reached = reached || !leaving && pod.Annotations[podNetworks] != "true"
			err := count(ctx, client, pod, &r.counters)
			if err != nil && !leaving {
				r.note("no counters from replica %s of the webhook: %v", pod.Name, err)
			}
		case "controller":
			if controller || leaving {
				continue
			}
			controller = true
			if err := r.settings(pod, maps); err != nil {
				return fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
	}
	if !controller {
		r.note("no controller runs: evictions assume its default settings")
	}
	r.noteCallers(open, reached)
	return nil
}

// podNetworks is the annotation of a webhook whose port a NetworkPolicy keeps pods from.
const podNetworks = "dra-steward.io/pod-networks"

// noteCallers adds a note if more than the API server may ask the webhook.
func (r *releaseInfo) noteCallers(open, reached bool) {
	switch {
	case open && reached:
		r.note("each pod can ask the webhook: neither certificates.clientCA nor networkPolicy.podNetworks is set")
	case open:
		r.note("the webhook answers each client that reaches its port; networkPolicy.podNetworks keeps pods from it if the network enforces NetworkPolicies: set certificates.clientCA")
	case reached:
		r.note("each pod reaches the port of the webhook, which answers none without a client certificate: set networkPolicy.podNetworks")
	}
}

// answersAll reports whether a replica of the webhook answers clients without a client certificate.
func answersAll(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--client-ca=") })
}

// settings are those of the controller's flags.
func (r *releaseInfo) settings(pod *corev1.Pod, maps []*corev1.ConfigMap) error {
	var o manager.Options
	flags := &cobra.Command{Use: "controller"}
	o.AddFlags(flags)
	args := pod.Spec.Containers[0].Args
	if len(args) == 0 {
		return errors.New("its container has no arguments")
	}
	if err := flags.Flags().Parse(args[1:]); err != nil {
		return err
	}
	settings, err := o.Settings()
	if err != nil {
		return err
	}
	r.evictions.Mode, r.evictions.Settings = r.follows(evictor.Mode(o.Mode)), settings
	since := o.ActSince
	for _, m := range maps {
		if since == "" && m.Name == o.Name {
			since = m.Data["actSince"]
		}
	}
	if since == "" {
		return nil
	}
	at, err := manager.ParseSince(since)
	r.evictions.Since = &at
	return err
}

// count adds the counters of a replica.
func count(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, to *report.Seen) error {
	port := ""
	for _, p := range pod.Spec.Containers[0].Ports {
		if p.Name == "metrics" {
			port = fmt.Sprint(p.ContainerPort)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askReplica)
	defer cancel()
	text, err := client.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, port, "metrics", nil).DoRaw(ctx)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	add := func(name, label string, into map[string]int, keep func(map[string]string) bool) {
		for _, metric := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if keep(labels) {
				into[labels[label]] += int(metric.GetCounter().GetValue())
			}
		}
	}
	to.Replicas++
	// Policies tell apart what was stored before, rules do not.
	add("dra_steward_policy_results_total", "code", to.Findings, func(l map[string]string) bool { return l["result"] == "violation" })
	add("dra_steward_admission_findings_total", "rule", to.Findings, func(l map[string]string) bool {
		return !ruleid.IsPolicy(l["rule"]) && !strings.HasSuffix(l["rule"], "-error")
	})
	add("dra_steward_admission_defaults_total", "default", to.Defaults, func(map[string]string) bool { return true })
	return nil
}
