package scale

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// template is the name of the ResourceClaimTemplate of each namespace, and of the claim in the
// specification of the pods.
const template = "gpu"

// Namespace returns a namespace.
func (c Cluster) Namespace(namespace int) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: NamespaceName(namespace)}}
}

// Template returns the template of the claims of a namespace.
func (c Cluster) Template(namespace int) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: template, Namespace: NamespaceName(namespace)},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec()}}
}

// Budget returns the budget of a namespace: one pod must stay, and one may go at a time.
func (c Cluster) Budget(namespace int) *policyv1.PodDisruptionBudget {
	pods := int32(c.podsOf(namespace))
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: App, Namespace: NamespaceName(namespace)},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": App}}},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: pods, DesiredHealthy: max(0, pods-1), ExpectedPods: pods}}
}

// podsOf counts the pods of a namespace.
func (c Cluster) podsOf(namespace int) (pods int) {
	for job := namespace; job < c.Jobs(); job += c.Namespaces() {
		pods += min(PodsPerJob, c.Claims()-job*PodsPerJob)
	}
	return pods
}

// Workload returns a pod and the claim that it has, as they are while the pod runs. What the
// API server decides is left out: the UID of the pod, of which [Bind] tells the claim. The round
// is 0 for the first of a job, else that in which the job was replaced.
func (c Cluster) Workload(claim, round int) (*corev1.Pod, *resourceapi.ResourceClaim) {
	job := claim / PodsPerJob
	node, gpu := c.device(claim)
	namespace, jobName := NamespaceName(job%c.Namespaces()), fmt.Sprintf("job-%05d-%d", job, round)
	name := fmt.Sprintf("%s-%d", jobName, claim%PodsPerJob)
	return pod(namespace, name, jobName, NodeName(node)), claimOf(namespace, name+"-gpu", NodeName(node), gpuName(gpu))
}

func pod(namespace, name, job, node string) *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": App, "example.com/job": job}},
		Spec: corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "trainer", Image: "registry.example.com/team/trainer:v1.4.2", Args: []string{"--epochs=100", "--job=" + job},
				Env:       []corev1.EnvVar{{Name: "JOB", Value: job}, {Name: "NCCL_DEBUG", Value: "WARN"}},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: template}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: template, ResourceClaimTemplateName: new(template)}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: template, ResourceClaimName: new(name + "-gpu")}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "trainer", Image: "registry.example.com/team/trainer:v1.4.2", Ready: true, Started: new(true),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

func claimOf(namespace, name, node, gpu string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Finalizers: []string{resourceapi.Finalizer},
			Annotations: map[string]string{"resource.kubernetes.io/pod-claim-name": template}},
		Spec: claimSpec(),
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: GPUDriver, Pool: node, Device: gpu}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}},
	}
}

func claimSpec() resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}}}
}

// Bind reserves a claim for the pod as it is stored, which owns it.
func Bind(claim *resourceapi.ResourceClaim, pod *corev1.Pod) {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
}
