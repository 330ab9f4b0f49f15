package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion and ConfigurationKind identify a configuration file.
const (
	APIVersion        = "dra-steward.io/v1alpha1"
	ConfigurationKind = "StewardConfiguration"
)

// StewardConfiguration is what a site decides. An empty one is complete.
//
// +kubebuilder:object:generate=false
// +kubebuilder:object:root=true
type StewardConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// Mode is how strict the webhook is: observe, warn, default or enforce; empty is
	// default. What is set for single rules and policies counts more.
	Mode Mode `json:"mode,omitempty"`
	// Limits are sizes that may be lower than the API server's.
	Limits Limits `json:"limits,omitempty"`
	// Defaults are the fields that the webhook fills in.
	Defaults Defaults `json:"defaults,omitempty"`
	// Rules change what single rules do, by the ID of the rule.
	Rules map[string]Rule `json:"rules,omitempty"`
	// Server describes the API server that calls the webhook, as far as the webhook cannot
	// find out.
	Server Server `json:"server,omitempty"`
	// Drivers are the identities that publish for a driver, by its name.
	Drivers map[string]Driver `json:"drivers,omitempty"`
	// SystemUsers are the components of Kubernetes whose writes are never denied, by
	// the name under which the API server authenticates them. Defaults to the
	// scheduler, the resource claim controller and the controller manager; an empty
	// list exempts none.
	SystemUsers []string `json:"systemUsers,omitempty"`
	// ProtectedLabels are the labels of namespaces by which exemptions and policies may
	// select, because not everybody may change them.
	ProtectedLabels ProtectedLabels `json:"protectedLabels,omitempty"`
	// Exemptions take single rules back, for some and for a time.
	Exemptions []Exemption `json:"exemptions,omitempty"`
	// OpaqueParameters describes the parameters of drivers.
	OpaqueParameters OpaqueParameters `json:"opaqueParameters,omitempty"`
	// Policies are the Rego policies.
	Policies Policies `json:"policies,omitempty"`
	// Guard checks writes that evict many pods at once.
	Guard Guard `json:"guard,omitempty"`
	// ForceDeletion lists who may delete pods by force that hold devices.
	ForceDeletion ForceDeletion `json:"forceDeletion,omitempty"`
	// DriverPods lists the pods of drivers that stay while claims on their node are prepared.
	DriverPods DriverPods `json:"driverPods,omitempty"`
	// Lint is for "dra-steward lint" alone; the webhook does not look at it.
	Lint Lint `json:"lint,omitempty"`
}

// ForceDeletion lists who may delete pods by force (gracePeriodSeconds 0) that hold devices, in
// addition to the kubelet of their node and the controllers that have to.
type ForceDeletion struct {
	// Users are names as the API server authenticates them.
	Users []string `json:"users,omitempty"`
	// Groups are names of groups.
	Groups []string `json:"groups,omitempty"`
}

// DriverPods are the pods of drivers that stay while claims on their node are prepared, and what
// ends them nevertheless.
type DriverPods struct {
	// Pods select the pods; the first that selects a pod counts.
	Pods []DriverPod `json:"pods,omitempty"`
	// Users and Groups are names as the API server authenticates them. They may delete and evict
	// a pod that has the annotation dra-steward.io/driver-pod-may-end, with a reason as its value.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Deadline is how long deletions of one pod are refused, counted from the first one by each
	// replica of the webhook; 0 sets none.
	Deadline metav1.Duration `json:"deadline,omitempty"`
}

// DriverPod selects pods of drivers.
type DriverPod struct {
	// Namespace is that of the pods.
	Namespace string `json:"namespace"`
	// Labels are labels of the pods; at least one.
	Labels map[string]string `json:"labels"`
	// Names is a pattern of the names of the pods, in which * is any text; empty is *. An
	// Eviction has no labels: the API server sends those of pods with such names.
	Names string `json:"names,omitempty"`
	// Drivers are the names of the drivers that run in these pods.
	Drivers []string `json:"drivers"`
}

// OpaqueParameters describes the parameters of drivers.
type OpaqueParameters struct {
	// Schemas are JSON Schemas that extend or replace those that come with dra-steward:
	// each names its driver in x-dra-driver, and apiVersion and kind as constants.
	Schemas []json.RawMessage `json:"schemas,omitempty"`
	// Drivers say, by the name of the driver, what happens to parameters that the schemas do not know.
	Drivers map[string]UnknownParameters `json:"drivers,omitempty"`
}

