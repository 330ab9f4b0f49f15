// Package podtemplate checks what pods say about devices: the claims of their containers, the templates and claims that they
// name, and extended resources. A pod is found in an object of any kind by its list of containers, so that Deployments,
// CronJobs and the kinds of operators are checked alike.
package podtemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// IDs of the checks.
const (
	Form     = "pod-claim-form"
	Exists   = "pod-claim-exists"
	Names    = "pod-container-claim"
	Unused   = "pod-claim-unused"
	Extended = "pod-extended-resource"
)

// A Finding is one thing that is wrong.
type Finding struct {
	Rule string
	// Warning is true for what works in some cluster.
	Warning bool
	// Path leads to the value, in the notation of [manifest.Document.Position].
	Path, Message string
}

// Check returns what is wrong with the pods of an object; found is false if the object has none that uses devices.
// What the objects do not have is unknown, not wrong, where they have none of the kind.
func Check(namespace string, raw []byte, objects *Objects) (findings []Finding, found bool) {
	if !bytes.Contains(raw, []byte(`"containers"`)) || !bytes.Contains(raw, []byte(`laims"`)) && !bytes.Contains(raw, []byte(`"resources"`)) {
		return nil, false
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil, false
	}
	c := checker{namespace: namespace, objects: objects}
	c.walk(value, "")
	return c.findings, c.found
}

type checker struct {
	namespace string
	objects   *Objects
	findings  []Finding
	found     bool
}

func (c *checker) add(rule, path, format string, args ...any) {
	c.findings = append(c.findings, Finding{Rule: rule, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) warn(rule, path, format string, args ...any) {
	c.add(rule, path, format, args...)
	c.findings[len(c.findings)-1].Warning = true
}

func (c *checker) walk(value any, path string) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			c.walk(item, fmt.Sprintf("%s[%d]", path, i))
		}
	case map[string]any:
		if _, is := value["containers"].([]any); is {
			c.decode(value, path)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			c.walk(value[key], strings.TrimPrefix(path+"."+key, "."))
		}
	}
}

// A pod is the part of a PodSpec that is about devices.
type pod struct {
	ResourceClaims []struct {
		Name                                         string
		ResourceClaimName, ResourceClaimTemplateName *string
		Source                                       json.RawMessage
	}
	InitContainers, Containers, EphemeralContainers []container
}

type container struct {
	Name      string
	Resources struct {
		Claims           []corev1.ResourceClaim
		Limits, Requests map[string]any
	}
}

func (c *checker) decode(value map[string]any, path string) {
	raw, err := json.Marshal(value)
	var p pod
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		if _, claims := value["resourceClaims"]; claims {
			c.found = true
			c.add(Form, path, "the claims of the pod cannot be read: %v", err)
		}
		return
	}
	c.pod(p, path)
}

func (c *checker) pod(p pod, path string) {
	names := map[string][]string{}
	used := map[string]bool{}
	for i, claim := range p.ResourceClaims {
		c.found = true
		at := fmt.Sprintf("%s.resourceClaims[%d]", path, i)
		if _, twice := names[claim.Name]; twice {
			c.add(Form, at+".name", "Duplicate value: %q", claim.Name)
		}
		names[claim.Name] = nil
		switch {
		case claim.Source != nil:
			c.add(Form, at+".source", "the field was removed in Kubernetes 1.31: write resourceClaimName or resourceClaimTemplateName one level higher, in %s", at)
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			c.add(Form, at, "must have one of resourceClaimName and resourceClaimTemplateName, not both")
		case claim.ResourceClaimTemplateName != nil:
			names[claim.Name] = c.named(&c.objects.templates, "ResourceClaimTemplate", at+".resourceClaimTemplateName", *claim.ResourceClaimTemplateName)
		case claim.ResourceClaimName != nil:
			names[claim.Name] = c.named(&c.objects.claims, "ResourceClaim", at+".resourceClaimName", *claim.ResourceClaimName)
		default:
			c.add(Form, at, "must have resourceClaimName or resourceClaimTemplateName")
		}
	}
	for _, list := range []struct {
		name       string
		containers []container
	}{{"initContainers", p.InitContainers}, {"containers", p.Containers}, {"ephemeralContainers", p.EphemeralContainers}} {
		for i, one := range list.containers {
			c.container(one, fmt.Sprintf("%s.%s[%d].resources", path, list.name, i), names, used)
		}
	}
	for i, claim := range p.ResourceClaims {
		if !used[claim.Name] {
			c.warn(Unused, fmt.Sprintf("%s.resourceClaims[%d]", path, i),
				"no container uses the claim %q, so its devices are allocated and no container gets them, unless the driver sets up the whole pod: add {name: %s} to resources.claims of a container", claim.Name, claim.Name)
		}
	}
}

