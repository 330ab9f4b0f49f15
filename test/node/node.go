// Package node tests what runs on nodes against the kubelet itself: its own code as
// the oracle of our decoders and of our client, and a real kubelet.
package node
