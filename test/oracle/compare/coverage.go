package compare

import "regexp"

// A Coverage says which errors of the API server our rules answer for.
type Coverage struct {
	// complete are the kinds and places for which they answer for everything: there
	// the two sets are equal.
	complete []area
	scopes   []Scope
}

// An area is a part of the errors of an API server.
type area struct{ kind, place pattern }

// Everything is the coverage of a complete set of rules.
var Everything = Coverage{complete: []area{{whole(".*"), whole(".*")}}}

// Covered is what our rules cover now.
var Covered = Coverage{
	complete: []area{
		{whole(claims + "|DeviceClass"), whole(".*")},
		{whole("ResourceSlice|DeviceTaintRule"), whole(`metadata\..*`)},
	},
	scopes: scopes,
}

// Rules lists the rules that answer for something.
func (c Coverage) Rules() (rules []string) {
	for _, s := range c.scopes {
		rules = append(rules, s.Rule)
	}
	return rules
}

// A Scope is what a rule answers for.
type Scope struct {
	Rule string
	// kind, types, place and detail match the errors of the API server: the whole
	// kind, type and place, and a part of the message. Items and keys in the place
	// are [*].
	kind, types, place pattern
	detail             *regexp.Regexp
}

func scope(rule, kind, types, place, detail string) Scope {
	return Scope{rule, whole(kind), whole(types), whole(place), regexp.MustCompile(detail)}
}

// rule returns the rule that answers for an error of the API server.
func (c Coverage) rule(d Difference) (string, bool) {
	for _, s := range c.scopes {
		if s.covers(d) {
			return s.Rule, true
		}
	}
	for _, a := range c.complete {
		if a.kind.matches(d.Kind) && a.place.matches(Pattern(d.Place)) {
			return "", true
		}
	}
	return "", false
}

func (s Scope) covers(d Difference) bool {
	return s.kind.matches(d.Kind) && s.types.matches(d.Type) && s.place.matches(Pattern(d.Place)) && s.detail.MatchString(d.Detail)
}

const (
	claims   = "ResourceClaim(/status)?|ResourceClaimTemplate"
	requests = `spec(\.spec)?\.devices\.requests`
	taint    = `(spec\.devices\[\*\]\.taints\[\*\]|spec\.taint)`
	tainted  = "ResourceSlice|DeviceTaintRule"

	invalid      = "FieldValueInvalid"
	required     = "FieldValueRequired"
	tooLong      = "FieldValueTooLong"
	tooMany      = "FieldValueTooMany"
	notSupported = "FieldValueNotSupported"
)

var scopes = []Scope{
	scope("slice-devices-max", "ResourceSlice", tooMany, `spec\.devices`, ""),
	scope("device-name", "ResourceSlice", invalid, `spec\.devices\[\*\]\.name`, ""),
	scope("device-attributes-max", "ResourceSlice", invalid, `spec\.devices\[\*\]`, "attributes and capacities"),
	scope("device-attribute-values-max", "ResourceSlice", invalid, `spec\.devices\[\*\]`, "attribute values"),
	scope("device-taints-max", "ResourceSlice", tooMany, `spec\.devices\[\*\]\.taints`, ""),
	scope("attribute-name", "ResourceSlice", invalid+"|"+tooLong, `spec\.devices\[\*\]\.(attributes|capacity)`, ""),
	scope("attribute-value-length", "ResourceSlice", tooLong, `spec\.devices\[\*\]\.attributes\[\*\]\.(string|version|strings\[\*\]|versions\[\*\])`, ""),

	scope("taint-key", tainted, invalid, taint+`\.key`, ""),
	scope("taint-value", tainted, invalid, taint+`\.value`, ""),
	scope("taint-effect", tainted, required+"|"+notSupported, taint+`\.effect`, ""),
}
