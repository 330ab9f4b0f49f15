package policy

import (
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Request is one write.
type Request struct {
	// Kind is that of Object.
	Kind      string
	Name      string
	Namespace string
	// User and Groups are those of the author, empty offline.
	User   string
	Groups []string
	// GeneratedBy is the kind of author; empty is a user.
	GeneratedBy Author
	DryRun      bool
	Now         time.Time
	// Object is a pointer to the typed object, Old to the one that is stored; nil on
	// creation.
	Object, Old any
	// Raw is the object as JSON.
	Raw []byte
	// ClusterView is what else exists in the cluster; nil is nothing.
	ClusterView validate.ClusterView
	// ClusterData is other data of the cluster; nil is nothing.
	ClusterData ClusterData
	// Parameters know the schemas of opaque parameters; nil knows none.
	Parameters validate.Parameters
	// Impact is what the write affects; nil if it is not known.
	Impact *guard.Impact
	// WithoutPreviews says that no DeviceTaintRule can be previewed, as before Kubernetes 1.35,
	// which has no effect None: each counts as previewed.
	WithoutPreviews bool
}

// An Author is what kind of user writes.
type Author string

// The authors. All but the first are components of Kubernetes that write what follows
// from what others have written.
const (
	User              Author = "user"
	ClaimController   Author = "claim-controller"
	Scheduler         Author = "scheduler"
	ControllerManager Author = "controller-manager"
)

// ClusterData is the data of the cluster other than classes and slices.
type ClusterData interface {
	// NamespaceLabels returns the labels of a namespace, nil if it is not known.
	NamespaceLabels(name string) map[string]string
	// TaintKey returns whether a slice or taint rule has the key. sure is false while
	// not everything is read.
	TaintKey(key string) (known, sure bool)
}

// A Violation is one problem that a policy reports.
type Violation struct {
	// Code is the code of the policy, Mode the mode in which it reports.
	Code    string
	Mode    Mode
	Message string
	// Hint is the remedy; may be empty.
	Hint string
	// Allowed are the values that would pass; may be empty.
	Allowed []string
	// Paths are all fields that have the problem.
	Paths []string
	// Stored is set if the stored object has it too, so that the write makes nothing
	// worse. The mode is then at most Warn.
	Stored bool
}

// A Failure is a policy that could not be evaluated.
type Failure struct {
	// Code is the code of the policy, empty if it is not known or if no policy was
	// evaluated.
	Code string
	// Mode is the strongest mode of the policies that were not evaluated. It is at most
	// Warn for writes that are not to be denied for a failure: those of Kubernetes' own
	// components, of slices, and of an unchanged specification.
	Mode Mode
	// Path is the field that is too large; may be empty.
	Path string
	// TimedOut is set if the evaluation did not finish in time, TooLarge if the object
	// exceeds the limits of the site, Unreadable if OPA cannot read a part of the object.
	TimedOut, TooLarge, Unreadable bool
	Err                            error
}

// A Decision is what the policies report about a write.
type Decision struct {
	// Violations are in the order of codes and paths. They are not to be changed.
	Violations []Violation
	// Messages are the violations as text for the author of the write: one for each
	// distinct violation, up to a limit.
	Messages []Message
	Failures []Failure
	// Evaluated is set if a policy applies, Cached if the decision was known.
	Evaluated, Cached bool
}

// Err returns the failures of policies, nil if there are none. An object that is too large
// or cannot be read is not a failure of a policy.
func (d Decision) Err() error {
	var errs []error
	for _, f := range d.Failures {
		if f.TooLarge || f.Unreadable {
			continue
		}
		err := f.Err
		if f.Code != "" {
			err = fmt.Errorf("%s: %w", f.Code, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// specOf returns the specification of a claim or template and its path, nil for others.
func specOf(object any) (*resourceapi.ResourceClaimSpec, string) {
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		if object != nil {
			return &object.Spec, "spec"
		}
	case *resourceapi.ResourceClaimTemplate:
		if object != nil {
			return &object.Spec.Spec, "spec.spec"
		}
	}
	return nil, ""
}
