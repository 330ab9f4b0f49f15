// Package devicereaction carries out DeviceReactions: it reads what package reaction decides about,
// writes the status, and then the drains, Jobs and pods.
package devicereaction
