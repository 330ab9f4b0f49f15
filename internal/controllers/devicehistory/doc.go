// Package devicehistory records actions on devices and their holders, for "dra-steward history".
//
// Every replica remembers the holders of all devices, so that the leader knows who had a device before its
// first taint. Only the leader writes: [history.Shards] ConfigMaps of fixed names, one at a time. It compares
// devices with their records, so that a change that it has missed is found at its next start. Nothing else
// waits for it, and no controller reads what it writes.
package devicehistory
