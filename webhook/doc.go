// Package webhook answers the API server's admission requests. Nothing is decided
// here: a request becomes a [review.Request], the [review.Answer] becomes a
// response.
//
// There are two handlers, one that fills in defaults and one that validates; each
// serves all kinds. A [Server] offers them over TLS with a certificate that it
// reads again whenever its files change, and ends without dropping a request.
package webhook
