// Package lint checks manifests without a cluster. A [Linter] reads the files that its
// arguments stand for, checks every object of resource.k8s.io in them on all processors,
// and yields one [Result] per object in the order of files and documents. What is found is
// a [Diagnostic] with its place; a [Printer] writes reports for people, programs and CI
// systems. What the site has decided comes from a [Sites], file by file. Nothing but
// findings is kept: a thousand files need no more memory than one.
package lint
