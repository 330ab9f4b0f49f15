// Package review is the one pipeline that checks a write: decode, mutate
// (defaults), drop (offline only: fields that the server would not keep), validate
// (rules), answer. The webhook, lint and the tests all go
// through it, so that they cannot disagree.
//
// A [Reviewer] holds the decisions of a site; its zero value checks as the API
// server's own limits do. A [Request] is one write as JSON, an [Answer] is what is
// changed, warned about and denied. The package knows no client, no clock and no
// HTTP.
package review
