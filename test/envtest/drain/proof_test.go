package drain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// reactionProofs is the namespace of the Jobs of reactions.
const reactionProofs = "reaction-proofs"

// identify lets the driver publish a UUID for each device of a node.
func (s site) identify(node int) {
	s.Helper()
	s.republish(node, func(i int, device *resourceapi.Device) {
		device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("GPU-%d-%d", node, i))}
	})
}

// proveBy adds a proof to a reaction.
func (s site) proveBy(spec *v1alpha1.DeviceReactionSpec) {
	spec.Brake.PercentOfDriver = ptr.To[int32](100)
	spec.Prove = &v1alpha1.ReactionProve{DeviceClassName: s.driver, Timeout: &metav1.Duration{Duration: 5 * time.Minute}, Template: runtime.RawExtension{Raw: []byte(
		`{"spec": {"containers": [{"name": "check", "image": "registry.example.com/check:1", "resources": {"claims": [{"name": "device"}]}}]}}`)}}
	spec.End = v1alpha1.ReactionEnd{Uncordon: v1alpha1.UncordonWhenHealthy, After: &metav1.Duration{Duration: 5 * time.Second}}
}

// jobs are those of the reaction, by name, with those that are deleted by now.
func (s site) jobs(ctx context.Context, seen map[string]types.UID) ([]batchv1.Job, error) {
	list, err := c.BatchV1().Jobs(reactionProofs).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ReactionLabel + "=" + s.name})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		job := &list.Items[i]
		if had := seen[job.Name]; had != "" && had != job.UID {
			return nil, fmt.Errorf("Job %s was created twice", job.Name)
		}
		seen[job.Name] = job.UID
	}
	return list.Items, nil
}

// tested waits for the pod of the attempt, sees that its claim has exactly the device, and ends the pod.
func (s site) tested(seen map[string]types.UID, attempt int32, device v1alpha1.DeviceName, phase corev1.PodPhase) {
	s.Helper()
	s.eventually(fmt.Sprintf("attempt %d runs", attempt), func(ctx context.Context) (bool, error) {
		jobs, err := s.jobs(ctx, seen)
		if err != nil {
			return false, err
		}
		for i := range jobs {
			if !strings.HasSuffix(jobs[i].Name, fmt.Sprint("-", attempt)) {
				continue
			}
			pods, err := c.CoreV1().Pods(reactionProofs).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + jobs[i].Name})
			if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
				return false, err
			}
			if len(pods.Items) > 1 || pods.Items[0].Spec.NodeName != device.Pool {
				return false, fmt.Errorf("%d pods, the first on %s", len(pods.Items), pods.Items[0].Spec.NodeName)
			}
			claim, err := c.ResourceV1().ResourceClaims(reactionProofs).Get(ctx, jobs[i].Name, metav1.GetOptions{})
			if err != nil || claim.Status.Allocation == nil {
				return false, errors.Join(err, errors.New("a pod runs whose claim is not allocated"))
			}
			results := claim.Status.Allocation.Devices.Results
			if len(results) != 1 || (v1alpha1.DeviceName{Driver: results[0].Driver, Pool: results[0].Pool, Device: results[0].Device}) != device {
				return false, fmt.Errorf("kube-scheduler allocated %+v, want %s", results, device)
			}
			patch := fmt.Appendf(nil, `{"status": {"phase": %q}}`, phase)
			_, err = c.CoreV1().Pods(reactionProofs).Patch(ctx, pods.Items[0].Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err == nil, err
		}
		return false, nil
	})
}

// proofIs waits until the proof of a device has a state.
func (s site) proofIs(node, device int, attempt int32, state v1alpha1.ReactionProofState) string {
	s.Helper()
	var found v1alpha1.ReactionProof
	s.eventually(fmt.Sprintf("proof %d of gpu-%d is %s", attempt, device, state), func(ctx context.Context) (bool, error) {
		for _, d := range s.reaction(ctx).Status.Devices {
			if d.Pool == fmt.Sprint("node-", node) && d.Device == fmt.Sprint("gpu-", device) && d.Proof != nil {
				found = *d.Proof
			}
		}
		return found.Attempt == attempt && found.State == state, nil
	})
	return found.Message
}

// usedAgain runs a pod that gets a device by its UUID.
func (s site) usedAgain(uuid string) {
	s.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "after"}, Spec: s.request()}
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`"uuid" in device.attributes[%q] && device.attributes[%[1]q].uuid == %q`, s.driver, uuid)}}}
	do(s, s.create(c.ResourceV1().ResourceClaims(s.name).Create(s.Context(), claim, metav1.CreateOptions{})))
	s.replicas("after", 1, claim.Name)
	s.eventually("the device is used again", func(ctx context.Context) (bool, error) {
		claim, err := c.ResourceV1().ResourceClaims(s.name).Get(ctx, claim.Name, metav1.GetOptions{})
		return err == nil && claim.Status.Allocation != nil, err
	})
}
