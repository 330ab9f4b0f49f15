package capacity_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/capacity"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const cluster = "../../../docs/capacity/cluster.yaml"

// run runs a command on the cluster; fit begins with its name.
func run(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	streams := cmdutil.Streams{In: strings.NewReader(in), Out: &out, Err: &out}
	c := capacity.CapacityCommand(streams)
	if args[0] == "fit" {
		c, args = capacity.FitCommand(streams), args[1:]
	}
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append(args, "--from-files", cluster))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCapacityOutput: the formats are those of devices.
func TestCapacityOutput(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-o name", "driver/gpu.example.com\ndriver/mig.example.com\n"},
		{"--by class -o name", "deviceclass.resource.k8s.io/gpu\ndeviceclass.resource.k8s.io/half-gpu\n"},
		{"--by namespace -o custom-columns=NS:.namespace,N:.devices", "NS       N\nteam-a   1\nteam-b   1\n"},
		{"--by namespace -o name", "namespace/team-a\nnamespace/team-b\n"},
		{"--by node --no-headers --class gpu", "node-1   4   3   1   0   0   3   1   0   0\nnode-2   3   2   0   1   0   2   1   0   0\nnode-3   1   0   0   0   1   0   0   0   0\n"},
		{"--by class -o custom-columns=CLASS:.name,LEFT:.allocatable", "CLASS      LEFT\ngpu        5\nhalf-gpu   1\n"},
		{"--class half-gpu -o jsonpath={.total.allocatable}/{.total.fits[0].exact}", "1/true"},
		{"--by namespace --no-headers", "team-a   1   1   0\nteam-b   1   1   0\n"},
		{"--by model --driver gpu.example.com -o jsonpath={.rows[*].name}", "A100 T4"},
	} {
		if got, err := run(t, "", strings.Fields(tt.args)...); err != nil || got != tt.want {
			t.Errorf("capacity %s: %v\n%s\nwant\n%s", tt.args, err, got, tt.want)
		}
	}
	for args, want := range map[string]string{
		"--by rack":    `--by "rack": must be one of class, driver`,
		"--class none": `DeviceClass "none" not found`,
		"-o table":     `--output "table": must be one of text, wide`,
	} {
		if _, err := run(t, "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("capacity %s: %v, want %s", args, err, want)
		}
	}
}

const template = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
`

// workload is an object with a pod that uses the template.
func workload(kind, before, after string) string {
	return template + kind + ", metadata: {name: train}, spec: " + before +
		"{containers: [{name: c, image: registry.example.com/train:1}], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]}" + after + "}\n"
}

// TestFitWorkloads: fit reads each kind that has pods.
func TestFitWorkloads(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{workload("{apiVersion: v1, kind: Pod", "", ""), "pod default/train: 5 pods fit\n"},
		{workload("{apiVersion: apps/v1, kind: Deployment", "{template: {spec: ", "}}"), "deployment default/train: 5 pods fit\n"},
		{workload("{apiVersion: apps/v1, kind: ReplicaSet", "{template: {spec: ", "}}"), "replicaset default/train: 5 pods fit\n"},
		{workload("{apiVersion: apps/v1, kind: StatefulSet", "{template: {spec: ", "}}"), "statefulset default/train: 5 pods fit\n"},
		{workload("{apiVersion: batch/v1, kind: Job", "{template: {spec: ", "}}"), "job default/train: 5 pods fit\n"},
		{workload("{apiVersion: batch/v1, kind: CronJob", "{jobTemplate: {spec: {template: {spec: ", "}}}}"), "cronjob default/train: 5 pods fit\n"},
		{template, "resourceclaimtemplate default/gpu: 5 pods fit\n"},
		{"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: half-gpu}}]}}}", "resourceclaim default/one: 1 pod fits\n"},
	} {
		if got, err := run(t, tt.in, "fit", "-f", "-"); err != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%v\n%s\nwant %s", err, got, tt.want)
		}
	}
	for in, want := range map[string]string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}":                                                                                "contains no ResourceClaimTemplate, ResourceClaim, Pod, Deployment, ReplicaSet, StatefulSet, Job or CronJob",
		template + strings.ReplaceAll(template, "name: gpu}", "name: b}"):                                                                       "and no pod that uses them: must be one",
		workload("{apiVersion: v1, kind: Pod", "", "") + "---" + workload("{apiVersion: apps/v1, kind: Deployment", "{template: {spec: ", "}}"): "contains pod default/train, deployment default/train: must be one",
	} {
		if _, err := run(t, in, "fit", "-f", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFitLimits: pods of files request their limits, those of templates as well.
func TestFitLimits(t *testing.T) {
	const node = `
