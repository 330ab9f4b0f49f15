package deployed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	owner   = client.FieldOwner("dra-steward-guard")
	every   = 20 * time.Millisecond
	atMost  = 3 * time.Minute
	timeout = 30 * time.Second
)

// Ready waits until the program answers /readyz.
func (p Prepared) Ready(ctx context.Context, done <-chan int) error {
	return poll(ctx, func(ctx context.Context) error {
		if len(done) > 0 {
			return fatal{errors.New("it ended; see its log")}
		}
		_, err := Get(ctx, "http://"+p.Health+"/readyz")
		return err
	})
}

// applyRights installs what the program needs of the API server, and admission policies. Of
// everything else, which would only start pods that no node can run, it lets the API server
// check the form.
func (p Prepared) applyRights(ctx context.Context, c client.Client) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.Find("Deployment").GetNamespace()},
	}}
	if err := applyOne(ctx, c, namespace); err != nil {
		return err
	}
	for _, object := range p.Objects {
		var err error
		switch {
		case strings.HasPrefix(object.GetAPIVersion(), "rbac."), object.GetKind() == "CustomResourceDefinition", isPolicy(object):
			err = applyOne(ctx, c, object)
		case !isWebhook(object):
			err = applyOne(ctx, c, object, client.DryRunAll)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ApplyWebhooks makes the API server call the program.
func (p Prepared) ApplyWebhooks(ctx context.Context, c client.Client) error {
	for _, object := range p.Objects {
		if !isWebhook(object) {
			continue
		}
		if err := p.redirect(object); err != nil {
			return err
		}
		if err := applyOne(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

func isWebhook(object *unstructured.Unstructured) bool {
	return strings.HasSuffix(object.GetKind(), "WebhookConfiguration")
}

// isPolicy reports whether the API server evaluates the object itself.
func isPolicy(object *unstructured.Unstructured) bool {
	return strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy")
}

func applyOne(ctx context.Context, c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, owner, client.ForceOwnership)
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// redirect makes the webhooks of a configuration call the program instead of the
// Service.
func (p Prepared) redirect(configuration *unstructured.Unstructured) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, webhook := range webhooks {
		hook, _ := webhook.(map[string]any)
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(hook, "clientConfig", "service")
		if err := unstructured.SetNestedField(hook, "https://"+p.Address+path, "clientConfig", "url"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// Called waits until the API server has sent a request to both endpoints of this
// very program: it takes a moment to learn of new webhook configurations.
func (p Prepared) Called(ctx context.Context, c client.Client) error {
	return poll(ctx, func(ctx context.Context) error { return p.probe(ctx, c) })
}

// probe lets the API server send a request, and is nil if the program has answered one at both
// endpoints.
func (p Prepared) probe(ctx context.Context, c client.Client) error {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "dra-steward-probe-", Namespace: metav1.NamespaceDefault},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "any", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "dra-steward-probe"}},
		}}},
	}
	if err := c.Create(ctx, claim, client.DryRunAll); err != nil {
		return err
	}
	return p.answered(ctx, "mutate", "validate")
}

// answered is nil if the program's metrics tell of an answer for each endpoint.
func (p Prepared) answered(ctx context.Context, endpoints ...string) error {
	metrics, err := Get(ctx, "http://"+p.Metrics+"/metrics")
	if err != nil {
		return err
	}
	for _, endpoint := range endpoints {
		if !strings.Contains(string(metrics), `dra_steward_admission_answers_total{endpoint="`+endpoint+`"`) {
			return fmt.Errorf("no request arrived at /%s", endpoint)
		}
	}
	return nil
}

// fatal ends a poll at once.
type fatal struct{ error }

// poll calls check until it succeeds and returns its last error otherwise.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		if end := (fatal{}); errors.As(last, &end) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// Get returns what url answers.
func Get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
