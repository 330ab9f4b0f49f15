package app

import (
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/materializer"
)

// clusterFlags say what is read of the cluster, and which policies there are.
func clusterFlags(f *pflag.FlagSet, o *serveOptions) {
	f.BoolVar(&o.liveData, "live-data", false, "read DeviceClasses, ResourceSlices, DeviceTaintRules and namespaces of the cluster, for what looks beyond one object")
	f.BoolVar(&o.guard, "guard", false, "answer POST /guard: read the claims, pods and PodDisruptionBudgets of the cluster, to refuse taint rules that evict more than the configuration allows")
	f.BoolVar(&o.podDeletions, "pod-deletions", false, "judge deletions and evictions of pods: read the claims and pods of the cluster, to refuse those by force where a pod holds devices")
	f.StringArrayVar(&o.policies, "policies", nil, "folder with policies, or bundle of OPA, beside the library; a policy with the code of another replaces it (repeatable)")
	f.StringVar(&o.policyNamespace, "policy-namespace", "", "namespace whose ConfigMaps labelled dra-steward.io/policy=true hold policies, too")
	f.StringVar(&o.policyStatus, "policy-status", "", "name of the ConfigMap beside these in which the controller's leader writes down what came of the policies")
	f.StringVar(&o.patches, "patches", string(materializer.None), "write ResourceSlicePatches into the slices that drivers publish: none, materialize (needs --live-data), or restore to take them back")
	f.StringVar(&o.patchRecords, "patch-records", "", "ConfigMaps (namespace/beginning of their names) in which the controller keeps what drivers said of slices that are gone")
}
