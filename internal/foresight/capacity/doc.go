// Package capacity counts devices: how many there are, how many can be allocated now, what
// keeps the others, who holds them, and how many claims still fit.
//
// Each device is in one [State]. Devices that share counters, such as the partitions of one
// GPU, are counted as the largest set of them that fits the counters together, not as the sum
// of what fits alone. Devices that several claims share are counted with their shares of
// default size.
//
// The number of claims that fit is an upper bound. It is exact only where the choice of
// devices and nodes cannot change it; [Fit].Exact reports that.
//
// A [Cluster] holds the objects. The package is pure: it knows no client and no clock. A
// device is never counted as allocatable if the claims that can hold it could not be read.
package capacity
