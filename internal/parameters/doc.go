// Package parameters judges the parameters of device configurations. The API server takes
// any JSON object for them; what the driver makes of it shows when the pod starts. For
// the kinds of parameters that a [Library] has a JSON Schema for (draft 2020-12), it
// says beforehand what is wrong, and where.
//
// A schema is a JSON document. Its keyword x-dra-driver names the driver, and
// properties.apiVersion.const and properties.kind.const the kind that it is for; a
// driver whose parameters have neither has one schema without them. Where x-message
// is in a schema, it is what is said when a value does not fulfil that schema.
// Schemas cannot refer to others by URL: nothing is loaded from anywhere.
//
// Beside the formats of JSON Schema, schemas may use cidr (an IP address with the length
// of its prefix), ip, mac, quantity (of Kubernetes) and label-value. Formats count.
//
// A null stands for an absent field, as it does for every driver that is written in Go.
package parameters
