// Package policystatus reports the results of loading policies: each replica of the
// webhook, which has no write permissions, serves them over HTTP; the leader of the
// controllers collects them, writes them into a ConfigMap and reports changes in events.
package policystatus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
)

const (
	// askTimeout is how long a replica has for its answer, which lies ready.
	askTimeout = 2 * time.Second
	// maxLoad bounds that answer, in bytes.
	maxLoad = 1 << 20
	// maxMessage bounds the text of an event, in bytes: the API server refuses more.
	maxMessage = 1000
	// metricsPort is the name of the port at which a replica answers.
	metricsPort = "metrics"

	fieldManager = "dra-steward-policies"
)

// A Collector gathers what the replicas say, one at a time in a cluster.
type Collector struct {
	Client kubernetes.Interface
	// Namespace is that of the replicas and of the ConfigMap Name.
	Namespace, Name string
	// Selector selects the pods of the replicas.
	Selector string
	// Secure says that the replicas serve HTTPS, with certificates that cannot be verified.
	Secure bool
	// Interval is the time between two rounds.
	Interval time.Duration
	Recorder record.EventRecorder
	Metrics  *Metrics
	Log      logr.Logger
}

// Metrics count the replicas.
type Metrics struct{ replicas *prometheus.GaugeVec }

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{replicas: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dra_steward_policies_replicas",
		Help: "Replicas of the webhook by the state of their policies (accepted, refused, silent: no answer); from the leader of the controllers."}, []string{"result"})}
	return m, registerer.Register(m.replicas)
}

func (m *Metrics) count(s policyoutcome.Status) {
	counts := map[string]int{"accepted": 0, "refused": 0, "silent": 0}
	for _, replica := range s.Replicas {
		switch {
		case replica.Load == nil:
			counts["silent"]++
		case len(replica.Load.Problems) > 0:
			counts["refused"]++
		default:
			counts["accepted"]++
		}
	}
	for result, n := range counts {
		m.replicas.WithLabelValues(result).Set(float64(n))
	}
}

// Run gathers until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	said := ""
	for {
		err := c.collect(ctx, time.Now())
		if err == nil {
			said = ""
		} else if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			c.Log.Error(err, "cannot report the state of the policies; retrying", "configMap", c.Namespace+"/"+c.Name)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// collect asks all replicas and writes down what has changed.
func (c *Collector) collect(ctx context.Context, now time.Time) error {
	pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.Selector})
	if err != nil {
		return err
	}
	replicas := c.ask(ctx, pods.Items)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	maps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	kept, err := maps.Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		kept, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}
	before, err := policyoutcome.Decode(kept.Data)
	if err != nil {
		c.Log.Error(err, "cannot read the previous status; continuing without it", "configMap", c.Namespace+"/"+c.Name)
	}
	status, events := before.Next(replicas, now.UTC().Truncate(time.Second))
	c.Metrics.count(status)
	if err := c.write(ctx, kept, status); err != nil {
		return err
	}
	for _, event := range events {
		c.createEvent(kept, event)
	}
	return nil
}

// write updates the ConfigMap if it says something else.
func (c *Collector) write(ctx context.Context, kept *corev1.ConfigMap, status policyoutcome.Status) error {
	data, err := status.Encode()
	if err != nil || maps.Equal(data, kept.Data) {
		return err
	}
	kept.Data = data
	_, err = c.Client.CoreV1().ConfigMaps(c.Namespace).Update(ctx, kept, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// createEvent creates an event about a ConfigMap.
func (c *Collector) createEvent(status *corev1.ConfigMap, e policyoutcome.Event) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: e.ConfigMap, UID: e.UID}
	if e.ConfigMap == "" {
		about.Name, about.UID = status.Name, status.UID
	}
	kind, reason := corev1.EventTypeNormal, "PoliciesAccepted"
	if e.Warning {
		kind, reason = corev1.EventTypeWarning, "PoliciesRefused"
	}
	c.Recorder.Event(about, kind, reason, condition.Bounded(e.Message, maxMessage))
}

// ask asks the replicas that run, all at once.
func (c *Collector) ask(ctx context.Context, pods []corev1.Pod) []policyoutcome.Replica {
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning
	})
	// No proxy and no redirect: only these pods are asked. They receive no secret.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: c.Secure}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	replicas := make([]policyoutcome.Replica, len(pods))
	var asking sync.WaitGroup
	for i := range pods {
		asking.Go(func() { replicas[i] = c.askOne(ctx, client, &pods[i]) })
	}
	asking.Wait()
	return replicas
}

// askOne asks one replica.
func (c *Collector) askOne(ctx context.Context, client *http.Client, pod *corev1.Pod) policyoutcome.Replica {
	replica := policyoutcome.Replica{Name: pod.Name}
	load, err := c.get(ctx, client, pod)
	if err != nil {
		replica.Silent = err.Error()
		return replica
	}
	replica.Load = load
	return replica
}

func (c *Collector) get(ctx context.Context, client *http.Client, pod *corev1.Pod) (*policyoutcome.Load, error) {
	address, err := addressOf(pod)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if c.Secure {
		scheme = "https://"
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+address+policyoutcome.Path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s", address, policyoutcome.Path, response.Status)
	}
	load := &policyoutcome.Load{}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxLoad)).Decode(load); err != nil {
		return nil, fmt.Errorf("%s%s: %w", address, policyoutcome.Path, err)
	}
	return load, nil
}

// addressOf is where a pod serves its metrics.
func addressOf(pod *corev1.Pod) (string, error) {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == metricsPort && pod.Status.PodIP != "" {
				return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))), nil
			}
		}
	}
	return "", fmt.Errorf("the pod has no address or no port %s", metricsPort)
}
