package certificate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/serving/selfsigned"
)

// FieldManager is the name under which everything is written.
const FieldManager = "dra-steward-certificates"

// Options are what a Rotator needs. All but Metrics are required.
type Options struct {
	Client kubernetes.Interface
	// Namespace and Secret name the Secret, which need not exist.
	Namespace, Secret string
	// Configurations is the name of the ValidatingWebhookConfiguration and of the
	// MutatingWebhookConfiguration. The Secret belongs to the former: it is deleted
	// with it.
	Configurations string
	Settings       Times
	Metrics        *Metrics
	Logger         logr.Logger
}

// A Rotator makes, replaces and announces the certificate while Run runs. Only one may
// run at a time in a cluster.
type Rotator struct {
	Options
	issue func(Times, time.Time) (Pair, error)

	secrets, validating, mutating cache.SharedIndexInformer
	changed                       chan struct{}
	memory                        memory
}

// New checks the options.
func New(o Options) (*Rotator, error) {
	if o.Namespace == "" || o.Secret == "" || o.Configurations == "" {
		return nil, errors.New("certificates: the namespace and name of the Secret and the name of the webhook configurations are needed")
	}
	if err := o.Settings.Validate(); err != nil {
		return nil, err
	}
	r := &Rotator{Options: o, issue: issue, changed: make(chan struct{}, 1)}
	r.secrets = informer(o.Client.CoreV1().RESTClient(), "secrets", o.Namespace, o.Secret, &corev1.Secret{})
	admission := o.Client.AdmissionregistrationV1().RESTClient()
	r.validating = informer(admission, "validatingwebhookconfigurations", "", o.Configurations, &admissionv1.ValidatingWebhookConfiguration{})
	r.mutating = informer(admission, "mutatingwebhookconfigurations", "", o.Configurations, &admissionv1.MutatingWebhookConfiguration{})
	return r, nil
}

// Run works until ctx ends.
func (r *Rotator) Run(ctx context.Context) error {
	var informers sync.WaitGroup
	defer informers.Wait()
	for _, informer := range []cache.SharedIndexInformer{r.secrets, r.validating, r.mutating} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { r.wake() }, UpdateFunc: func(any, any) { r.wake() }, DeleteFunc: func(any) { r.wake() },
		}); err != nil {
			return err
		}
		informers.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), r.secrets.HasSynced, r.validating.HasSynced, r.mutating.HasSynced) {
		return nil // ctx has ended
	}
	r.loop(ctx)
	return nil
}

// wake makes the loop look again.
func (r *Rotator) wake() { reconcile.Wake(r.changed) }

// loop reconciles when something changes, when it is time, and again after a failure.
func (r *Rotator) loop(ctx context.Context) {
	failures := workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second)
	for ctx.Err() == nil {
		wait, err := r.reconcile(ctx, time.Now())
		if apierrors.IsConflict(err) { // another client has written: read again
			wait, err = time.Second, nil
		}
		r.Metrics.reconciled(err)
		if err != nil && ctx.Err() == nil {
			wait = failures.When(r.Secret)
			r.Logger.Error(err, "cannot maintain the certificate", "secret", r.Namespace+"/"+r.Secret, "again", wait)
		} else {
			failures.Forget(r.Secret)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.changed:
		}
		timer.Stop()
	}
}

// issue makes a pair and an authority for it, whose key is forgotten.
func issue(s Times, now time.Time) (Pair, error) {
	made, err := selfsigned.Make(selfsigned.Options{Hosts: s.Hosts, Now: now, Validity: s.Validity})
	if err != nil {
		return Pair{}, fmt.Errorf("make a certificate: %w", err)
	}
	return Pair{Certificate: made.Chain(), PrivateKey: made.Key}, nil
}

// Metrics are those of the certificate.
type Metrics struct {
	expires prometheus.Gauge
	steps   *prometheus.CounterVec
	failed  prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		expires: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_managed_certificate_expiry_timestamp_seconds",
			Help: "Expiry of the certificate in the Secret, as Unix time; 0 while there is none. Set by the leader only."}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dra_steward_managed_certificate_steps_total",
			Help: "Steps of the rotation of the webhook's certificate: issue, promote, retire, or announce (a caBundle)."}, []string{"step"}),
		failed: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_managed_certificate_failed",
			Help: "1 while the leader cannot maintain the webhook's certificate, 0 otherwise."}),
	}
	return m, errors.Join(registry.Register(m.expires), registry.Register(m.steps), registry.Register(m.failed))
}

func (m *Metrics) reconciled(err error) {
	if m == nil {
		return
	}
	m.failed.Set(0)
	if err != nil {
		m.failed.Set(1)
	}
}

func (m *Metrics) step(name string) {
	if m != nil {
		m.steps.WithLabelValues(name).Inc()
	}
}

func (m *Metrics) holds(pair Pair) {
	if m == nil {
		return
	}
	m.expires.Set(0)
	if at := pair.Expires(); !at.IsZero() {
		m.expires.Set(float64(at.Unix()))
	}
}