func (c *checker) container(one container, path string, names map[string][]string, used map[string]bool) {
	for i, claim := range one.Resources.Claims {
		c.found = true
		at := fmt.Sprintf("%s.claims[%d]", path, i)
		requests, is := names[claim.Name]
		switch {
		case !is:
			guess := manifest.Nearest(claim.Name, slices.Sorted(maps.Keys(names)))
			if len(names) == 1 && guess == "" {
				guess = slices.Collect(maps.Keys(names))[0]
			}
			used[guess] = true
			c.add(Names, at+".name", "spec.resourceClaims has no claim %q%s", claim.Name, meant(guess))
			continue
		case claim.Request != "" && requests != nil && !slices.Contains(requests, claim.Request):
			c.add(Names, at+".request", "the claim %q has no request %q: its requests are %s%s", claim.Name, claim.Request,
				strings.Join(requests, ", "), meant(manifest.Nearest(claim.Request, requests)))
		}
		used[claim.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(one.Resources.Requests)) {
		if _, limited := one.Resources.Limits[name]; !limited && c.extended(name) {
			c.add(Extended, fmt.Sprintf("%s.requests[%s]", path, name), "must be in limits too, with the same number: the API server refuses an extended resource without a limit")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(one.Resources.Limits)) {
		c.resource(name, fmt.Sprintf("%s.limits[%s]", path, name))
	}
	for _, name := range slices.Sorted(maps.Keys(one.Resources.Requests)) {
		if _, twice := one.Resources.Limits[name]; !twice {
			c.resource(name, fmt.Sprintf("%s.requests[%s]", path, name))
		}
	}
}

// extended reports whether a resource is one of a DeviceClass.
func (c *checker) extended(name string) bool {
	return strings.HasPrefix(name, resourceapi.ResourceDeviceClassPrefix) || c.objects.extended[name]
}

// resource checks the name of a resource. One that is far from those of all classes may be that of a device plugin.
func (c *checker) resource(name, path string) {
	class, implicit := strings.CutPrefix(name, resourceapi.ResourceDeviceClassPrefix)
	switch {
	case c.objects.extended[name]:
		c.found = true
	case implicit:
		c.found = true
		if message, missing := c.objects.MissingClass(class); missing {
			c.add(Extended, path, "%s", message)
		}
	case strings.Contains(name, "/") && len(c.objects.extended) > 0:
		if guess := manifest.Nearest(name, slices.Sorted(maps.Keys(c.objects.extended))); guess != "" {
			c.found = true
			c.warn(Extended, path, "no DeviceClass has the extendedResourceName %q%s", name, meant(guess))
		}
	}
}

// named returns the requests of a claim or template that a pod names, nil if they are not known.
func (c *checker) named(all *byName, kind, path, name string) []string {
	requests, others, known := all.find(c.namespace, name)
	switch {
	case known:
		return requests
	case !all.has():
		c.warn(Exists, path, "%s %q is not in the input, which has no %s: it must exist before the pod; name files that have it with --existing", kind, name, kind)
	default:
		c.add(Exists, path, "there is no %s %q%s%s", kind, name, in(c.namespace), meant(manifest.Nearest(name, others)))
	}
	return nil
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in the namespace " + namespace
}

func meant(name string) string {
	if name == "" {
		return ""
	}
	return ": did you mean " + name + "?"
}
