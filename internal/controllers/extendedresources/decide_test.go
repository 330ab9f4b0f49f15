package extendedresources_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
)

func class(name string) *resourceapi.DeviceClass {
	if name == "" {
		return &resourceapi.DeviceClass{}
	}
	return &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}}
}

func TestNames(t *testing.T) {
	classes := []*resourceapi.DeviceClass{class("nvidia.com/gpu"), class(""), class("amd.com/gpu"), class("nvidia.com/gpu"), class("deviceclass.resource.kubernetes.io/a")}
	if got, want := extendedresources.Names(classes), []string{"amd.com/gpu", "nvidia.com/gpu"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func implicit() admissionv1.ValidatingWebhook {
	seconds := int32(2)
	return admissionv1.ValidatingWebhook{
		Name: extendedresources.ImplicitWebhook, TimeoutSeconds: &seconds,
		ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("ca")},
		MatchConditions: []admissionv1.MatchCondition{
			{Name: "other", Expression: "true"},
			{Name: "asks-for-extended-resources", Expression: extendedresources.Condition("name.startsWith('deviceclass.resource.kubernetes.io/')")},
		},
	}
}

func TestDecide(t *testing.T) {
	claims := admissionv1.ValidatingWebhook{Name: "claims.validate.dra-steward.io"}
	current := implicit()
	current.Name = extendedresources.ListedWebhook
	current.MatchConditions[1].Expression = extendedresources.Condition(`name in {"a/b":true}`)
	outdated, replaced := *current.DeepCopy(), *current.DeepCopy()
	outdated.MatchConditions[1].Expression = extendedresources.Condition(`name in {"c/d":true}`)
	replaced.ClientConfig.CABundle = []byte("old")
	for name, tt := range map[string]struct {
		webhooks []admissionv1.ValidatingWebhook
		names    []string
		want     string // the operation and its place, or the names of all webhooks afterwards
	}{
		"no classes":                       {[]admissionv1.ValidatingWebhook{claims, implicit()}, nil, ""},
		"first class":                      {[]admissionv1.ValidatingWebhook{claims, implicit()}, []string{"a/b"}, "add /webhooks/-"},
		"in step":                          {[]admissionv1.ValidatingWebhook{claims, implicit(), current}, []string{"a/b"}, ""},
		"in step, in another order":        {[]admissionv1.ValidatingWebhook{current, claims, implicit()}, []string{"a/b"}, ""},
		"other names":                      {[]admissionv1.ValidatingWebhook{outdated, claims, implicit()}, []string{"a/b"}, "replace /webhooks/0"},
		"another authority":                {[]admissionv1.ValidatingWebhook{claims, replaced, implicit()}, []string{"a/b"}, "replace /webhooks/1"},
		"last class removed":               {[]admissionv1.ValidatingWebhook{claims, implicit(), current}, nil, "remove /webhooks/2"},
		"switched off":                     {[]admissionv1.ValidatingWebhook{claims, current}, []string{"a/b"}, "remove /webhooks/1"},
		"switched off, nothing left":       {[]admissionv1.ValidatingWebhook{claims}, []string{"a/b"}, ""},
		"an empty configuration":           {nil, []string{"a/b"}, ""},
		"a webhook without the condition ": {[]admissionv1.ValidatingWebhook{{Name: extendedresources.ImplicitWebhook}}, []string{"a/b"}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := extendedresources.Decide(tt.webhooks, tt.names)
			if err != nil || tt.want == "error" {
				if err == nil || tt.want != "error" {
					t.Errorf("got the error %v, want %q", err, tt.want)
				}
				return
			}
			if change == nil {
				if tt.want != "" {
					t.Errorf("no change, want %s", tt.want)
				}
				return
			}
			after, operation := apply(t, *change, tt.webhooks)
			if operation != tt.want {
				t.Errorf("got %s, want %q", operation, tt.want)
			}
			if again, err := extendedresources.Decide(after, tt.names); again != nil || err != nil {
				t.Errorf("a second time: %+v, %v", again, err)
			}
		})
	}
}

// apply applies the patch of a change to the configuration.
func apply(t *testing.T, change extendedresources.Change, webhooks []admissionv1.ValidatingWebhook) ([]admissionv1.ValidatingWebhook, string) {
	t.Helper()
	text, err := change.Patch("7")
	if err != nil {
		t.Fatal(err)
	}
	before := admissionv1.ValidatingWebhookConfiguration{Webhooks: webhooks}
	before.ResourceVersion = "6"
	document, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(document)
	if err != nil {
		t.Fatal(err)
	}
	var after admissionv1.ValidatingWebhookConfiguration
	if err := json.Unmarshal(patched, &after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != "7" {
		t.Errorf("the patch does not name the version of the configuration: %s", text)
	}
	path, err := patch[1].Path()
	if err != nil {
		t.Fatal(err)
	}
	return after.Webhooks, patch[1].Kind() + " " + path
}

// TestManyNames: a list that is too long for an expression is replaced by a wider condition.
func TestManyNames(t *testing.T) {
	for n, wide := range map[int]bool{500: false, 5000: true} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("vendor-%d.example.com/gpu", i))
		}
		change, err := extendedresources.Decide([]admissionv1.ValidatingWebhook{implicit()}, names)
		if err != nil {
			t.Fatal(err)
		}
		expression := change.Webhook.MatchConditions[1].Expression
		if strings.Contains(expression, "name.contains('/')") != wide || len(expression) > 90_000 {
			t.Errorf("%d names: %d bytes, wide should be %v", n, len(expression), wide)
		}
	}
}