// UnknownParameters decides about what a newer driver can have. A site that knows the version of its driver sets Deny.
type UnknownParameters struct {
	// UnknownFields is Warn or Deny: of a field that the schema does not have. The default is Warn, by the rule parameters-field.
	UnknownFields Unknown `json:"unknownFields,omitempty"`
	// UnknownValues is Warn or Deny: of a value or a kind that the schemas do not list. The default is Warn, by the rules
	// parameters-choice and parameters-kind.
	UnknownValues Unknown `json:"unknownValues,omitempty"`
}

// Unknown is Warn or Deny.
type Unknown string

// What happens to what a schema does not know.
const (
	UnknownWarn Unknown = "Warn"
	UnknownDeny Unknown = "Deny"
)

// Lint configures how lint checks files. Its flags override it.
type Lint struct {
	// KubernetesVersion is that of the API server to assume, such as "1.36"; the
	// newest that is known if it is empty.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// FeatureGates are those of the API server that differ from the defaults of
	// its version.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// SkipPaths are files and folders that are not read, as patterns of path.Match
	// relative to the folder of this file: "charts/*/templates".
	SkipPaths []string `json:"skipPaths,omitempty"`
	// SkipRules are the IDs of rules whose findings are not reported, checks of
	// form such as deprecated-version among them.
	SkipRules []string `json:"skipRules,omitempty"`
}

// Rule changes what a rule does.
type Rule struct {
	// Severity is error (deny), warning or off. The defaults are in docs/rules.md.
	Severity Severity `json:"severity"`
}

