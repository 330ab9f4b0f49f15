package console

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"
)

// Bounds of a form.
const (
	maxForm   = 16 << 10
	maxFields = 32
	maxField  = 2 << 10
	// formTime is how long the body of a form may take to come.
	formTime = 5 * time.Second
	formName = "form"
)

// formKey is that of the token of forms in the context of a request.
type formKey struct{}

// formToken is the token for the forms of a page; empty if nothing may be written.
func formToken(ctx context.Context) string {
	token, _ := ctx.Value(formKey{}).(string)
	return token
}

// refuseForm reads the form of a request, and returns why it is refused: only a page of this session
// has the token, and only this server is its origin.
func (g *Gate) refuseForm(w http.ResponseWriter, r *http.Request) (status int, reason string) {
	if origin := r.Header.Get("Origin"); origin != "http://"+r.Host {
		return http.StatusForbidden, fmt.Sprintf("forbidden: a form of the console has the origin of the console, not %q", origin)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "a form must be application/x-www-form-urlencoded"
	}
	if r.URL.RawQuery != "" {
		return http.StatusBadRequest, "the address of a form must have no query"
	}
	if status, reason := readForm(w, r); reason != "" {
		return status, reason
	}
	if !same(r.PostForm.Get(formName), g.form) {
		return http.StatusForbidden, "forbidden: the form is not of this session: go back, reload the page, and send it again"
	}
	r.PostForm.Del(formName)
	return 0, ""
}

func readForm(w http.ResponseWriter, r *http.Request) (status int, reason string) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(formTime)) // a recorder of a test has none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var large *http.MaxBytesError
	switch err := r.ParseForm(); {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("a form must have at most %d bytes", maxForm)
	case err != nil:
		return http.StatusBadRequest, "the form cannot be read"
	case len(r.PostForm) > maxFields:
		return http.StatusBadRequest, fmt.Sprintf("a form must have at most %d fields", maxFields)
	}
	for name, values := range r.PostForm {
		if len(values) != 1 || len(name) > maxField || len(values[0]) > maxField || !utf8.ValidString(values[0]) {
			return http.StatusBadRequest, fmt.Sprintf("each field of a form must be there once, with at most %d bytes of text", maxField)
		}
	}
	return 0, ""
}
