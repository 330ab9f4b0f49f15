package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// memory is what the leader knows and no object says. It is lost with the leader, which
// then waits once more before it goes on.
type memory struct {
	// replaced is the version of the Secret that was written over last, and created reports
	// that there was none: as long as the informer shows that, it is behind.
	replaced string
	created  bool
	// bundle has been in all webhooks since trusted.
	bundle  []byte
	trusted time.Time
	// serving has been in the Secret since served.
	serving []byte
	served  time.Time
	// state is the last one that could be read, for a Secret that is deleted or overwritten.
	state State
}

// reconcile takes the next step and returns after what time to look again.
func (r *Rotator) reconcile(ctx context.Context, now time.Time) (time.Duration, error) {
	owner, hooks := r.configurations()
	if owner == nil {
		r.Logger.Info("no ValidatingWebhookConfiguration: no certificate needed", "name", r.Configurations)
		return longest, nil
	}
	secret, _ := object[corev1.Secret](r.secrets, r.Namespace+"/"+r.Secret)
	if r.memory.behind(secret) {
		return atLast, nil // an event will follow
	}
	state, lost := r.state(secret, hooks)
	r.Metrics.holds(state.Serving)
	if err := r.announce(ctx, state, hooks); err != nil {
		return 0, err
	}
	seen := r.memory.observe(state, hooks, now)
	seen.Renew = lost
	decision := r.Settings.Decide(state, seen)
	if decision.Action == Wait {
		return waitFor(decision, now), nil
	}
	next, err := r.take(decision.Action, state, now)
	if err != nil {
		return 0, err
	}
	if err := r.write(ctx, next, secret, owner); err != nil {
		return 0, err
	}
	r.Metrics.step(string(decision.Action))
	log := r.Logger
	if expires := next.Serving.Expires(); !expires.IsZero() { // the first step makes the authority only
		log = log.WithValues("expires", expires)
	}
	log.Info("certificate", "step", decision.Action, "reason", decision.Reason, "authorities", len(next.Authorities))
	return longest, nil
}

// How long nothing is looked at when nothing changes, and when an event is overdue.
const (
	longest = 10 * time.Minute
	atLast  = 10 * time.Second
)

// behind reports whether the informer does not show yet what was written.
func (m *memory) behind(secret *corev1.Secret) bool {
	if secret == nil {
		behind := m.created
		m.created = false // what was created may be deleted again
		return behind
	}
	m.created = false
	return secret.ResourceVersion == m.replaced
}

func waitFor(decision Decision, now time.Time) time.Duration {
	if decision.Until.IsZero() {
		return longest
	}
	return min(max(decision.Until.Sub(now), time.Second), longest)
}

// state is what the Secret holds. Webhooks go on serving the certificate that they had if the
// Secret is deleted, or holds none that can be read. So the state goes on where it was, with the
// authorities that it had; lost is true then. A leader that has not seen it trusts whom the
// webhooks' caBundle trusts.
func (r *Rotator) state(secret *corev1.Secret, hooks []hook) (state State, lost bool) {
	if secret != nil {
		state = Parse(secret.Data)
	}
	if state.Serving.empty() {
		if previous := r.memory.state; !previous.Serving.empty() || secret == nil && !previous.Empty() {
			return previous, true
		}
		for _, h := range hooks {
			state = state.Trusting(h.bundle)
		}
	}
	if secret != nil {
		r.memory.state = state
	}
	return state, false
}

// observe records the trusted authority and the served certificate, and when each was first seen.
func (m *memory) observe(state State, hooks []hook, now time.Time) Seen {
	bundle := state.Bundle()
	switch {
	case !trusted(hooks, bundle):
		m.bundle, m.trusted = nil, time.Time{}
	case !bytes.Equal(m.bundle, bundle):
		m.bundle, m.trusted = bundle, now
	}
	if !bytes.Equal(m.serving, state.Serving.Certificate) {
		m.serving, m.served = state.Serving.Certificate, now
	}
	return Seen{Now: now, Trusted: m.trusted, Served: m.served}
}

// take returns the state after an action.
func (r *Rotator) take(action Action, state State, now time.Time) (State, error) {
	switch action {
	case Promote:
		return state.Promote(), nil
	case Retire:
		return state.Retire(), nil
	default:
		pair, err := r.issue(r.Settings, now)
		return state.Prepare(pair), err
	}
}

