package guard

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A Ceiling is what the author of an object has acknowledged that it may hit: no more
// than these, and what is nil is not spoken of. The zero value acknowledges nothing.
type Ceiling struct {
	Devices, Claims, Pods, Namespaces *int
	// Stranded are the pods that do not land again.
	Stranded *int
}

// The things that a ceiling counts, as an acknowledgement and messages name them.
const (
	devices    = "devices"
	claims     = "claims"
	pods       = "pods"
	namespaces = "namespaces"
	stranded   = "stranded"
)

// maxAcknowledgement bounds the length of an acknowledgement; the longest that makes
// sense is far shorter.
const maxAcknowledgement = 128

// A CeilingError says why an acknowledgement does not count.
type CeilingError struct {
	// Text is the acknowledgement, Problem what is wrong with it.
	Text, Problem string
}

func (e CeilingError) Error() string {
	text := e.Text
	if len(text) > maxAcknowledgement {
		text = text[:maxAcknowledgement] + "…"
	}
	return fmt.Sprintf("%q: %s", text, e.Detail())
}

// Detail is the problem with what would be right, without the text.
func (e CeilingError) Detail() string {
	return e.Problem + "; write a list of devices, claims, pods, namespaces and stranded (pods), such as pods<=120,namespaces<=4"
}

// ParseCeiling reads an acknowledgement: "pods<=120,namespaces<=4". Each of devices,
// claims, pods, namespaces and stranded is there at most once, with a number from 0 to
// 999999999; there is at least one. Spaces are allowed around every part. What is wrong is
// a [CeilingError].
func ParseCeiling(text string) (Ceiling, error) {
	var c Ceiling
	wrong := func(format string, values ...any) (Ceiling, error) {
		return Ceiling{}, CeilingError{text, fmt.Sprintf(format, values...)}
	}
	if len(text) > maxAcknowledgement {
		return wrong("is longer than %d characters", maxAcknowledgement)
	}
	if strings.TrimSpace(text) == "" {
		return wrong("is empty")
	}
	for item := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(item, "<=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found {
			return wrong("%q has no <=", strings.TrimSpace(item))
		}
		limit := c.limit(name)
		if limit == nil {
			return wrong("%q is unknown", name)
		}
		if *limit != nil {
			return wrong("%s is listed twice", name)
		}
		n, err := strconv.Atoi(value)
		if err != nil || strconv.Itoa(n) != value || n < 0 || n > 999_999_999 {
			return wrong("%s<= needs a number from 0 to 999999999 and has %q", name, value)
		}
		*limit = &n
	}
	return c, nil
}

// Acknowledged reads the acknowledgement of an object, nil if it has none.
func Acknowledged(annotations map[string]string) (*Ceiling, error) {
	text, has := annotations[v1alpha1.AcknowledgementAnnotation]
	if !has {
		return nil, nil
	}
	c, err := ParseCeiling(text)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// AcknowledgesPods reports whether an object says how many pods it may hit, which is the
// least that who selects everything has to say.
func AcknowledgesPods(annotations map[string]string) bool {
	c, err := Acknowledged(annotations)
	return err == nil && c != nil && c.Pods != nil
}

// CeilingOf is the lowest ceiling that lets an impact pass.
func CeilingOf(c Counts) Ceiling { return Ceiling{Pods: &c.Pods, Namespaces: &c.Namespaces} }

// limit is the place of a limit, nil for a name that there is not.
func (c *Ceiling) limit(name string) **int {
	switch name {
	case devices:
		return &c.Devices
	case claims:
		return &c.Claims
	case pods:
		return &c.Pods
	case namespaces:
		return &c.Namespaces
	case stranded:
		return &c.Stranded
	default:
		return nil
	}
}

// names are those of a Ceiling, in the order in which String and messages have them.
func names() []string { return []string{devices, claims, pods, namespaces, stranded} }

// String is what ParseCeiling reads.
func (c Ceiling) String() string {
	var items []string
	for name, limit := range c.Limits() {
		items = append(items, fmt.Sprintf("%s<=%d", name, limit))
	}
	return strings.Join(items, ",")
}

// Annotate is the annotation that acknowledges a ceiling, as a manifest has it.
func (c Ceiling) Annotate() string {
	return fmt.Sprintf("%s: %q", v1alpha1.AcknowledgementAnnotation, c)
}

// Equal reports whether two ceilings allow the same.
func (c Ceiling) Equal(other Ceiling) bool {
	return !slices.ContainsFunc(names(), func(name string) bool {
		a, b := *c.limit(name), *other.limit(name)
		return (a == nil) != (b == nil) || a != nil && *a != *b
	})
}

// Limits yields what a ceiling speaks of with its limit.
func (c Ceiling) Limits() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, name := range names() {
			if limit := *c.limit(name); limit != nil && !yield(name, *limit) {
				return
			}
		}
	}
}

// AcknowledgementError is what the rule taint-rule-acknowledgement says of annotations.
func AcknowledgementError(annotations map[string]string, err error) *field.Error {
	problem := err.Error()
	if wrong := (CeilingError{}); errors.As(err, &wrong) {
		problem = wrong.Detail()
	}
	found := field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.AcknowledgementAnnotation),
		annotations[v1alpha1.AcknowledgementAnnotation], problem)
	found.Origin = "taint-rule-acknowledgement"
	return found
}

// DriverCeiling returns the key of the acknowledged impact of a driver's taints.
func DriverCeiling(driver string) string { return "acknowledged-impact." + driver }
