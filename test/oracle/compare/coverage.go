package compare

import "regexp"

// A Coverage says which errors of the API server our rules answer for.
type Coverage struct {
	// everything says that they answer for all of them.
	everything bool
	// updates says that a rule knows of immutable specs.
	updates bool
	scopes  []Scope
}

// Everything is the coverage of a complete set of rules: the two sets are equal.
var Everything = Coverage{everything: true, updates: true}

// Covered is what our rules cover now.
var Covered = Coverage{scopes: scopes}

// A Scope is what a rule answers for.
type Scope struct {
	Rule string
	// kind, types, place and detail match the errors of the API server: the whole
	// kind, type and place, and a part of the message. Items and keys in the place
	// are [*].
	kind, types, place, detail *regexp.Regexp
}

func scope(rule, kind, types, place, detail string) Scope {
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }
	return Scope{rule, whole(kind), whole(types), whole(place), regexp.MustCompile(detail)}
}

// rule returns the rule that answers for an error of the API server.
func (c Coverage) rule(d Difference) (string, bool) {
	for _, s := range c.scopes {
		if s.covers(d) {
			return s.Rule, true
		}
	}
	return "", c.everything
}

func (s Scope) covers(d Difference) bool {
	return s.kind.MatchString(d.Kind) && s.types.MatchString(d.Type) &&
		s.place.MatchString(Pattern(d.Place)) && s.detail.MatchString(d.Detail)
}

const (
	claims   = "ResourceClaim|ResourceClaimTemplate"
	requests = `spec(\.spec)?\.devices\.requests`
	demands  = requests + `\[\*\]\.(exactly|firstAvailable\[\*\])`
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

	scope("claim-requests-max", claims, tooMany, requests, ""),
	scope("request-alternatives-max", claims, tooMany, requests+`\[\*\]\.firstAvailable`, ""),
	scope("request-selectors-max", claims, tooMany, demands+`\.selectors`, ""),
	scope("toleration-key", claims, invalid, demands+`\.tolerations\[\*\]\.key`, ""),
	scope("toleration-operator", claims, required+"|"+notSupported, demands+`\.tolerations\[\*\]\.operator`, ""),
	scope("toleration-value", claims, invalid, demands+`\.tolerations\[\*\]\.value`, ""),
	scope("toleration-effect", claims, notSupported, demands+`\.tolerations\[\*\]\.effect`, ""),

	scope("class-selectors-max", "DeviceClass", tooMany, `spec\.selectors`, ""),
	scope("class-configs-max", "DeviceClass", tooMany, `spec\.config`, ""),
}
