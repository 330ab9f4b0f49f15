// Package taints is what the commands impact, taint and untaint know: which devices a name
// means, which DeviceTaintRule taints them, and which pods a taint evicts.
package taints
