package parameters

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// formats are those of networks and of Kubernetes. Like all formats they say nothing
// about values that are no strings, but for numbers as quantities.
var formats = []jsonschema.Format{
	{Name: "cidr", Validate: text(func(s string) error { _, err := netip.ParsePrefix(s); return err })},
	{Name: "ip", Validate: text(func(s string) error { _, err := netip.ParseAddr(s); return err })},
	{Name: "mac", Validate: text(func(s string) error { _, err := net.ParseMAC(s); return err })},
	{Name: "quantity", Validate: func(value any) error {
		if number, is := value.(json.Number); is {
			value = number.String()
		}
		return text(parseQuantity)(value)
	}},
	{Name: "label-value", Validate: text(func(s string) error {
		if problems := validation.IsValidLabelValue(s); len(problems) > 0 {
			return errors.New(strings.Join(problems, "; "))
		}
		return nil
	})},
}

// wants describes the values of a format.
var wants = map[string]string{
	"cidr": "must be an IP address with the length of its prefix, such as 10.0.0.1/24",
	"ip":   "must be an IP address", "mac": "must be a hardware address, such as 00:11:22:33:44:55",
	"quantity": "must be a quantity, such as 10Gi", "label-value": "must be what a label may have as its value",
}

func text(check func(string) error) func(any) error {
	return func(value any) error {
		if s, is := value.(string); is {
			return check(s)
		}
		return nil
	}
}

func parseQuantity(s string) error {
	_, err := resource.ParseQuantity(s)
	return err
}
