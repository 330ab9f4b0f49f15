package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// proofs is the namespace of the Jobs of reactions and of the pods that prove a roll.
const proofs = "proofs"

// A controlled world has the controller of dra-steward.
type controlled struct {
	*world
	objects client.Client
	process *process // nil where it runs in the process of the tests
}

// control runs the controller with the rights that the chart gives it, and no others.
func (w *world) control() *controlled {
	w.Helper()
	s, args := w.installController()
	program, err := controller.Start(w.Context(), args)
	w.must(err)
	s.endWith(program.Log, program.Stop)
	return s
}

// controlProcess runs it as a process, which can be killed.
func (w *world) controlProcess() *controlled {
	w.Helper()
	s, args := w.installController()
	// One that is killed keeps its Lease for 15 s.
	s.process = &process{log: filepath.Join(tempDir(w), "controller.log"), args: append(args, "--leader-elect=false")}
	w.must(s.process.start())
	s.endWith(s.process.said, s.process.kill)
	return s
}

// installController installs what the chart has for the controller, and returns its arguments.
func (w *world) installController() (*controlled, []string) {
	w.Helper()
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	objects, err := client.New(inside.cluster.Config(), client.Options{Scheme: scheme})
	w.must(err)
	for _, name := range []string{proofs, driverNamespace} {
		if _, err := w.client.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			w.must(err)
		}
	}
	args, err := controller.Install(w.Context(), inside.cluster, map[string]any{"controller": map[string]any{
		"reactions": map[string]any{"enabled": true, "proofs": map[string]any{"enabled": true, "namespace": proofs, "createNamespace": false}},
		"rolls":     map[string]any{"enabled": true, "nodes": true, "driverNamespaces": []any{driverNamespace}, "proofNamespaces": []any{proofs}},
	}})
	w.must(err)
	return &controlled{world: w, objects: objects}, args
}

// endWith ends the controller after the test.
func (s *controlled) endWith(log func() string, stop func() error) {
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("end of the controller's log:\n%s", tailOf(log()))
			s.describe()
		}
		s.clear()
		if err := stop(); err != nil {
			s.Error(err)
		}
	})
}

// argsVariable holds the arguments of dra-steward for the process that is it.
const argsVariable = "DRA_STEWARD_NODE_TEST_ARGS"

// A process is dra-steward as a process that can be killed.
type process struct {
	log     string
	args    []string
	command *exec.Cmd
}

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(os.Environ(), argsVariable+"="+strings.Join(p.args, "\n"))
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.command.Start()
}

// kill is a SIGKILL: nothing is put in order.
func (p *process) kill() error {
	err := p.command.Process.Kill()
	_ = p.command.Wait() // that it was killed
	return err
}

// said is what it has logged.
func (p *process) said() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func tailOf(text string) string { return text[max(0, len(text)-6000):] }

// describe logs what the controller has written.
func (s *controlled) describe() {
	ctx := context.WithoutCancel(s.Context())
	reactions, drains, rolls := &v1alpha1.DeviceReactionList{}, &v1alpha1.DeviceDrainList{}, &v1alpha1.DeviceRollList{}
	for _, list := range []client.ObjectList{reactions, drains, rolls} {
		if err := s.objects.List(ctx, list); err != nil {
			s.Log(err)
		}
	}
	for i := range reactions.Items {
		s.Logf("reaction %s: %+v", reactions.Items[i].Name, reactions.Items[i].Status)
	}
	for i := range drains.Items {
		s.Logf("drain %s: %+v", drains.Items[i].Name, drains.Items[i].Status)
	}
	for i := range rolls.Items {
		s.Logf("roll %s: %+v", rolls.Items[i].Name, rolls.Items[i].Status)
	}
}

// clear deletes what the test has created for the controller, and what that has created.
func (s *controlled) clear() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	all := metav1.ListOptions{}
	for _, err := range []error{
		s.objects.DeleteAllOf(ctx, &v1alpha1.DeviceReaction{}),
		s.objects.DeleteAllOf(ctx, &v1alpha1.DeviceRoll{}),
		s.objects.DeleteAllOf(ctx, &v1alpha1.DeviceDrain{}),
		s.client.BatchV1().Jobs(proofs).DeleteCollection(ctx, background, all),
		s.client.CoreV1().Pods(proofs).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		s.client.AppsV1().ReplicaSets("default").DeleteCollection(ctx, background, all),
		s.client.PolicyV1().PodDisruptionBudgets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	} {
		if err != nil {
			s.Error(err)
		}
	}
}

func (s *controlled) create(object client.Object) {
	s.Helper()
	s.must(s.objects.Create(s.Context(), object))
}

// reaction reads the reaction of a name.
func (s *controlled) reaction(ctx context.Context, name string) *v1alpha1.DeviceReaction {
	r := &v1alpha1.DeviceReaction{}
	if err := s.objects.Get(ctx, client.ObjectKey{Name: name}, r); err != nil {
		s.Log(err)
	}
	return r
}

// drainOf waits for the drain of a reaction in one of these conditions, as "Type=Status", and returns
// its name.
func (s *controlled) drainOf(reaction, condition string) (name string) {
	s.Helper()
	kind, status, _ := strings.Cut(condition, "=")
	s.eventually("reaction "+reaction+" has a drain with "+condition, func(ctx context.Context) (bool, string) {
		drains, err := s.drains(ctx, reaction)
		if err != nil || len(drains) != 1 {
			return false, fmt.Sprint(err, len(drains), " drains; ", s.reaction(ctx, reaction).Status)
		}
		name = drains[0].Name
		return kind == "" || meta.IsStatusConditionPresentAndEqual(drains[0].Status.Conditions, kind, metav1.ConditionStatus(status)), fmt.Sprint(drains[0].Status)
	})
	return name
}

