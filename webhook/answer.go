package webhook

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerOf is the AdmissionReview with a response, as encoding/json writes it with a line
// break.
func answerOf(response *admissionv1.AdmissionResponse) ([]byte, error) {
	a := answer{buffer: make([]byte, 0, 512+sizeOf(response))}
	a.raw(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":`)
	a.text(string(response.UID))
	a.raw(`,"allowed":`)
	a.buffer = strconv.AppendBool(a.buffer, response.Allowed)
	a.status(response.Result)
	if len(response.Patch) > 0 {
		a.raw(`,"patch":"`)
		a.buffer = base64.StdEncoding.AppendEncode(a.buffer, response.Patch)
		a.raw(`"`)
	}
	if response.PatchType != nil {
		a.raw(`,"patchType":`)
		a.text(string(*response.PatchType))
	}
	a.annotations(response.AuditAnnotations)
	a.warnings(response.Warnings)
	a.raw("}}\n")
	return a.buffer, a.err
}

func sizeOf(response *admissionv1.AdmissionResponse) int {
	size := 2 * len(response.Patch)
	for _, value := range response.AuditAnnotations {
		size += len(value) + 64
	}
	for _, warning := range response.Warnings {
		size += len(warning) + 8
	}
	return size
}

// answer writes JSON.
type answer struct {
	buffer []byte
	err    error
}

func (a *answer) raw(json string) { a.buffer = append(a.buffer, json...) }

// text writes a string; those with anything unusual in them are left to encoding/json.
func (a *answer) text(s string) {
	start, begin := len(a.buffer), 0
	a.raw(`"`)
	for i := range len(s) {
		escape, usual := escapeOf(s[i])
		if !usual {
			a.buffer = a.buffer[:start]
			a.value(s)
			return
		}
		if escape != "" {
			a.raw(s[begin:i])
			a.raw(escape)
			begin = i + 1
		}
	}
	a.raw(s[begin:])
	a.raw(`"`)
}

func escapeOf(c byte) (escape string, usual bool) {
	switch c {
	case '"':
		return `\"`, true
	case '\\':
		return `\\`, true
	case '\n':
		return `\n`, true
	case '<':
		return `\u003c`, true
	case '>':
		return `\u003e`, true
	case '&':
		return `\u0026`, true
	}
	return "", c >= ' ' && c < 0x80
}

// status is the result; most say nothing but the code.
func (a *answer) status(result *metav1.Status) {
	switch {
	case result == nil:
	case *result == metav1.Status{Code: result.Code}:
		a.raw(`,"status":{"metadata":{},"code":`)
		a.buffer = strconv.AppendInt(a.buffer, int64(result.Code), 10)
		a.raw("}")
	default:
		a.raw(`,"status":`)
		a.value(result)
	}
}

func (a *answer) annotations(all map[string]string) {
	if len(all) == 0 {
		return
	}
	a.raw(`,"auditAnnotations":{`)
	for i, key := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			a.raw(",")
		}
		a.text(key)
		a.raw(":")
		a.text(all[key])
	}
	a.raw("}")
}

func (a *answer) warnings(all []string) {
	if len(all) == 0 {
		return
	}
	a.raw(`,"warnings":[`)
	for i, warning := range all {
		if i > 0 {
			a.raw(",")
		}
		a.text(warning)
	}
	a.raw("]")
}

func (a *answer) value(value any) {
	data, err := json.Marshal(value)
	a.buffer = append(a.buffer, data...)
	if err != nil && a.err == nil {
		a.err = err
	}
}
