// Package release holds what a release consists of, .goreleaser.yaml, against goreleaser
// itself: it builds a snapshot and runs it. It is an own module, so that goreleaser does not
// become a dependency of ours.
package release
