package validate

import (
	"embed"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// A Category is who else enforces a rule, and so where the rule runs.
type Category string

const (
	// Limit rules bound a size that the API server bounds too, with its own number; a
	// site may choose a lower one. They run everywhere.
	Limit Category = "limit"
	// Gap rules check what no API server checks. They run everywhere.
	Gap Category = "gap"
	// Mirror rules repeat the API server (package apiserver). They run offline, where
	// there is no API server.
	Mirror Category = "mirror"
)

// A Rule is one thing that an object of type T must satisfy.
type Rule[T any] struct {
	// ID names the rule for good: in messages, metrics, documentation and
	// exemptions. Lower case, words joined by hyphens.
	ID string
	// Doc explains the rule. Its first line is a sentence by itself; after an
	// empty line follows why the rule exists.
	Doc string
	// Category is where the rule runs. [gaps] sets that of gap rules.
	Category Category
	// Severity is the effect of a finding on a write unless the site decides otherwise. Doc
	// explains why a rule only warns.
	Severity Severity
	// CrossObject marks a rule that looks at more than the object: at the ClusterView of
	// its Conditions, which all other rules do not get. Such a rule never denies a
	// ResourceSlice, whatever its severity: pools are published slice by slice.
	CrossObject bool
	// Upstream is what the API server does about it, and since which version.
	Upstream string
	// Source names where the rule comes from: a KEP section, a constant of
	// k8s.io/api/resource/v1, an upstream function.
	Source string
	// Check returns what is wrong with obj. It does not change obj. An error
	// that counts something carries the count as an int BadValue, which shows
	// ratcheting whether the problem has grown. A rule about the change of an
	// object has Update alone.
	Check func(obj T, c Pass) field.ErrorList
	// Update returns the API server's errors for an update, for rules where they differ
	// from Check of the new object: it skips what has not changed, or forbids a change. Nil
	// means Check.
	Update func(old, obj T, c Pass) field.ErrorList

	// mirror is the rule of the API server that a mirror rule repeats.
	mirror *apiserver.Rule[T]
}

// A Table is the list of rules of one kind.
type Table[T any] []Rule[T]

// Validate returns what is wrong with obj. The origin of every error is the ID of
// the rule that found it.
func (t Table[T]) Validate(obj T, c Conditions) field.ErrorList {
	pass := newPass(c)
	var errs field.ErrorList
	for _, rule := range t {
		if rule.Check != nil && !c.ended() {
			errs = append(errs, rule.Check(obj, rule.scoped(pass)).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// scoped hides the cluster view from a rule that does not declare CrossObject.
func (r Rule[T]) scoped(c Pass) Pass {
	if !r.CrossObject {
		c.ClusterView = nil
	}
	return c
}

// ValidateUpdate returns what is wrong with obj and divides it by old: errs are new,
// have grown since old, or are about the change itself; tolerated were in old and are no
// worse now.
func (t Table[T]) ValidateUpdate(old, obj T, c Conditions) (errs, tolerated field.ErrorList) {
	if found := t.Validate(obj, c); len(found) > 0 {
		errs, tolerated = ratchet(t.Validate(old, c.withoutAuthor()), found)
	}
	pass := newPass(c)
	for _, rule := range t {
		if rule.Check == nil && !c.ended() {
			errs = append(errs, rule.Update(old, obj, rule.scoped(pass)).WithOrigin(rule.ID)...)
		}
	}
	return errs, tolerated
}

// PreAdmission returns what must be refused before the API server validates obj, because
// the API server would crash. Only a mutating webhook runs that early.
func (t Table[T]) PreAdmission(obj T, c Conditions) (errs field.ErrorList) {
	for _, rule := range t {
		if rule.mirror != nil {
			errs = append(errs, rule.mirror.PreAdmission(obj, c.APIServer()).WithOrigin(rule.ID)...)
		}
	}
	return errs
}

// InCluster returns the rules that check more than the API server does. Behind an
// API server the others could only repeat its answer.
func (t Table[T]) InCluster() Table[T] {
	return slices.DeleteFunc(slices.Clone(t), func(rule Rule[T]) bool { return rule.Category == Mirror })
}

// Upstream returns what the API server itself enforces: the mirror rules, and the limit
// rules with the API server's own numbers.
func (t Table[T]) Upstream() apiserver.Table[T] {
	var rules apiserver.Table[T]
	for _, rule := range t {
		switch {
		case rule.mirror != nil:
			rules = append(rules, *rule.mirror)
		case rule.Category == Limit:
			rules = append(rules, rule.upstream())
		}
	}
	return rules
}

// upstream is a limit rule with the API server's own number.
func (r Rule[T]) upstream() apiserver.Rule[T] {
	pass := func(c apiserver.Pass) Pass {
		own := newPass(Conditions{Profile: c.Profile})
		own.server = c
		return own
	}
	rule := apiserver.Rule[T]{ID: r.ID, Doc: r.Doc, Upstream: r.Upstream, Source: r.Source}
	rule.Check = func(obj T, c apiserver.Pass) field.ErrorList { return r.Check(obj, pass(c)) }
	if r.Update != nil {
		rule.Update = func(old, obj T, c apiserver.Pass) field.ErrorList { return r.Update(old, obj, pass(c)) }
	}
	return rule
}

// mirrored turns rules of the API server into mirror rules.
func mirrored[T any](rules apiserver.Table[T]) Table[T] {
	table := make(Table[T], len(rules))
	for i, rule := range rules {
		table[i] = Rule[T]{ID: rule.ID, Doc: rule.Doc, Category: Mirror, Upstream: rule.Upstream, Source: rule.Source, mirror: &rules[i]}
		if check := rule.Check; check != nil {
			table[i].Check = func(obj T, c Pass) field.ErrorList { return check(obj, c.server) }
		}
		if update := rule.Update; update != nil {
			table[i].Update = func(old, obj T, c Pass) field.ErrorList { return update(old, obj, c.server) }
		}
	}
	return table
}

// lift turns the rules of a part into rules of the whole that contains it. The part may
// depend on the conditions.
func lift[Whole, Part any](part func(Whole, Pass) Part, rules Table[Part]) Table[Whole] {
	lifted := make(Table[Whole], len(rules))
	for i, rule := range rules {
		lifted[i] = Rule[Whole]{
			ID: rule.ID, Doc: rule.Doc, Category: rule.Category, Severity: rule.Severity,
			CrossObject: rule.CrossObject, Upstream: rule.Upstream, Source: rule.Source,
		}
		if check := rule.Check; check != nil {
			lifted[i].Check = func(obj Whole, c Pass) field.ErrorList { return check(part(obj, c), c) }
		}
		if update := rule.Update; update != nil {
			lifted[i].Update = func(old, obj Whole, c Pass) field.ErrorList {
				return update(part(old, c), part(obj, c), c)
			}
		}
	}
	return lifted
}

// Examples holds the example of every rule, examples/<ID>.txtar.
//
//go:embed examples
var Examples embed.FS

// ratchet divides found into what is worse than before and what is not.
//
// Problems are the same when rule, place and offending value agree; a place is a
// path whose list indexes are ignored, since an item moves when one before it
// goes. A count (an int BadValue) may shrink or stay, never grow. Every old
// problem excuses one new one, the smallest that it still covers.
// See docs/decisions/0001-rules-are-values-and-the-table-ratchets.md.
func ratchet(before, found field.ErrorList) (errs, tolerated field.ErrorList) {
	past := map[problem][]int{}
	for _, err := range before {
		key, size := identify(err)
		at, _ := slices.BinarySearch(past[key], size)
		past[key] = slices.Insert(past[key], at, size)
	}
	for _, err := range found {
		key, size := identify(err)
		at, _ := slices.BinarySearch(past[key], size)
		if at == len(past[key]) {
			errs = append(errs, err)
			continue
		}
		past[key] = slices.Delete(past[key], at, at+1)
		tolerated = append(tolerated, err)
	}
	return errs, tolerated
}

// problem is what makes two errors the same problem.
type problem struct {
	rule, place, value string
	kind               field.ErrorType
}

// identify returns what err is about and, for a count, how large it is.
func identify(err *field.Error) (problem, int) {
	p := problem{rule: err.Origin, place: listIndex.ReplaceAllString(err.Field, "[]"), kind: err.Type}
	if size, counts := err.BadValue.(int); counts {
		return p, size
	}
	p.value = fmt.Sprint(err.BadValue)
	return p, 0
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// Severity is the effect of a finding on a write, the most severe first.
type Severity int

const (
	// Error denies the write.
	Error Severity = iota
	// Warning admits it with a warning to the author.
	Warning
	// Audit admits it and records the finding in the audit log, the log and the metrics.
	Audit
	// Off disables the rule.
	Off
)

var severities = [...]string{"error", "warning", "audit", "off"}

// String returns "error", "warning", "audit" or "off".
func (s Severity) String() string {
	if s < Error || s > Off {
		return fmt.Sprintf("severity %d", int(s))
	}
	return severities[s]
}

// MarshalText writes a severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSeverity reads what String writes.
func ParseSeverity(name string) (Severity, error) {
	for s, known := range severities {
		if name == known {
			return Severity(s), nil
		}
	}
	return Error, fmt.Errorf("severity %q: must be error, warning, audit or off", name)
}
