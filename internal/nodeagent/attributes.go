package nodeagent

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// maxAttributes bounds the labels that a site adds to each holder.
const maxAttributes = 8

// CheckAttributes refuses names of attributes that no device can have, and sets of names that
// cannot be labels of one metric.
func CheckAttributes(names []string) error {
	if len(names) > maxAttributes {
		return fmt.Errorf("must have at most %d names, not %d", maxAttributes, len(names))
	}
	labels := map[string]string{}
	for _, name := range names {
		domain, id, qualified := strings.Cut(name, "/")
		if !qualified {
			domain, id = "example.com", name
		}
		if len(validation.IsDNS1123Subdomain(domain)) > 0 || len(validation.IsCIdentifier(id)) > 0 {
			return fmt.Errorf("%q: must be the name of an attribute, such as uuid or resource.kubernetes.io/pciBusID", name)
		}
		label := attributeLabel(name)
		if other, taken := labels[label]; taken {
			return fmt.Errorf("%q and %q: both have the label %s", other, name, label)
		}
		labels[label] = name
	}
	return nil
}

// attributeLabel returns the label of an attribute: attribute_uuid.
func attributeLabel(name string) string {
	return "attribute_" + strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '/' {
			return '_'
		}
		return r
	}, name)
}

// attributesOf returns the attributes of a device that are asked for, by the names that they
// are asked for with. A name without a domain is one of the driver.
func attributesOf(device *resourceapi.Device, driver string, names []string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		short := strings.TrimPrefix(name, driver+"/")
		for _, key := range []string{short, driver + "/" + short} {
			if attribute, ok := device.Attributes[resourceapi.QualifiedName(key)]; ok {
				values[name] = printable.Attribute(attribute)
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}
