package parameters

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// formats are those of networks, of Kubernetes, and of the numbers of Go. A format says nothing about values of another type;
// a quantity can be a text or a number.
var formats = []jsonschema.Format{
	{Name: "cidr", Validate: text(func(s string) error { _, err := netip.ParsePrefix(s); return err })},
	{Name: "ip", Validate: text(func(s string) error { _, err := netip.ParseAddr(s); return err })},
	{Name: "net-cidr", Validate: text(func(s string) error { _, _, err := net.ParseCIDR(s); return err })},
	{Name: "net-ip", Validate: text(func(s string) error {
		if net.ParseIP(s) == nil {
			return errors.New("no IP address")
		}
		return nil
	})},
	{Name: "family4", Validate: text(family(true))},
	{Name: "family6", Validate: text(family(false))},
	{Name: "mac", Validate: text(func(s string) error { _, err := net.ParseMAC(s); return err })},
	{Name: "interface-name", Validate: text(interfaceName)},
	{Name: "cpuset", Validate: text(cpuset)},
	{Name: "quantity", Validate: amount(func(_ resource.Quantity, err error) error { return err })},
	{Name: "mebibytes", Validate: amount(func(q resource.Quantity, err error) error {
		if err == nil && q.Value() < 1<<20 { // what is no quantity violates the format quantity
			return errors.New("less than 1Mi")
		}
		return nil
	})},
	{Name: "int32", Validate: number(func(s string) error { _, err := strconv.ParseInt(s, 10, 32); return err })},
	{Name: "int64", Validate: number(func(s string) error { _, err := strconv.ParseInt(s, 10, 64); return err })},
	{Name: "uint8", Validate: number(func(s string) error { _, err := strconv.ParseUint(s, 10, 8); return err })},
	{Name: "uint64", Validate: number(func(s string) error { _, err := strconv.ParseUint(s, 10, 64); return err })},
	{Name: "label-value", Validate: text(func(s string) error {
		if problems := validation.IsValidLabelValue(s); len(problems) > 0 {
			return errors.New(strings.Join(problems, "; "))
		}
		return nil
	})},
}

// wants describes the values of a format.
var wants = map[string]string{
	"cidr": "must be an IP address with the length of its prefix, such as 10.0.0.1/24", "net-cidr": "must be an IP address with the length of its prefix, such as 10.0.0.1/24",
	"ip": "must be an IP address", "net-ip": "must be an IP address", "mac": "must be a hardware address, such as 00:11:22:33:44:55",
	"family4": "must be of IPv4", "family6": "must be of IPv6",
	"interface-name": "must be the name of a Linux interface: at most 15 bytes of letters, digits, dots, hyphens and underscores",
	"cpuset":         "must be a list of CPUs, such as 0-3,8",
	"quantity":       "must be a quantity, such as 10Gi", "mebibytes": "must be a quantity of at least 1Mi", "label-value": "must be what a label may have as its value",
	"int32": "must be an integer of 32 bits, without fraction and exponent", "int64": "must be an integer of 64 bits, without fraction and exponent",
	"uint8": "must be an integer from 0 to 255, without fraction and exponent", "uint64": "must be an integer from 0 to 18446744073709551615, without fraction and exponent",
}

func text(check func(string) error) func(any) error {
	return func(value any) error {
		if s, is := value.(string); is {
			return check(s)
		}
		return nil
	}
}

// number checks a number as it is written: Go reads 1e2 and 1.0 into no integer.
func number(check func(string) error) func(any) error {
	return func(value any) error {
		if n, is := value.(json.Number); is {
			return check(n.String())
		}
		return nil
	}
}

func amount(check func(resource.Quantity, error) error) func(any) error {
	parsed := func(s string) error { return check(quantity.Parse(strings.TrimSpace(s))) }
	return func(value any) error { return errors.Join(text(parsed)(value), number(parsed)(value)) }
}

// family is true if an address, with or without the length of a prefix, is of IPv4. A text that is no address is of both.
func family(v4 bool) func(string) error {
	return func(s string) error {
		address, _, _ := strings.Cut(s, "/")
		if ip := net.ParseIP(address); ip != nil && (ip.To4() != nil) != v4 {
			return errors.New("of the other family")
		}
		return nil
	}
}

func interfaceName(s string) error {
	other := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}
	if len(s) > 15 || s == "." || s == ".." || strings.ContainsFunc(s, other) {
		return errors.New("no name of an interface")
	}
	return nil
}

// cpuset checks the list of CPUs without making it: a range can have any length.
func cpuset(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last < first {
			return fmt.Errorf("%.40q is no range of CPUs", part)
		}
	}
	return nil
}
