//go:build minor35

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1alpha3"
	"k8s.io/client-go/kubernetes"
)

// taintRules is the informer that kube-scheduler gives the tracker.
func taintRules(factory informers.SharedInformerFactory) resourceinformers.DeviceTaintRuleInformer {
	return factory.Resource().V1alpha3().DeviceTaintRules()
}

func createRule(ctx context.Context, client kubernetes.Interface) error {
	driver := "gpu.example.com"
	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "maintenance"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
	_, err := client.ResourceV1alpha3().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{})
	return err
}
