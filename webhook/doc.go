// Package webhook answers the API server's admission requests. Nothing is decided
// here: a request becomes a [review.Request], the [review.Answer] becomes a
// response.
//
// There are three handlers, one that fills in defaults, one that validates, and one that
// checks the impact of a write; each serves all kinds. A [Server] offers them over TLS with a certificate that it
// reads again whenever its files change, and ends without dropping a request.
package webhook
