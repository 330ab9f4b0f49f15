// Package deviceroll carries out DeviceRolls: it reads what package roll decides about, writes the
// status, and does what was decided.
package deviceroll
