// Package signing signs an image, a list of checksums and the chart as the release workflow does, with
// cosign and Helm themselves, but with keys of its own and without a transparency log. It is an own module,
// so that cosign does not become a dependency of ours.
package signing
