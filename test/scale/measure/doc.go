// Package measure runs dra-steward in clusters of a growing number of nodes, and measures what
// its parts hold, how long its commands take compared with bare lists of the same objects, and what
// its webhook costs writers.
package measure
