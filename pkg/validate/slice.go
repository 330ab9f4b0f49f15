package validate

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/serving/caller"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// nodeNameExtra is the extra of a user under which an API server keeps the node of the
// pod that a token was issued for.
const nodeNameExtra = "authentication.kubernetes.io/node-name"

// Publishers are who may publish slices for a driver.
type Publishers struct {
	// Users and Groups are names as the API server authenticates them.
	Users, Groups []string
}

// authorGaps are the rules for who publishes a slice. They check the write and not other
// objects. What another user stored before is no excuse.
var authorGaps = Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-node-author",
		Doc: `A slice for a node is written from that node.

The token of a pod contains the node of the pod. A driver that writes slices for another
node can publish devices that do not exist there, or remove those of another pod. The API
server restricts only kubelets to their nodes. It only warns, because one pod can publish
for many nodes; set it to error if every driver runs on its nodes.`,
		Severity: Warning,
		Upstream: "restricts kubelets (NodeRestriction), not drivers",
		Source:   "KEP-4381, ResourceSliceSpec.NodeName; KEP-4193, " + nodeNameExtra,
		Check:    sliceNodeAuthor,
	},
	{
		ID: "slice-driver-author",
		Doc: `A slice of a driver is written by one of the driver's identities.

RBAC cannot restrict write access to the ResourceSlices of one driver. A site names the users
and groups of a driver (drivers.<name>.users, drivers.<name>.groups in the configuration).
The rule does not check drivers that the site does not name. An update by the garbage collector or
the storage version migrator that changes neither the spec nor the annotations is no publication.`,
		Upstream: "allows every user with write access to slices to write those of any driver",
		Source:   "KEP-4381, ResourceSliceSpec.Driver",
		Check:    sliceDriverAuthor,
	},
	{
		ID: "slice-author-changed",
		Doc: `The slices of a driver, and those of a pool, are written by one identity.

A slice whose author differs from the one that the webhook has first seen to publish for the
driver, or in its pool, draws a warning: another driver, or a user, can publish devices that do
not exist and taints that evict pods. An identity is a user name, such as that of a ServiceAccount, whatever
the node of its pod; all kubelets are one. The rule never denies, because the webhook only
knows the writes since its start. It does not check drivers whose identities the site names
(drivers.<name>.users): slice-driver-author does.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "allows every user with write access to slices to write those of any driver",
		Source:      "KEP-4381, ResourceSliceSpec.Driver",
		Check:       sliceAuthorChanged,
	},
}

// SliceAuthors knows who publishes for a driver.
type SliceAuthors interface {
	// First returns the identity that was first seen to publish in a pool of a driver, or, if
	// the pool is empty, for the driver. It is empty if none was.
	First(driver, pool string) string
}

func sliceAuthorChanged(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	if c.Author == nil || c.SliceAuthors == nil {
		return nil
	}
	if _, named := c.Publishers[slice.Spec.Driver]; named {
		return nil
	}
	spec, author := field.NewPath("spec"), caller.SliceIdentity(c.Author.Username)
	if first := c.SliceAuthors.First(slice.Spec.Driver, ""); first != "" && first != author {
		return field.ErrorList{authorChanged(spec.Child("driver"), first, "for the driver", c.Author.Username)}
	}
	if first := c.SliceAuthors.First(slice.Spec.Driver, slice.Spec.Pool.Name); first != "" && first != author {
		return field.ErrorList{authorChanged(spec.Child("pool", "name"), first, "in the pool", c.Author.Username)}
	}
	return nil
}

func authorChanged(path *field.Path, first, where, author string) *field.Error {
	return field.Forbidden(path, first+" has published "+where+" so far, and not "+author+
		"; if both do, name them in the configuration of dra-steward (drivers)")
}

func sliceNodeAuthor(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	if c.Author == nil || slice.Spec.NodeName == nil {
		return nil
	}
	from := c.Author.Extra[nodeNameExtra]
	if len(from) == 0 || slices.Contains(from, *slice.Spec.NodeName) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "nodeName"),
		"the token of "+c.Author.Username+" was issued for a pod on the node "+from[0]+"; publish from there")}
}

func sliceDriverAuthor(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	publishers, named := c.Publishers[slice.Spec.Driver]
	if c.Author == nil || !named || publishers.include(*c.Author) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "driver"),
		c.Author.Username+" is not one of the users and groups that publish for the driver (drivers in the configuration of dra-steward)")}
}

func (p Publishers) include(user authenticationv1.UserInfo) bool {
	return slices.Contains(p.Users, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(p.Groups, group) })
}

// Devices walks the devices of a slice with the path of each. Of a slice with more
// devices than any API server accepts it yields none: their number is the problem to
// report, and checking each would be unbounded work.
func Devices(slice *resourceapi.ResourceSlice) iter.Seq2[*field.Path, *resourceapi.Device] {
	return walk.Devices(slice)
}

// sliceGaps are the rules for slices that no API server has.
var sliceGaps = Table[*resourceapi.ResourceSlice]{
	{
		ID: "taint-duplicate",
		Doc: `A device has one taint for a key and an effect.

Which of two with different values or times counts is undefined: consumers read both, and
one that merges taints by key and effect loses one. It only warns, because the API documents
no such rule.`,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-5055, Device.Taints; node taints are unique by key and effect",
		Check:    taintDuplicate,
	},
	{
		ID: "attribute-name-slashes",
		Doc: `The name of an attribute or capacity has at most one slash.

The API server accepts a name such as a/b/c, and neither a selector nor a constraint can
refer to it.`,
		Upstream: "accepts it; upstream notes it as incomplete",
		Source:   "validateQualifiedName in pkg/apis/resource/validation",
		Check:    attributeNameSlashes,
	},
	{
		ID: "attribute-ambiguous",
		Doc: `An attribute or capacity occurs once, with or without the driver's domain.

A name without a domain belongs to the driver's domain, so memory and
gpu.example.com/memory of the driver gpu.example.com are the same. Which value a selector
reads is undefined. It only warns, because the API documents no such rule.`,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-4381, QualifiedName",
		Check:    attributeAmbiguous,
	},
	{
		ID: "counter-negative",
		Doc: `Counters and capacities are not negative.

A device that consumes a negative amount frees capacity that does not exist, and a set with
a negative counter makes every device that uses it impossible to allocate.`,
		Upstream: "accepts every quantity",
		Source:   "KEP-4815, Counter, DeviceCapacity",
		Check:    counterNegative,
	},
	{
		ID: "device-node-selector-terms",
		Doc: `The node selector of a device has one term.

The API server checks that for the selector of a slice and not for the selector of a
device; the allocator fails on a device with several terms.`,
		Upstream: "accepts several terms; the allocator answers with an error",
		Source:   "KEP-4815, Device.NodeSelector",
		Check:    deviceNodeSelectorTerms,
	},
}

func taintDuplicate(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
	type identity struct {
		key    string
		effect resourceapi.DeviceTaintEffect
	}
	for at, device := range walk.Devices(slice) {
		seen := map[identity]bool{}
		for i, taint := range walk.Bounded(device.Taints, resourceapi.DeviceTaintsMaxLength) {
			id := identity{taint.Key, taint.Effect}
			if seen[id] {
				errs = append(errs, field.Duplicate(at.Child("taints").Index(i), taint.Key+":"+string(taint.Effect)))
			}
			seen[id] = true
		}
	}
	return errs
}

func attributeNameSlashes(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
	several := func(name resourceapi.QualifiedName) bool { return strings.Count(string(name), "/") > 1 }
	for at, device := range walk.Devices(slice) {
		for _, name := range form.NamesWhere(device.Attributes, several) {
			errs = append(errs, field.Invalid(at.Child("attributes"), name, severalSlashes))
		}
		for _, name := range form.NamesWhere(device.Capacity, several) {
			errs = append(errs, field.Invalid(at.Child("capacity"), name, severalSlashes))
		}
	}
	return errs
}

func attributeAmbiguous(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
	for at, device := range walk.Devices(slice) {
		errs = append(errs, twice(at.Child("attributes"), slice.Spec.Driver, device.Attributes)...)
		errs = append(errs, twice(at.Child("capacity"), slice.Spec.Driver, device.Capacity)...)
	}
	return errs
}

// twice reports the names that values have with the domain and without it.
func twice[V any](list *field.Path, domain string, values map[resourceapi.QualifiedName]V) (errs field.ErrorList) {
	prefix := domain + "/"
	for _, name := range form.NamesWhere(values, func(name resourceapi.QualifiedName) bool {
		bare, own := strings.CutPrefix(string(name), prefix)
		_, also := values[resourceapi.QualifiedName(bare)]
		return own && also
	}) {
		errs = append(errs, field.Duplicate(list.Key(string(name)), strings.TrimPrefix(string(name), prefix)))
	}
	return errs
}

func counterNegative(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
	sets := field.NewPath("spec", "sharedCounters")
	for i, set := range walk.Bounded(slice.Spec.SharedCounters, resourceapi.ResourceSliceMaxCounterSets) {
		errs = append(errs, negativeCounters(walk.ItemPath(sets, i, set.Name).Child("counters"), set.Counters)...)
	}
	for at, device := range walk.Devices(slice) {
		for i, consumption := range walk.Bounded(device.ConsumesCounters, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice) {
			errs = append(errs, negativeCounters(at.Child("consumesCounters").Index(i).Child("counters"), consumption.Counters)...)
		}
		for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
			if value := device.Capacity[name].Value; value.Sign() < 0 {
				errs = append(errs, field.Invalid(at.Child("capacity").Key(string(name)).Child("value"), value.String(), "must not be negative"))
			}
		}
	}
	return errs
}

func negativeCounters(list *field.Path, counters map[string]resourceapi.Counter) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if value := counters[name].Value; value.Sign() < 0 {
			errs = append(errs, field.Invalid(list.Key(name).Child("value"), value.String(), "must not be negative"))
		}
	}
	return errs
}

func deviceNodeSelectorTerms(slice *resourceapi.ResourceSlice, _ Pass) (errs field.ErrorList) {
	for at, device := range walk.Devices(slice) {
		if selector := device.NodeSelector; selector != nil && len(selector.NodeSelectorTerms) > 1 {
			errs = append(errs, field.TooMany(at.Child("nodeSelector", "nodeSelectorTerms"), len(selector.NodeSelectorTerms), 1))
		}
	}
	return errs
}

// taintGaps are the rules for single taints that no API server has.
var taintGaps = Table[walk.Taints]{
	{
		ID: "taint-time-future",
		Doc: `The time of a taint is not in the future.

tolerationSeconds count from timeAdded, so a time in the future delays the eviction. Clocks
differ, so up to one minute is no finding. It only warns, because a driver with a wrong clock
still has to publish its devices.`,
		Severity: Warning,
		Upstream: "accepts every time",
		Source:   "KEP-5055, DeviceTaint.TimeAdded",
		Check:    taintTimeFuture,
	},
}

// clockSkew is how far the clocks of two machines may differ.
const clockSkew = time.Minute

func taintTimeFuture(taints walk.Taints, c Pass) (errs field.ErrorList) {
	if c.Now.IsZero() {
		return nil
	}
	for at, taint := range taints {
		if taint.TimeAdded != nil && taint.TimeAdded.Sub(c.Now) > clockSkew {
			errs = append(errs, field.Invalid(at.Child("timeAdded"), taint.TimeAdded.UTC().Format(time.RFC3339),
				"is in the future; leave it out to use the current time"))
		}
	}
	return errs
}
