package evictor

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	ac "k8s.io/client-go/applyconfigurations/resource/v1"
	acalpha "k8s.io/client-go/applyconfigurations/resource/v1alpha3"
	acbeta "k8s.io/client-go/applyconfigurations/resource/v1beta2"
	"k8s.io/client-go/kubernetes"
)

// writeConditions applies the conditions that are ours to the status of the rule with that
// UID, in the newest version of the API that the server has. Those that we have written
// before and are not among them are removed.
func writeConditions(ctx context.Context, client kubernetes.Interface, rule *resourceapi.DeviceTaintRule, all []metav1.Condition) error {
	var conditions []*metaac.ConditionApplyConfiguration
	for _, c := range all {
		conditions = append(conditions, metaac.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(c.LastTransitionTime))
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	var err error
	for _, apply := range []func() error{
		func() error {
			_, err := client.ResourceV1().DeviceTaintRules().ApplyStatus(ctx, ac.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(ac.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
		func() error {
			_, err := client.ResourceV1beta2().DeviceTaintRules().ApplyStatus(ctx, acbeta.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(acbeta.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
		func() error {
			_, err := client.ResourceV1alpha3().DeviceTaintRules().ApplyStatus(ctx, acalpha.DeviceTaintRule(rule.Name).WithUID(rule.UID).
				WithStatus(acalpha.DeviceTaintRuleStatus().WithConditions(conditions...)), options)
			return err
		},
	} {
		if err = apply(); !apierrors.IsNotFound(err) {
			break
		}
	}
	if isGone(err) {
		return nil // there is nothing to report on any more
	}
	if err != nil {
		return fmt.Errorf("DeviceTaintRule %s: apply conditions: %w", rule.Name, err)
	}
	return nil
}