// write stores a state in the Secret, unless the Secret has changed meanwhile.
func (r *Rotator) write(ctx context.Context, state State, before *corev1.Secret, owner *admissionv1.ValidatingWebhookConfiguration) error {
	kind := corev1.SecretTypeOpaque
	if before != nil {
		kind = before.Type // it cannot be changed; cert-manager makes kubernetes.io/tls
	}
	apply := coreapply.Secret(r.Secret, r.Namespace).WithType(kind).WithData(state.Data()).
		WithLabels(map[string]string{"app.kubernetes.io/name": "dra-steward", "app.kubernetes.io/managed-by": FieldManager}).
		WithOwnerReferences(metaapply.OwnerReference().WithAPIVersion(admissionv1.SchemeGroupVersion.String()).
			WithKind("ValidatingWebhookConfiguration").WithName(owner.Name).WithUID(owner.UID))
	if before != nil {
		apply.WithResourceVersion(before.ResourceVersion)
	}
	written, err := r.Client.CoreV1().Secrets(r.Namespace).Apply(ctx, apply, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", r.Namespace, r.Secret, err)
	}
	r.memory.created = before == nil
	if before != nil && written.ResourceVersion != before.ResourceVersion { // otherwise nothing has changed, and no event follows
		r.memory.replaced = before.ResourceVersion
	}
	return nil
}

// A hook is one webhook of a configuration.
type hook struct {
	kind, version, name string
	bundle              []byte
}

// configurations returns the one that owns the Secret, nil if there is none, and the
// webhooks of both.
func (r *Rotator) configurations() (*admissionv1.ValidatingWebhookConfiguration, []hook) {
	var hooks []hook
	validating, _ := object[admissionv1.ValidatingWebhookConfiguration](r.validating, r.Configurations)
	if validating == nil {
		return nil, nil
	}
	for _, w := range validating.Webhooks {
		hooks = append(hooks, hook{"validating", validating.ResourceVersion, w.Name, w.ClientConfig.CABundle})
	}
	if mutating, _ := object[admissionv1.MutatingWebhookConfiguration](r.mutating, r.Configurations); mutating != nil {
		for _, w := range mutating.Webhooks {
			hooks = append(hooks, hook{"mutating", mutating.ResourceVersion, w.Name, w.ClientConfig.CABundle})
		}
	}
	return validating, hooks
}

// trusted reports whether all webhooks have the bundle.
func trusted(hooks []hook, bundle []byte) bool {
	return !slices.ContainsFunc(hooks, func(h hook) bool { return !bytes.Equal(h.bundle, bundle) }) && len(hooks) > 0
}

// announce puts the authorities into every caBundle that lacks them. Nothing else of a
// configuration is written, and nothing if it has changed meanwhile.
func (r *Rotator) announce(ctx context.Context, state State, hooks []hook) error {
	if state.Empty() {
		return nil
	}
	bundle := state.Bundle()
	for _, kind := range []string{"mutating", "validating"} {
		var version string
		var lacking []any
		for _, h := range hooks {
			if h.kind == kind && !bytes.Equal(h.bundle, bundle) {
				version = h.version
				lacking = append(lacking, map[string]any{"name": h.name, "clientConfig": map[string]any{"caBundle": bundle}})
			}
		}
		if len(lacking) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "webhooks": lacking})
		if err != nil {
			return err
		}
		if err := r.patch(ctx, kind, patch); err != nil {
			return fmt.Errorf("write caBundle of the %s webhook configuration %s: %w", kind, r.Configurations, err)
		}
		r.Metrics.step("announce")
		r.Logger.Info("announced the authorities of the certificate", "configuration", kind, "authorities", len(state.Authorities))
	}
	return nil
}

func (r *Rotator) patch(ctx context.Context, kind string, patch []byte) (err error) {
	client, options := r.Client.AdmissionregistrationV1(), metav1.PatchOptions{FieldManager: FieldManager}
	if kind == "mutating" {
		_, err = client.MutatingWebhookConfigurations().Patch(ctx, r.Configurations, types.StrategicMergePatchType, patch, options)
	} else {
		_, err = client.ValidatingWebhookConfigurations().Patch(ctx, r.Configurations, types.StrategicMergePatchType, patch, options)
	}
	return err
}

// informer follows one object by name, with no right to any other.
func informer(client cache.Getter, resource, namespace, name string, of runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cache.NewListWatchFromClient(client, resource, namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, name)),
		of, 0, cache.Indexers{})
}

// object returns what an informer has under a key.
func object[T any](informer cache.SharedIndexInformer, key string) (*T, error) {
	found, exists, err := informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, err
	}
	typed, ok := any(found).(*T)
	if !ok {
		return nil, fmt.Errorf("%s: unexpected %T", key, found)
	}
	return typed, nil
}
