package why

// A Verdict is the state of a claim as a whole.
type Verdict string

const (
	// Allocated: the claim has its devices.
	Allocated Verdict = "Allocated"
	// Allocatable: there is a node on which it can be allocated now.
	Allocatable Verdict = "Allocatable"
	// Unsatisfiable: there is none.
	Unsatisfiable Verdict = "Unsatisfiable"
	// NotMade: the claim does not exist yet.
	NotMade Verdict = "NotMade"
)

// A Reason is what keeps a device, or a whole request, from being allocated, in one word.
type Reason string

const (
	// ClassNotFound: there is no DeviceClass of the request's name.
	ClassNotFound Reason = "ClassNotFound"
	// PoolObsolete: the driver is replacing the pool, and the device is of an older
	// generation.
	PoolObsolete Reason = "PoolObsolete"
	// PoolIncomplete: not all slices of the pool are there, or it is invalid: a name comes twice in it, or a counter is missing.
	PoolIncomplete Reason = "PoolIncomplete"
	// NodeMismatch: the device is on no node on which the pod may run.
	NodeMismatch Reason = "NodeMismatch"
	// ClassSelector: an expression of the class is false, ClassSelectorError: it fails.
	ClassSelector      Reason = "ClassSelector"
	ClassSelectorError Reason = "ClassSelectorError"
	// RequestSelector: an expression of the request is false, RequestSelectorError: it
	// fails.
	RequestSelector      Reason = "RequestSelector"
	RequestSelectorError Reason = "RequestSelectorError"
	// Tainted: a taint with the effect NoSchedule or NoExecute is not tolerated.
	Tainted Reason = "Tainted"
	// Taken: it is allocated to another claim.
	Taken Reason = "Taken"
	// Count: devices are suitable, but no node has enough of them.
	Count Reason = "Count"
	// Together: enough devices are suitable each by itself, but not together: because of
	// constraints, shared counters, capacities or what other requests take.
	Together Reason = "Together"
	// NoDevice: there is no device that the class selects.
	NoDevice Reason = "NoDevice"
	// Fits is that of a suitable device.
	Fits Reason = ""
)

// An Explanation is why a claim is or is not satisfied.
type Explanation struct {
	Namespace string  `json:"namespace"`
	Claim     string  `json:"claim"`
	Verdict   Verdict `json:"verdict"`
	// Message is what there is to say beyond the requests.
	Message string `json:"message,omitempty"`
	// Node is one on which the claim can be allocated.
	Node string `json:"node,omitempty"`
	// Causes are why it cannot be allocated, the likeliest first.
	Causes   []Cause   `json:"causes,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	// Notes list what is not known.
	Notes []string `json:"notes,omitempty"`
}

// A Request is the same about a request, or an alternative of one.
type Request struct {
	// Name is "request" or "request/alternative".
	Name  string `json:"name"`
	Class string `json:"class"`
	// Wanted is how many devices are wanted, 0 if all that match.
	Wanted int64 `json:"wanted"`
	// Fitting is how many are suitable by themselves, on the node that has the most.
	Fitting int `json:"fitting"`
	// Reason is what keeps the request, empty if enough devices are suitable.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Matching is how many devices the class and the request select, on any node.
	Matching int `json:"matching"`
	// Devices are all that there are.
	Devices []Device `json:"devices,omitempty"`
}

// A Device is why one device is not for a request.
type Device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
	Reason Reason `json:"reason,omitempty"`
	// Message is the reason in words.
	Message string `json:"message,omitempty"`

	// matching is true if the class and the request select it.
	matching bool
}

// Reasons returns the reasons of the devices, each once, the most frequent first, with
// the number of devices.
func (r Request) Reasons() (reasons []Reason, devices map[Reason]int) {
	devices = map[Reason]int{}
	for _, d := range r.Devices {
		devices[d.Reason]++
	}
	return sorted(devices), devices
}
