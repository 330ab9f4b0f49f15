package guard

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// Counts are what a taint or drain hits now.
type Counts struct {
	// Devices are allocated ones, DriverDevices all that their drivers publish; 0 where
	// the number is unknown.
	Devices       int `json:"devices"`
	DriverDevices int `json:"driverDevices,omitempty"`
	Claims        int `json:"claims"`
	// Pods are those that would go, Namespaces theirs.
	Pods       int `json:"pods"`
	Namespaces int `json:"namespaces"`
}

// Thresholds are how much may be hit without an acknowledgement. Zero is nothing at
// all; a site that has decided nothing has [DefaultThresholds].
type Thresholds struct {
	// Pods and Namespaces are the most that may be hit.
	Pods       int `json:"pods"`
	Namespaces int `json:"namespaces"`
	// Percent is the largest share of the devices of the drivers that are hit, 0 to 100.
	// A single device always passes, and so does everything where DriverDevices is not
	// known.
	Percent int `json:"percent"`
}

// DefaultThresholds are those of a site that has decided nothing: what one rack has.
func DefaultThresholds() Thresholds { return Thresholds{Pods: 20, Namespaces: 5, Percent: 25} }

// ImpactPolicy is the policy of the library whose parameters are the thresholds.
const ImpactPolicy = "DRA-RULE-004"

// Configured returns the thresholds that a configuration gives to the guard, and to the controllers.
// What a site's own policies make of them it does not say.
func Configured(c v1alpha1.StewardConfiguration) Thresholds {
	t := DefaultThresholds()
	parameters := map[string]any{}
	_ = json.Unmarshal(c.Policies.Parameters[ImpactPolicy], &parameters) // what is wrong with them the configuration's check says
	for _, one := range []struct {
		parameter string
		value     *int
		into      *int
	}{
		{"maxPods", c.Guard.Thresholds.Pods, &t.Pods},
		{"maxNamespaces", c.Guard.Thresholds.Namespaces, &t.Namespaces},
		{"maxPercent", c.Guard.Thresholds.Percent, &t.Percent},
	} {
		if one.value != nil {
			*one.into = *one.value
		}
		if n, is := parameters[one.parameter].(float64); is {
			*one.into = int(n)
		}
	}
	return t
}

// An Excess is one thing that is too large.
type Excess struct {
	// What is devices, claims, pods, namespaces, percent (of the devices of the drivers), or
	// evictions, if not all that began are counted.
	What string
	// Count is how much there is, Limit how much may be: of percent, both in percent.
	Count, Limit int
	// Acknowledged is true if Limit is that of an acknowledgement, and not of the site.
	Acknowledged bool
}

// String is such as "31 pods are more than the threshold of 20".
func (e Excess) String() string {
	if e.What == evictions {
		return fmt.Sprintf("more began than are counted, which are %d rules and drains, and %d pods", MostStarts, MostPods)
	}
	than := "the threshold of"
	if e.Acknowledged {
		than = "the acknowledged"
	}
	if e.What == percent {
		return fmt.Sprintf("%d %% of the devices of the drivers are more than %s %d %%", e.Count, than, e.Limit)
	}
	verb := "are"
	if e.Count == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s more than %s %d", plural.Of(e.Count, strings.TrimSuffix(e.What, "s")), verb, than, e.Limit)
}

const (
	percent   = "percent"
	evictions = "evictions"
)

// Exceeded returns what of an impact is too large, in the order devices, claims, pods,
// namespaces, percent; nothing if all of it may be. What an acknowledgement speaks of, it
// decides, whether it allows more than the threshold or less: an author who says "no more
// than 5" does not mean 20. One that speaks of pods or devices answers for the share of
// the devices, too. acknowledged is nil if there is none.
func (t Thresholds) Exceeded(c Counts, acknowledged *Ceiling) (over []Excess) {
	var ceiling Ceiling
	if acknowledged != nil {
		ceiling = *acknowledged
	}
	for _, one := range []struct {
		what        string
		count       int
		limit, site *int
	}{
		{devices, c.Devices, ceiling.Devices, nil},
		{claims, c.Claims, ceiling.Claims, nil},
		{pods, c.Pods, ceiling.Pods, &t.Pods},
		{namespaces, c.Namespaces, ceiling.Namespaces, &t.Namespaces},
	} {
		limit, by := one.site, false
		if one.limit != nil {
			limit, by = one.limit, true
		}
		if limit != nil && one.count > *limit {
			over = append(over, Excess{one.what, one.count, *limit, by})
		}
	}
	if ceiling.Pods == nil && ceiling.Devices == nil && c.Devices > 1 && c.DriverDevices > 0 && c.Devices*100 > c.DriverDevices*t.Percent {
		over = append(over, Excess{percent, (c.Devices*100 + c.DriverDevices - 1) / c.DriverDevices, t.Percent, false})
	}
	return over
}
