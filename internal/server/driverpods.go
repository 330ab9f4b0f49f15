package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/internal/impact"
	"github.com/dra-steward/dra-steward/webhook"
)

// driverPods reads the pods of drivers when they are asked for: few are, and seldom. It needs
// the right to list pods only.
type driverPods struct {
	*impact.Estimator
	client kubernetes.Interface
}

var _ webhook.DriverPods = driverPods{}

func newDriverPods(kubeconfig string, counted *impact.Estimator) (driverPods, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return driverPods{}, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or switch --driver-pods off", err)
	}
	// The controllers of a cluster delete at most 20 pods a second by default.
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return driverPods{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	return driverPods{counted, client}, nil
}

// Named returns the pod of that name, nil if it does not exist.
func (d driverPods) Named(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	found, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	return &found.Items[0], nil
}

// On returns the pods with these labels on a node.
func (d driverPods) On(ctx context.Context, namespace, node string, of map[string]string) ([]corev1.Pod, error) {
	found, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), LabelSelector: labels.SelectorFromSet(of).String()})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
