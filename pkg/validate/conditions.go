package validate

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// Conditions are what a verdict depends on in addition to the object. The zero value is a
// default API server of the newest minor and its own limits.
type Conditions struct {
	// Context ends when rules that only warn must have their answer: what is not evaluated by
	// then is reported as not known. nil never ends.
	Context context.Context
	Limits  Limits
	Profile apiserver.Profile
	// Now is the time of the write; zero leaves out the rules that need it.
	Now time.Time
	// Author is who writes, as the API server has authenticated them; nil leaves out
	// the rules that need it.
	Author *authenticationv1.UserInfo
	// Publishers are who may publish for a driver, by its name; any user for a driver that
	// is not named.
	Publishers map[string]Publishers
	// SliceAuthors is who publishes for a driver by experience; nil leaves out the rule that
	// reads it.
	SliceAuthors SliceAuthors
	// ForceDeleters are who may delete pods by force, in addition to the control plane.
	ForceDeleters Deleters
	// MaxTolerationSeconds is the longest tolerationSeconds for NoExecute in a request for a
	// class, nil if there is no maximum; a nil function sets none for any class.
	MaxTolerationSeconds func(class string) *int64 `json:"-"`
	// DriverPods are what a site allows while a driver is in use.
	DriverPods DriverPodSettings
	// ClusterView has the other objects that exist; nil leaves out the rules that read it.
	ClusterView ClusterView
	// Parameters is what is known about the parameters of drivers; nil leaves out the
	// rules that need it.
	Parameters Parameters
	// Expressions caches compiled expressions; nil compiles them for every object.
	Expressions *Expressions
	// Limiter bounds the time in which selectors are evaluated on the devices of the
	// ClusterView; nil sets no bound.
	Limiter Limiter
	// Evaluations caches the results; nil evaluates for every object.
	Evaluations *Evaluations
	// Ended reports that the answer is no longer needed: no further rule begins, and what was found is not all. Nil is false.
	Ended func() bool `json:"-"`
}

func (c Conditions) ended() bool { return c.Ended != nil && c.Ended() }

// A Pass is one check of one object by the rules of a table: what one rule walks is not
// computed again for the next.
type Pass struct {
	Conditions
	// server is the pass of the API server's own rules, walks its way of reading the object.
	server apiserver.Pass
	walks  walk.Server
	// parameters are what was found, since several rules say a part of it.
	parameters map[parameterKey]ParameterProblems
}

type parameterKey struct{ at, driver, text string }

// parametersOf checks parameters, once in a pass.
func (p Pass) parametersOf(at *field.Path, of *resourceapi.OpaqueDeviceConfiguration) ParameterProblems {
	if len(of.Parameters.Raw) > resourceapi.OpaqueParametersMaxLength {
		return ParameterProblems{Unreadable: field.ErrorList{field.TooLong(at, "", resourceapi.OpaqueParametersMaxLength)}}
	}
	key := parameterKey{at.String(), of.Driver, string(of.Parameters.Raw)}
	found, checked := p.parameters[key]
	if !checked {
		found = p.Parameters.Check(at, of.Driver, of.Parameters.Raw)
		p.parameters[key] = found
	}
	return found
}

// newPass begins the check of an object.
func newPass(c Conditions) Pass {
	c.Limits = c.Limits.forProfile(c.Profile)
	return Pass{Conditions: c, server: apiserver.NewPass(c.APIServer()), walks: walk.Server{Minor: c.Profile.EffectiveMinor()}.Remembering(), parameters: map[parameterKey]ParameterProblems{}}
}

// APIServer returns the conditions for the rules of the API server.
func (c Conditions) APIServer() apiserver.Conditions {
	server := apiserver.Conditions{Profile: c.Profile}
	if c.Expressions != nil {
		server.Expressions = &c.Expressions.selectors
	}
	return server
}

// withoutAuthor returns the conditions under which the stored object is checked: it is
// not the author's write, so a problem with its author excuses no other.
func (c Conditions) withoutAuthor() Conditions {
	c.Author = nil
	return c
}

// Expressions caches compiled CEL expressions: compiling one takes about a millisecond,
// and the claims of a cluster share a few. The zero value is ready for use, by several
// goroutines at once.
type Expressions struct {
	selectors apiserver.Expressions
	patches   patch.Compiler
	drains    patch.Selector
}

// selector returns what finds the devices of drains.
func (c Conditions) selector() *patch.Selector {
	if c.Expressions == nil {
		return &patch.Selector{}
	}
	return &c.Expressions.drains
}

func (c Conditions) context() context.Context {
	if c.Context == nil {
		return context.Background()
	}
	return c.Context
}

// patchCompiler returns the compiler of patches.
func (c Conditions) patchCompiler() *patch.Compiler {
	if c.Expressions == nil {
		return &patch.Compiler{}
	}
	return &c.Expressions.patches
}

func (c Conditions) evaluations() *Evaluations {
	if c.Evaluations == nil {
		return &Evaluations{}
	}
	return c.Evaluations
}
