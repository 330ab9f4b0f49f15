// Package parameters checks the parameters of device configurations. The API server accepts
// any JSON object as parameters; the driver rejects wrong ones when the pod starts. For the
// kinds of parameters that a [Library] has a JSON Schema for (draft 2020-12), the package
// reports each problem and its place before that.
//
// A schema is a JSON document. Its keyword x-dra-driver names the driver, and
// properties.apiVersion.const and properties.kind.const the kind that it is for; a
// driver whose parameters have neither has one schema without them. Where x-message
// is in a schema, it is what is said when a value does not fulfil that schema.
// Schemas cannot refer to others by URL: nothing is loaded from anywhere.
//
// In addition to the formats of JSON Schema, schemas may use those of docs/parameters.md. Formats count.
//
// A null stands for an absent field, as it does for every driver that is written in Go, where the schema declares the field.
// In a list or a map it stands for the empty value, and the schema decides.
package parameters
