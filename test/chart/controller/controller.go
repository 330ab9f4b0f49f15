// Package controller runs dra-steward's controller on a test cluster: with the rights
// and types that the chart gives it, under the identity of its Deployment and with the
// Deployment's own arguments.
//
// Only where things are differs from an installation: there is a kubeconfig instead of a
// service account's token, and the ports of health and metrics are any that are free.
package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/chart"
)

const (
	// Namespace is that of the release.
	Namespace = "dra-steward"
	// User is the identity of the Deployment.
	User = "system:serviceaccount:" + Namespace + ":dra-steward-controller"
)

// A Cluster is a test cluster, such as that of test/envtest.
type Cluster interface {
	Config() *rest.Config
	// Version is that of Kubernetes.
	Version() string
	// UserKubeconfig is the path of a kubeconfig of a user.
	UserKubeconfig(name string, groups ...string) (string, error)
}

// Install applies what the chart has for the controller, its Deployment excepted, and the
// types, waits until they are served, and returns the arguments of the Deployment. Values
// are the chart's, as in a values file; the certificate is made up, if they name none.
func Install(ctx context.Context, cluster Cluster, values map[string]any) ([]string, error) {
	merged := map[string]any{
		"certificates": map[string]any{"mode": "provided", "existingSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----\n…"},
	}
	maps.Copy(merged, values)
	objects, err := chart.Render(merged, chart.Options{KubeVersion: cluster.Version(), Namespace: Namespace})
	if err != nil {
		return nil, err
	}
	args, err := apply(ctx, cluster, objects)
	if err != nil {
		return nil, err
	}
	if err := served(ctx, cluster); err != nil {
		return nil, err
	}
	kubeconfig, err := cluster.UserKubeconfig(User, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
	if err != nil {
		return nil, err
	}
	args = slices.DeleteFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--health-address=") || strings.HasPrefix(arg, "--metrics-address=") || strings.HasPrefix(arg, "--config=")
	})
	return append(args, "--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--kubeconfig="+kubeconfig), nil
}

// apply returns the arguments of the Deployment and applies the rest.
func apply(ctx context.Context, cluster Cluster, objects []*unstructured.Unstructured) (args []string, err error) {
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	all := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}}
	for _, object := range objects {
		ours := object.GetLabels()["app.kubernetes.io/component"] == "controller"
		switch {
		case ours && object.GetKind() == "Deployment":
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			args, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		case ours || object.GetKind() == "CustomResourceDefinition":
			all = append(all, object)
		}
	}
	for _, object := range all {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return args, nil
}

// served waits until the API server knows our types.
func served(ctx context.Context, cluster Cluster) error {
	c, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	for _, resource := range []string{v1alpha1.ResourceSlicePatchResource, v1alpha1.DeviceDrainResource, v1alpha1.DeviceRollResource} {
		kind := c.Resource(v1alpha1.GroupVersion().WithResource(resource))
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := kind.List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%s are not served: %w", resource, err)
		}
	}
	return nil
}

// A Controller is the program, running in this process.
type Controller struct {
	log  log
	stop context.CancelFunc
	code chan int
}

// A log is what the program writes while others read it.
type log struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// Start runs the program with the arguments of [Install] and returns when it leads. ctx
// bounds the start only.
func Start(ctx context.Context, args []string) (*Controller, error) {
	running, stop := context.WithCancel(context.Background())
	c := &Controller{stop: stop, code: make(chan int, 1)}
	go func() { c.code <- cli.Run(running, args, cmdutil.Streams{Out: &c.log, Err: &c.log}) }()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		return c.leads(), nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the controller does not lead: %w; its log:\n%s", err, &c.log), c.Stop())
	}
	return c, nil
}

// leads says whether its log says so.
func (c *Controller) leads() bool { return strings.Contains(c.log.String(), `"msg":"leading"`) }

// Log is what it has logged so far.
func (c *Controller) Log() string { return c.log.String() }

// Stop ends it as the kubelet would, gracefully. To have ended badly is an error.
func (c *Controller) Stop() error {
	c.stop()
	if code := <-c.code; code != cmdutil.ExitClean {
		return fmt.Errorf("the controller ended with exit code %d", code)
	}
	return nil
}
