// Package drain tests DeviceDrains on a real control plane: API server, scheduler and
// controller-manager, with stand-ins for kubelets.
package drain