apiVersion: v1
kind: Node
metadata: {name: small, labels: {size: small}}
status: {allocatable: {cpu: "8", pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: default}
spec: {nodeName: small, containers: [{name: c, image: registry.example.com/train:1, resources: {limits: {cpu: 2}}}]}
`
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(node), 0o600); err != nil {
		t.Fatal(err)
	}
	const spec = "{nodeSelector: {size: small}, containers: [{name: c, image: registry.example.com/train:1, resources: {limits: {cpu: 2}}}]}"
	for in, want := range map[string]string{
		"{apiVersion: v1, kind: Pod, metadata: {name: train}, spec: " + spec + "}":                           "pod default/train: 3 pods fit\n",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: train}, spec: {template: {spec: " + spec + "}}}": "job default/train: 3 pods fit\n",
	} {
		if got, err := run(t, in, "fit", "-f", "-", "--from-files", file); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%v\n%s\nwant %s", err, got, want)
		}
	}
}

// drains are of node 2, of a driver's partitions, and of no device.
const drains = `
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: second}
spec: {selector: {driver: gpu.example.com, pool: node-2}}
---
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: one}
spec: {devices: [{driver: gpu.example.com, pool: node-2, device: gpu-0}]}
---
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: none}
spec: {selector: {driver: none.example.com}}
`

// TestFitIfDrained: a drain of the files counts as if it had ended.
func TestFitIfDrained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drains.yaml")
	if err := os.WriteFile(file, []byte(drains), 0o600); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]string{
		"devicedrain/second": "3 pods fit\n", "ddrain/one": "4 pods fit\n", "devicedrains.dra-steward.io/one": "4 pods fit\n",
		"devicedrain/none":  "--if-drained: devicedrain none: the selector matches no published device yet",
		"devicedrain/third": `--if-drained: devicedrain "third" is in none of the files`,
		"drain/second":      `--if-drained: no device, pool or driver "drain/second"`,
	} {
		got, err := run(t, template, "fit", "-f", "-", "--if-drained", of, "--from-files", file)
		if !strings.Contains(fmt.Sprint(got, err), want) {
			t.Errorf("fit --if-drained %s: %v\n%s\nwant %s", of, err, got, want)
		}
	}
}

// TestFitFlags: replicas that do not fit are exit code 1, and taints and drains count.
func TestFitFlags(t *testing.T) {
	for _, tt := range []struct {
		args, want string
		findings   bool
	}{
		{"--replicas 5", "5 pods fit; 5 replicas fit\n", false},
		{"--replicas 6", "5 pods fit; 6 replicas do not fit\n", true},
		{"--without-taints", "6 pods fit\n", false},
		{"--if-drained gpu.example.com/node-2", "3 pods fit\n", false},
		{"-o jsonpath={.least}/{.exact}/{.limit.kind}", "5/true/Unschedulable", false},
		{"-o jsonpath={.featureGates.source}", "the defaults of Kubernetes 1.37", false},
	} {
		got, err := run(t, template, append([]string{"fit", "-f", "-"}, strings.Fields(tt.args)...)...)
		if !strings.Contains(got, tt.want) || errors.Is(err, cmdutil.ErrFindings) != tt.findings || err != nil && !tt.findings {
			t.Errorf("fit %s: %v\n%s\nwant %s", tt.args, err, got, tt.want)
		}
	}
	for args, want := range map[string]string{
		"":                          "-f FILE is missing",
		"-f - --replicas -1":        "--replicas -1: must be 1 to 10000",
		"-f - --if-drained node/no": "--if-drained: no device is published for node no",
		"-f - --from-files -":       "-f and --from-files cannot both be standard input",
		"-f - -o wide":              `--output "wide": must be one of text`,
	} {
		if _, err := run(t, template, append([]string{"fit"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fit %s: %v, want %s", args, err, want)
		}
	}
}