func (s *controlled) drains(ctx context.Context, reaction string) ([]v1alpha1.DeviceDrain, error) {
	list := &v1alpha1.DeviceDrainList{}
	err := s.objects.List(ctx, list, client.MatchingLabels{v1alpha1.ReactionLabel: reaction})
	return list.Items, err
}

// uncordoned waits until a reaction has no drain, and no rule of its drain is left.
func (s *controlled) uncordoned(reaction, drain string) {
	s.Helper()
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, string) {
		drains, err := s.drains(ctx, reaction)
		if err != nil || len(drains) > 0 {
			return false, fmt.Sprint(err, s.reaction(ctx, reaction).Status)
		}
		return s.rules(ctx, drain) == 0, "rules are left"
	})
}

// rules counts the rules with which a drain cordons devices.
func (s *controlled) rules(ctx context.Context, drain string) int {
	rules, err := s.client.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{LabelSelector: "dra-steward.io/drain=" + drain})
	if err != nil {
		return -1
	}
	return len(rules.Items)
}

// provenIs waits until the condition Proven has a reason, and returns its message.
func (s *controlled) provenIs(reaction string, reason v1alpha1.ReactionProofState) (message string) {
	s.Helper()
	s.eventually("proven: "+string(reason), func(ctx context.Context) (bool, string) {
		status := s.reaction(ctx, reaction).Status
		proven := meta.FindStatusCondition(status.Conditions, v1alpha1.ReactionProven)
		if proven == nil || proven.Reason != string(reason) {
			return false, fmt.Sprint(status)
		}
		message = proven.Message
		return true, ""
	})
	return message
}

// proofPod waits for the pod of an attempt to run, and returns it with its claim. The claim has the
// name of the Job.
func (s *controlled) proofPod(attempt int) (pod, claim string) {
	s.Helper()
	s.eventually(fmt.Sprintf("attempt %d runs", attempt), func(ctx context.Context) (bool, string) {
		pods, err := s.client.CoreV1().Pods(proofs).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range pods.Items {
			claim = pods.Items[i].Labels[batchv1.JobNameLabel]
			if strings.HasSuffix(claim, fmt.Sprint("-", attempt)) && pods.Items[i].Status.Phase == corev1.PodRunning {
				pod = pods.Items[i].Name
				return true, ""
			}
		}
		return false, fmt.Sprint(len(pods.Items), " pods")
	})
	return pod, claim
}

// replicas runs pods of a ReplicaSet with a device each, of a class.
func (w *world) replicas(name, class string, n int32) {
	w.Helper()
	request := exactly("r", 1)
	request.Exactly.DeviceClassName = class
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec(request)}}
	_, err := w.client.ResourceV1().ResourceClaimTemplates("default").Create(w.Context(), template, metav1.CreateOptions{})
	w.must(err)
	labels := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	set.Spec.Template.Labels, set.Spec.Template.Spec = labels, pod("default", name, fromTemplate(name), container("main", corev1.ResourceClaim{Name: "c"})).Spec
	_, err = w.client.AppsV1().ReplicaSets("default").Create(w.Context(), set, metav1.CreateOptions{})
	w.must(err)
	w.ready(name, n)
}

func (w *world) ready(name string, n int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d replicas are ready", n), func(ctx context.Context) (bool, string) {
		set, err := w.client.AppsV1().ReplicaSets("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == n, fmt.Sprint(err, set.Status)
	})
}

// budget wants a number of the pods of an app to be ready.
func (w *world) budget(app string, minimum int32) {
	w.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(minimum)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	_, err := w.client.PolicyV1().PodDisruptionBudgets("default").Create(w.Context(), b, metav1.CreateOptions{})
	w.must(err)
	w.eventually("the budget is counted", func(ctx context.Context) (bool, string) {
		b, err := w.client.PolicyV1().PodDisruptionBudgets("default").Get(ctx, app, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0, fmt.Sprint(err, b.Status)
	})
}

// watched follows the pods of an app from now on, and returns the fewest that were ready at a time.
func (w *world) watched(app string) (fewest func() int) {
	w.Helper()
	o := metav1.ListOptions{LabelSelector: "app=" + app}
	list, err := w.client.CoreV1().Pods("default").List(w.Context(), o)
	w.must(err)
	ready := map[string]bool{}
	note := func(pod *corev1.Pod, gone bool) {
		delete(ready, pod.Name)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil && !gone {
				ready[pod.Name] = true
			}
		}
	}
	for i := range list.Items {
		note(&list.Items[i], false)
	}
	least := len(ready)
	o.ResourceVersion = list.ResourceVersion
	changes, err := w.client.CoreV1().Pods("default").Watch(w.Context(), o)
	w.must(err)
	var mutex sync.Mutex
	ended := false
	go func() {
		for event := range changes.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				mutex.Lock()
				note(pod, event.Type == "DELETED")
				least = min(least, len(ready))
				mutex.Unlock()
			}
		}
		mutex.Lock()
		ended = true
		mutex.Unlock()
	}()
	return func() int {
		mutex.Lock()
		defer mutex.Unlock()
		if ended {
			w.Error("the watch of the pods has ended before")
		}
		return least
	}
}

// took fails if something took longer than it may.
func took(t testing.TB, what string, since time.Time, atMost time.Duration) {
	t.Helper()
	now := time.Since(since).Round(100 * time.Millisecond)
	t.Logf("%s: %s", what, now)
	if now > atMost {
		t.Errorf("%s took %s, want at most %s", what, now, atMost)
	}
}
