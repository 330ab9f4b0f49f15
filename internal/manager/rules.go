package manager

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/controllers/rulebegin"
	"github.com/dra-steward/dra-steward/internal/controllers/ruleexpiry"
)

// addRuleBegin makes the leader record when each taint rule began to evict, if the options ask for it.
func (o Options) addRuleBegin(e *eviction, config *rest.Config, _ *prometheus.Registry, log logr.Logger) error {
	if !o.ruleBegin {
		return nil
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	rules := &ruleStatus{config: config}
	e.add("rulebegin", rulebegin.New(rulebegin.Options{Rules: e.evictor.Rules, Write: rules.write, Logger: log}).Run)
	return nil
}

// A ruleStatus writes conditions of DeviceTaintRules in the version that the API server serves.
type ruleStatus struct {
	config *rest.Config
	mutex  sync.Mutex
	client dynamic.ResourceInterface
	served string
}

func (s *ruleStatus) write(ctx context.Context, rule *resourceapi.DeviceTaintRule, condition metav1.Condition) error {
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&condition)
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		client, version, err := s.connect(again)
		if err != nil {
			return err
		}
		apply := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resourceapi.GroupName + "/" + version, "kind": "DeviceTaintRule",
			"metadata": map[string]any{"name": rule.Name, "uid": string(rule.UID)},
			"status":   map[string]any{"conditions": []any{written}},
		}}
		_, err = client.ApplyStatus(ctx, rule.Name, apply, metav1.ApplyOptions{FieldManager: rulebegin.FieldManager, Force: true})
		if again || !apierrors.IsNotFound(err) { // not found may be the version, after an upgrade of the API server
			return err
		}
	}
}

// connect asks once which version is served, or again.
func (s *ruleStatus) connect(again bool) (dynamic.ResourceInterface, string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.client != nil && !again {
		return s.client, s.served, nil
	}
	client, served, err := clusterread.ServedRules(s.config)
	if err == nil {
		s.client, s.served = client, served
	}
	return client, served, err
}

// addExpiry lets the leader delete the taint rules whose time is over.
func (o Options) addExpiry(e *eviction, config *rest.Config, _ *prometheus.Registry, log logr.Logger) error {
	if !o.expireRules {
		return nil
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	rules := &ruleStatus{config: config}
	controller := ruleexpiry.New(ruleexpiry.Options{Rules: e.evictor.Rules, Logger: log, Delete: func(ctx context.Context, name string, uid types.UID, version string) error {
		for again := false; ; again = true {
			client, _, err := rules.connect(again)
			if err != nil {
				return err
			}
			err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
			if again || !apierrors.IsNotFound(err) { // not found may be the version, after an upgrade of the API server
				return err
			}
		}
	}})
	e.add("ruleexpiry", controller.Run)
	return nil
}
