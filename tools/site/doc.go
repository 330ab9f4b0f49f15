// Package site holds the site with the documentation: its configuration for Hugo, its layouts,
// and the test that builds it and follows its links. It is an own module, so that Hugo does not
// become a dependency of ours.
package site
