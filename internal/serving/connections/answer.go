package connections

import (
	"errors"
	"net/http"
	"time"
)

// buffered is what net/http keeps of an answer before it sends it; streamBytes covers that.
const buffered = 4 << 10

var errNoRoom = errors.New("no room for the answer")

// Answers ends a connection of HTTP/2 whose client does not take an answer in time. Without it, a stream waits in the
// server for the client's window, after its handler has returned.
func Answers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := From(r.Context())
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		a := answer{w, c, r.ProtoMajor == 2}
		next.ServeHTTP(a, r)
		if a.flush() == nil {
			c.note(true, true)
		}
	})
}

type answer struct {
	http.ResponseWriter
	connection *Connection
	http2      bool
}

// Unwrap is for http.ResponseController.
func (a answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a answer) Write(p []byte) (int, error) {
	if n := int64(len(p)); n > buffered {
		if !a.connection.Take(n) {
			a.connection.Close()
			return 0, errNoRoom
		}
		defer a.connection.Return(n)
	}
	defer a.limit()()
	return a.ResponseWriter.Write(p)
}

func (a answer) flush() error {
	if !a.http2 {
		return nil // net/http writes it to the connection, whose writes have an end
	}
	defer a.limit()()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// limit ends the connection unless the function that it returns is called in time.
func (a answer) limit() (taken func()) {
	if !a.http2 {
		return func() {}
	}
	end := time.AfterFunc(taking, func() { _ = a.connection.Close() })
	return func() { end.Stop() }
}
