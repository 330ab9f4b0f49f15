// Package clusterwrite writes DeviceTaintRules and DeviceDrains for people: the commands taint,
// untaint and drain, and the pages of the console.
//
// A [Taint] and a [Drain] are what a user asks for; [Rules] and the functions about drains write it
// with the rights of the user.
package clusterwrite
