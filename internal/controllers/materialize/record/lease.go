package record

// The Lease of a scheduler that applies ResourceSlicePatches itself, which it renews while it
// runs. While it is in force, patches are written into no slice: to have them applied twice
// is of no use, and drivers are written over for it.
const (
	SchedulerLeaseNamespace = "kube-system"
	SchedulerLeaseName      = "dra-steward-scheduler"
)
