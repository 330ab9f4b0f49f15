// Package image has the tests of what goes into the container image: the program is
// static, the same from the same source, and runs from a root that holds nothing but what
// the image holds. No registry is needed for that, and none is asked.
package image
