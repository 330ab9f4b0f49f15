package devicereaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A ProofAPI creates the Jobs of proofs, and reads their logs; a [ProofClient] has it.
type ProofAPI interface {
	CreateJob(ctx context.Context, job *batchv1.Job) error
	DeleteJob(ctx context.Context, job *batchv1.Job) error
	CreateClaim(ctx context.Context, claim *resourceapi.ResourceClaim) error
	Output(ctx context.Context, job *batchv1.Job) string
}

// A ProofClient works in one namespace.
type ProofClient struct {
	Client    kubernetes.Interface
	Namespace string
}

// Jobs is an informer of the Jobs of reactions; the caller runs it.
func (c ProofClient) Jobs() cache.SharedIndexInformer {
	var labelled internalinterfaces.TweakListOptionsFunc = func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.ReactionLabel }
	return batchinformers.NewFilteredJobInformer(c.Client, c.Namespace, 0, cache.Indexers{}, labelled)
}

// CreateJob creates a Job.
func (c ProofClient) CreateJob(ctx context.Context, job *batchv1.Job) error {
	_, err := c.Client.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: ownclient.ReactionManager})
	return err
}

// DeleteJob deletes a Job with its pods, unless another has its name.
func (c ProofClient) DeleteJob(ctx context.Context, job *batchv1.Job) error {
	return c.Client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(job.UID)), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
}

// CreateClaim creates a claim.
func (c ProofClient) CreateClaim(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	_, err := c.Client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: ownclient.ReactionManager})
	return err
}

// What is read of a log.
const (
	maxLines  = 5
	maxLog    = 8 << 10
	maxOutput = 256
)

// Output returns how the newest pod of a Job ended, with the last line of its log, or why it does not
// run. The line is bounded, and its control characters are escaped: the pod can write anything.
func (c ProofClient) Output(ctx context.Context, job *batchv1.Job) string {
	pods, err := c.Client.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name, Limit: 256})
	if err != nil {
		return "its pods cannot be listed: " + reaction.OneLine(err.Error(), maxOutput)
	}
	if len(pods.Items) == 0 {
		return "no pod: see the events of the Job"
	}
	pod := slices.MaxFunc(pods.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if why := waits(&pod); why != "" {
		return fmt.Sprintf("pod %s does not run: %s", pod.Name, reaction.OneLine(printable.Text(why), maxOutput))
	}
	container, ended := lastContainer(&pod)
	line, err := c.lastLine(ctx, &pod, container)
	if err != nil {
		line = "its log cannot be read: " + reaction.OneLine(err.Error(), maxOutput)
	}
	return ended + line
}

// waits is why a pod has not started, empty if it has.
func waits(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodPending {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" {
			return s.State.Waiting.Reason + " " + s.State.Waiting.Message
		}
	}
	return "it is pending"
}

// lastContainer is the first container that has failed, or else the first, with how it ended.
func lastContainer(pod *corev1.Pod) (name, ended string) {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, s := range all {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return s.Name, fmt.Sprintf("container %s, exit code %d: ", s.Name, t.ExitCode)
		}
	}
	return pod.Spec.Containers[0].Name, ""
}

// lastLine reads the last line of a log that is not empty.
func (c ProofClient) lastLine(ctx context.Context, pod *corev1.Pod, container string) (string, error) {
	stream, err := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, TailLines: ptr.To[int64](maxLines), LimitBytes: ptr.To[int64](maxLog)}).Stream(ctx)
	if err != nil {
		return "", err
	}
	log, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err = errors.Join(err, stream.Close()); err != nil {
		return "", err
	}
	lines := bytes.Split(log, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		if text := reaction.OneLine(printable.Text(string(line)), maxOutput); text != "" {
			return text, nil
		}
	}
	return "its log is empty", nil
}
