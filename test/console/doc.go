// Package console has tests of dra-steward console in a real browser, Debian's Chromium. They skip
// without one.
package console
