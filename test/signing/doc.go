// Package signing signs an image and a list of checksums as the release workflow does, with
// cosign itself, but with a key of its own and without a transparency log. It is an own module,
// so that cosign does not become a dependency of ours.
package signing