// Server is what an API server removes from objects in silence, by its version.
type Server struct {
	// KubernetesVersion is such as "1.37"; empty is what the server says of itself,
	// where the webhook may read from it.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// FeatureGates are those that differ from the defaults of its version.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Driver is what a site knows of a driver.
type Driver struct {
	// Users and Groups are the only ones who may publish ResourceSlices for the
	// driver, as the API server authenticates them.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// An Exemption takes rules back for the writes that it selects: those by one of its
// users or of its groups, in one of its namespaces. What is left empty selects all; one of
// the three must be set. Only what the API server vouches for selects: no annotation,
// label or owner of the object, which its author sets as they like; of a namespace only the
// labels of [ProtectedLabels].
type Exemption struct {
	// Rules are the IDs of the rules; "*" alone means all.
	Rules []string `json:"rules"`
	// Namespaces are names of namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector selects namespaces by protected labels, in addition to those that
	// are named.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Users and Groups are names as the API server authenticates them, such as
	// system:serviceaccount:ml:trainer.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Reason says why, for who reads the configuration and the audit log.
	Reason string `json:"reason"`
	// Expires is when the exemption ends, such as 2026-12-31T00:00:00Z.
	Expires metav1.Time `json:"expires"`
}

// ProtectedLabels are the labels of namespaces that selectors may use. The API server has
// to keep other users from changing them: the chart installs a ValidatingAdmissionPolicy
// that does.
type ProtectedLabels struct {
	// Keys of the labels.
	Keys []string `json:"keys,omitempty"`
	// Tenant is one of the keys. Namespaces with the same value of the label share what the
	// webhook gives one tenant: requests evaluated at the same time, and memory for bodies.
	// Namespaces without the label, and all if it is empty, have a share each.
	Tenant string `json:"tenant,omitempty"`
}

// Limits are the sizes that a site allows. Zero means what the API server allows; a
// higher number is refused.
type Limits struct {
	DevicesPerSlice                  int `json:"devicesPerSlice,omitempty"`
	DevicesPerAdvancedSlice          int `json:"devicesPerAdvancedSlice,omitempty"`
	AttributesAndCapacitiesPerDevice int `json:"attributesAndCapacitiesPerDevice,omitempty"`
	AttributeValuesPerDevice         int `json:"attributeValuesPerDevice,omitempty"`
	TaintsPerDevice                  int `json:"taintsPerDevice,omitempty"`
	TolerationsPerRequest            int `json:"tolerationsPerRequest,omitempty"`
	RequestsPerClaim                 int `json:"requestsPerClaim,omitempty"`
	AlternativesPerRequest           int `json:"alternativesPerRequest,omitempty"`
	DevicesPerClaim                  int `json:"devicesPerClaim,omitempty"`
}

// Defaults are the fields that the webhook fills in.
type Defaults struct {
	// Finalizer is create, repair or off; empty is create.
	Finalizer FinalizerMode `json:"finalizer,omitempty"`
	// TimeAddedWindow is how close to the write a taint's time has to lie to be
	// taken for one that the API server filled in. Defaults to 5s, 0s never restores
	// a time; at most 1m.
	TimeAddedWindow *metav1.Duration `json:"timeAddedWindow,omitempty"`
	// Tolerations change the tolerations of new claims and templates. If not set, they stay
	// as they are.
	Tolerations *Tolerations `json:"tolerations,omitempty"`
}

// FinalizerMode says when a claim gets the finalizer of the scheduler.
type FinalizerMode string

const (
	// FinalizerCreate adds it to every new claim and repairs like FinalizerRepair.
	FinalizerCreate FinalizerMode = "create"
	// FinalizerRepair adds it only to allocated claims that lack it.
	FinalizerRepair FinalizerMode = "repair"
	// FinalizerOff never adds it.
	FinalizerOff FinalizerMode = "off"
)

// UnmarshalJSON reads a mode. A bare off is the boolean false in YAML.
func (m *FinalizerMode) UnmarshalJSON(data []byte) error {
	return unmarshalWord(data, (*string)(m))
}

// Severity is the effect of a rule's finding on a write: error, warning or off.
type Severity string

// UnmarshalJSON reads a severity. A bare off is the boolean false in YAML.
func (s *Severity) UnmarshalJSON(data []byte) error {
	return unmarshalWord(data, (*string)(s))
}

func unmarshalWord(data []byte, word *string) error {
	if string(data) == "false" {
		*word = "off"
		return nil
	}
	return json.Unmarshal(data, word)
}

// Mode is a step of the ladder, each stricter than the one before.
type Mode string

const (
	// ModeObserve refuses nothing, warns about nothing and sets no defaults: what would have
	// been said is in metrics, the audit log and the log.
	ModeObserve Mode = "observe"
	// ModeWarn refuses nothing and warns.
	ModeWarn Mode = "warn"
	// ModeDefault does what rules and policies do by themselves: what contradicts the
	// documented API is refused, all else is warned about.
	ModeDefault Mode = "default"
	// ModeEnforce also refuses what policies warn about by themselves.
	ModeEnforce Mode = "enforce"
)

// AcknowledgementAnnotation is on a DeviceTaintRule or DeviceDrain that may hit more than
// the thresholds of the site: a ceiling such as "pods<=120,namespaces<=4".
const AcknowledgementAnnotation = "dra-steward.io/acknowledged-impact"

// Guard checks writes of DeviceTaintRules and DeviceDrains that evict many pods at once. The
// policies' kill switch does not turn it off.
type Guard struct {
	// Mode is deny, warn or off; empty is what the mode of the configuration says: deny,
	// but in the modes warn and observe.
	Mode PolicyMode `json:"mode,omitempty"`
	// OnError is the answer to a write whose impact cannot be counted or checked: deny
	// or warn; empty is deny.
	OnError PolicyMode `json:"onError,omitempty"`
	// Thresholds are what passes without an acknowledgement.
	Thresholds GuardThresholds `json:"thresholds,omitempty"`
	// Window is how long an eviction counts against the thresholds together with those that
	// begin after it. Defaults to 10m; at most 1h; 0s counts each object by itself.
	Window *metav1.Duration `json:"window,omitempty"`
}

// GuardThresholds are how much one object may hit without an acknowledgement. Defaults to
// 20 pods, 5 namespaces and 25 percent.
type GuardThresholds struct {
	Pods       *int `json:"pods,omitempty"`
	Namespaces *int `json:"namespaces,omitempty"`
	// Stranded are pods that do not land again. If not set, there is no limit; the webhook computes it
	// with --guard-foresight only.
	Stranded *int `json:"stranded,omitempty"`
	// Percent is the share of the devices of the drivers that are hit, 0 to 100.
	Percent *int `json:"percent,omitempty"`
}
