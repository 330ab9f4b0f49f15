package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/webhook"
)

const (
	namespace = "dra-steward"
	loopback  = "127.0.0.1"
)

// A release is the chart. Its Deployments are processes of the real program on
// loopback, one replica each, with the rights, the arguments and the memory limit of their pods.
type release struct {
	cluster *envtest.Cluster
	client  client.Client
	program string
	dir     string
	objects []*unstructured.Unstructured
	// address is that of the webhook.
	address string
}

func newRelease(t *testing.T, cluster *envtest.Cluster, program string, more map[string]any) *release {
	t.Helper()
	dir := t.TempDir()
	must(t, webhook.SelfSigned(filepath.Join(dir, "tls"), []string{loopback}))
	authority, err := os.ReadFile(filepath.Join(dir, "tls", webhook.AuthorityFile))
	must(t, err)
	values := map[string]any{"certificates": map[string]any{"mode": "provided", "existingSecret": "tls", "caBundle": string(authority)}}
	maps.Copy(values, more)
	objects, err := chart.Render(values, chart.Options{KubeVersion: cluster.Version()})
	must(t, err)
	c, err := client.New(cluster.Config(), client.Options{})
	must(t, err)
	r := &release{cluster: cluster, client: c, program: program, dir: dir, objects: objects, address: freeAddress(t)}
	r.configure(t)
	return r
}

// configure writes the files of the ConfigMap of the webhook.
func (r *release) configure(t *testing.T) {
	t.Helper()
	for _, object := range r.objects {
		files, _, err := unstructured.NestedStringMap(object.Object, "data")
		must(t, err)
		if object.GetKind() == "ConfigMap" && files["config.yaml"] != "" {
			must(t, os.WriteFile(r.config(), []byte(files["config.yaml"]), 0o600))
			return
		}
	}
	t.Fatal("the chart has no ConfigMap with config.yaml")
}

func (r *release) config() string { return filepath.Join(r.dir, "config.yaml") }

// install applies types, accounts, rights and admission policies: what is not a process and does
// not call one.
func (r *release) install(t *testing.T) {
	t.Helper()
	must(t, r.apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}))
	for _, object := range r.objects {
		if object.GetKind() != "Deployment" && !callsWebhook(object) {
			must(t, r.apply(t.Context(), object))
		}
	}
	eventually(t, "the types are served", func(ctx context.Context) error {
		patches := &unstructured.UnstructuredList{}
		patches.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ResourceSlicePatchList"))
		return r.client.List(ctx, patches)
	})
}

func callsWebhook(object *unstructured.Unstructured) bool {
	return strings.HasSuffix(object.GetKind(), "WebhookConfiguration")
}

func (r *release) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("scale"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// start runs the Deployment of a component, webhook or controller, without some of its flags.
func (r *release) start(t *testing.T, component string, drop ...string) *process {
	t.Helper()
	i := slices.IndexFunc(r.objects, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "Deployment" && object.GetLabels()["app.kubernetes.io/component"] == component
	})
	if i < 0 {
		t.Fatalf("the chart has no Deployment of the %s", component)
	}
	var deployment appsv1.Deployment
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(r.objects[i].Object, &deployment))
	pod := deployment.Spec.Template.Spec
	user := "system:serviceaccount:" + namespace + ":" + pod.ServiceAccountName
	kubeconfig, err := r.cluster.UserKubeconfig(user, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	must(t, err)
	health := freeAddress(t)
	flags := map[string]string{"--kubeconfig": kubeconfig, "--health-address": health, "--metrics-address": freeAddress(t)}
	if component == "webhook" {
		flags["--address"], flags["--cert-dir"], flags["--shutdown-delay"] = r.address, filepath.Join(r.dir, "tls"), "0s"
	}
	args := slices.DeleteFunc(slices.Clone(pod.Containers[0].Args), func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return flags[name] != "" || name == "--config" || slices.Contains(drop, name)
	})
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, name+"="+flags[name])
	}
	args = append(args, "--config="+r.config())
	limit := pod.Containers[0].Resources.Limits[corev1.ResourceMemory]
	environment := []string{fmt.Sprintf("GOMEMLIMIT=%d000000B", limit.Value()>>20)}
	for _, variable := range pod.Containers[0].Env {
		if variable.ValueFrom == nil && variable.Name != "GOMEMLIMIT" { // which Kubernetes computes
			environment = append(environment, variable.Name+"="+variable.Value)
		}
	}
	p := begin(t, r.program, component, health, limit.Value(), args, environment)
	p.metrics = flags["--metrics-address"]
	return p
}

// callTo makes the API server call an address for what the chart sends to the webhook.
func (r *release) callTo(t *testing.T, address string) {
	t.Helper()
	for _, object := range r.objects {
		if callsWebhook(object) {
			object = object.DeepCopy()
			must(t, redirect(object, address))
			must(t, r.apply(t.Context(), object))
		}
	}
}

// connect makes the API server call the webhook.
func (r *release) connect(t *testing.T) {
	t.Helper()
	r.callTo(t, r.address)
	eventually(t, "the webhook denies", func(ctx context.Context) error {
		if !r.denies(ctx) {
			return errors.New("a claim with 17 tolerations passes")
		}
		return nil
	})
}

// disconnect deletes the webhook configurations.
func (r *release) disconnect(t *testing.T) {
	t.Helper()
	for _, object := range r.objects {
		if callsWebhook(object) {
			must(t, client.IgnoreNotFound(r.client.Delete(t.Context(), object.DeepCopy())))
		}
	}
	eventually(t, "the webhook is not asked", func(ctx context.Context) error {
		if r.denies(ctx) {
			return errors.New("a claim with 17 tolerations is denied")
		}
		return nil
	})
}

// redirect makes a configuration name an address instead of the Service.
func redirect(configuration *unstructured.Unstructured, address string) error {
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		one, _ := hook.(map[string]any)
		path, _, err := unstructured.NestedString(one, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(one, "clientConfig", "service")
		if err := unstructured.SetNestedField(one, "https://"+address+path, "clientConfig", "url"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks")
}

// denies reports whether a claim is denied that only the webhook denies.
func (r *release) denies(ctx context.Context) bool {
	claim := claim("probe-")
	claim.Namespace = "default"
	for i := range 17 {
		claim.Spec.Devices.Requests[0].Exactly.Tolerations = append(claim.Spec.Devices.Requests[0].Exactly.Tolerations, toleration(i))
	}
	err := r.client.Create(ctx, claim, client.DryRunAll)
	return err != nil && strings.Contains(err.Error(), "dra-steward")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Loopback()
	must(t, err)
	return address
}
