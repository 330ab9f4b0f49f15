package rulebook

import "github.com/dra-steward/dra-steward/internal/manifest"

// IDs of the checks that only reading a file can make.
const (
	Unreadable        = "unreadable"
	UnknownField      = "unknown-field"
	DuplicateKey      = "duplicate-key"
	WrongType         = "wrong-type"
	UnknownVersion    = "unknown-version"
	UnknownKind       = "unknown-kind"
	DeprecatedVersion = "deprecated-version"
	FieldDropped      = "field-dropped"
)

// FormRule returns the ID of the check that found a problem of kind.
func FormRule(kind manifest.ProblemKind) string {
	switch kind {
	case manifest.UnknownField:
		return UnknownField
	case manifest.DuplicateKey:
		return DuplicateKey
	case manifest.UnknownVersion:
		return UnknownVersion
	case manifest.UnknownKind:
		return UnknownKind
	default:
		return WrongType
	}
}

// formEntries are the checks that lint makes while it reads.
func formEntries() []Entry {
	form := func(id, doc, server string) Entry {
		return Entry{ID: id, What: "check of form", Doc: doc, Server: server, Kinds: manifest.Kinds()}
	}
	return []Entry{
		form(Unreadable, `A file is YAML or JSON in UTF-8.

What cannot be read is reported with its place; the other documents of the file are
judged nevertheless.`, "refuses it as well"),
		form(UnknownField, `Every field exists in the version of the kind.

The API server drops a field that it does not know: with kubectl's default it refuses
the object, with other clients it stores it without the field, which then silently
has no effect.`, "refuses it with fieldValidation Strict (kubectl), drops the field with Warn and Ignore"),
		form(DuplicateKey, `A key stands once in its object.

Of two equal keys the last one counts, which is rarely what was meant.`,
			"refuses it with fieldValidation Strict (kubectl), else takes the last one"),
		form(WrongType, `A value has the type of its field.

A number where a text is expected, a list where an object is: the object cannot be
read at all.`, "refuses it"),
		form(UnknownVersion, `The version of the group resource.k8s.io exists for the kind.

The message names those that do.`, "refuses it"),
		form(UnknownKind, `The kind exists in the group resource.k8s.io.

The message names those that do.`, "refuses it"),
		form(DeprecatedVersion, `A manifest uses v1, which every API server since 1.34 serves.

Older versions are served only if the cluster's operator switched them on, and go
away.`, "accepts it where the version is switched on, else refuses it"),
		form(FieldDropped, `A field is one that the API server keeps.

While a feature gate is off, or in a minor that does not have it yet, the server
removes the gate's fields from new objects without a word: the object is accepted
and does something else than what it says. Which server that is, lint is told by
--kubernetes-version and --feature-gates. It is a warning, since the same manifest
may be meant for newer clusters too.`, "drops the field in silence"),
	}
}
