package chart

import "testing"

// TestRollAuthors evaluates the policy that keeps a DeviceRoll from being a way to run pods, to delete
// those of a driver or to cordon nodes.
func TestRollAuthors(t *testing.T) {
	// Rolls are off: once they are on, the controller takes up what is stored.
	policy := render(t, with(nil), Options{}).policies["dra-steward-rolls"]
	const (
		proof   = `{spec: {driver: a, proof: {namespace: checks, deviceClassName: gpu, image: a}}}`
		another = `{spec: {driver: a, proof: {namespace: checks, deviceClassName: gpu, image: b}}}`
		goesOn  = `{spec: {driver: a, continue: 1, skip: [node-1], proof: {namespace: checks, deviceClassName: gpu, image: a}}}`
		plain   = `{spec: {driver: a}}`
		pods    = `{spec: {driver: a, driverPods: {namespace: gpu-driver, labels: {a: b}}}}`
		undone  = `{spec: {driver: a, undo: true, driverPods: {namespace: gpu-driver, labels: {a: b}}}}`
		waits   = `{spec: {driver: a, driverPods: {namespace: gpu-driver, labels: {a: b}, replace: Wait}}}`
		work    = `{spec: {driver: a, nodeWork: {byHand: true}}}`
	)
	const noProof, noDeletion, noCordon = `user "jane" is not allowed to create pods there`, `user "jane" is not allowed to delete pods there`, `user "jane" is not allowed to patch nodes`
	for name, tt := range map[string]authorCase{
		"a proof":             {"", proof, "", noProof},
		"a proof, allowed":    {"", proof, "create /pods in checks", ""},
		"allowed elsewhere":   {"", proof, "create /pods in default", noProof},
		"allowed to delete":   {"", proof, "delete /pods in checks", noProof},
		"a proof is added":    {plain, proof, "", noProof},
		"another image":       {proof, another, "", noProof},
		"it goes on":          {proof, goesOn, "", ""},
		"the pods":            {"", pods, "", noDeletion},
		"the pods, allowed":   {"", pods, "delete /pods in gpu-driver", ""},
		"it is undone":        {pods, undone, "", ""},
		"an operator deletes": {"", waits, "", ""},
		"until we delete":     {waits, pods, "", noDeletion},
		"nodes":               {"", work, "", noCordon},
		"nodes, allowed":      {"", work, "patch /nodes in ", ""},
		"nothing of these":    {"", plain, "", ""},
	} {
		t.Run(name, func(t *testing.T) { tt.run(t, policy, "DeviceRoll", "devicerolls") })
	}
}
