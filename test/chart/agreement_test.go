package chart

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestTheWayOfARequest follows a request from the webhook configuration through the
// Service to the port on which the container listens.
func TestTheWayOfARequest(t *testing.T) {
	for name, o := range map[string]Options{"default": {}, "other": {ReleaseName: "blue", Namespace: "devices"}} {
		t.Run(name, func(t *testing.T) {
			r := render(t, with(nil), o)
			pod := r.deployment.Spec.Template
			for _, h := range r.hooks() {
				service := h.ClientConfig.Service
				if service.Name != r.service.Name || service.Namespace != r.service.Namespace || *service.Port != r.service.Spec.Ports[0].Port {
					t.Errorf("%s: calls %s/%s:%d, not the Service", h.Name, service.Namespace, service.Name, *service.Port)
				}
				if string(h.ClientConfig.CABundle) != pem {
					t.Errorf("%s: caBundle is not the value", h.Name)
				}
				kind, endpoint, _ := strings.Cut(h.Name, ".") // claims.validate.dra-steward.io
				endpoint, _, _ = strings.Cut(endpoint, ".")
				want := "/" + endpoint
				if kind == "slices" {
					want += "/slices"
				}
				if *service.Path != want {
					t.Errorf("%s: path %s, want %s", h.Name, *service.Path, want)
				}
			}
			for what, selector := range map[string]map[string]string{
				"Service": r.service.Spec.Selector, "Deployment": r.deployment.Spec.Selector.MatchLabels,
				"PodDisruptionBudget": r.budget.Spec.Selector.MatchLabels,
				"topology spread":     pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
				"anti-affinity":       pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels,
			} {
				if !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
					t.Errorf("%s does not select the pods", what)
				}
			}
			container := pod.Spec.Containers[0]
			listens(t, container, r.service.Spec.Ports[0].TargetPort.StrVal, "--address")
			listens(t, container, container.ReadinessProbe.HTTPGet.Port.StrVal, "--health-address")
			listens(t, container, container.LivenessProbe.HTTPGet.Port.StrVal, "--health-address")
			listens(t, container, "metrics", "--metrics-address")
		})
	}
}

// listens checks that flag makes the container listen on its port of that name.
func listens(t *testing.T, container corev1.Container, port, flag string) {
	t.Helper()
	for _, p := range container.Ports {
		if p.Name == port {
			if _, number, _ := strings.Cut(argument(t, container, flag), ":"); number != "" && number != strconv.Itoa(int(p.ContainerPort)) {
				t.Errorf("port %s is %d, %s says %s", port, p.ContainerPort, flag, number)
			}
			return
		}
	}
	t.Errorf("the container has no port %s", port)
}

func argument(t *testing.T, container corev1.Container, flag string) string {
	t.Helper()
	for _, arg := range container.Args {
		if value, found := strings.CutPrefix(arg, flag+"="); found {
			return value
		}
	}
	t.Fatalf("the container has no argument %s", flag)
	return ""
}

// TestFilesAreMounted checks that what serve reads lies below a mount of the right
// volume.
func TestFilesAreMounted(t *testing.T) {
	r := render(t, with(nil), Options{})
	spec := r.deployment.Spec.Template.Spec
	volumes := map[string]corev1.Volume{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = v
	}
	mounts := map[string]corev1.Volume{}
	for _, m := range spec.Containers[0].VolumeMounts {
		mounts[m.MountPath] = volumes[m.Name]
	}
	file := argument(t, spec.Containers[0], "--config")
	source := mounts[path.Dir(file)].ConfigMap
	if source == nil || source.Name != r.config.Name || r.config.Data[path.Base(file)] == "" {
		t.Errorf("--config=%s is not in the mounted ConfigMap", file)
	}
	dir := argument(t, spec.Containers[0], "--cert-dir")
	if secret := mounts[dir].Secret; secret == nil || secret.SecretName != "dra-steward-tls" {
		t.Errorf("--cert-dir=%s is not the mounted Secret", dir)
	}
}

// TestServeKnowsTheArguments lets the program itself parse them.
func TestServeKnowsTheArguments(t *testing.T) {
	for _, v := range []values{with(nil), everything()} {
		r := render(t, v, Options{})
		for _, pod := range []corev1.PodSpec{r.deployment.Spec.Template.Spec, r.controller.deployment.Spec.Template.Spec} {
			args := pod.Containers[0].Args
			command := exec.Command("go", append([]string{"run", "./cmd/dra-steward"}, append(slices.Clone(args), "--help")...)...)
			command.Dir = "../.."
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("dra-steward %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	}
}

// TestRestricted checks the rules of the Pod Security Standard "restricted", and that
// no right is asked for where none is needed.
func TestRestricted(t *testing.T) {
	r := render(t, everything(), Options{})
	pod := r.deployment.Spec.Template.Spec
	c := pod.Containers[0].SecurityContext
	for what, ok := range map[string]bool{
		"runAsNonRoot":             *pod.SecurityContext.RunAsNonRoot,
		"seccompProfile":           pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"allowPrivilegeEscalation": !*c.AllowPrivilegeEscalation,
		"readOnlyRootFilesystem":   *c.ReadOnlyRootFilesystem,
		"capabilities":             slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && c.Capabilities.Add == nil,
		"no host namespaces":       !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"no token in the pod":      !*pod.AutomountServiceAccountToken,
		"no token of the account":  !*r.serviceAccount.AutomountServiceAccountToken,
		"its own account":          r.serviceAccount.Name == pod.ServiceAccountName,
	} {
		if !ok {
			t.Errorf("%s: not as it must be", what)
		}
	}
	for _, object := range r.objects {
		component := object.GetLabels()["app.kubernetes.io/component"]
		if strings.HasPrefix(object.GetAPIVersion(), "rbac.") && component != "controller" && component != "rbac" {
			t.Errorf("%s %s: the webhook uses no API and needs no right", object.GetKind(), object.GetName())
		}
	}
}

// TestRights holds the webhook to reading what rules and policies look at, and ConfigMaps
// in its namespace, as the account of its pods.
func TestRights(t *testing.T) {
	r := render(t, with(nil), Options{Namespace: "devices"})
	if r.clusterRole == nil || r.binding == nil {
		t.Fatal("live data need a ClusterRole and its binding")
	}
	var rights []string
	for _, rule := range r.clusterRole.Rules {
		rights = append(rights, fmt.Sprint(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames))
	}
	if want := []string{
		"[resource.k8s.io] [deviceclasses resourceslices] [list watch] []",
		"[dra-steward.io] [resourceslicepatches] [list watch] []",
		"[resource.k8s.io] [devicetaintrules] [list watch] []",
		"[resource.k8s.io] [resourceclaimtemplates] [list] []",
		"[] [namespaces] [get list watch] []",
		"[resource.k8s.io] [resourceclaims] [list watch] []",
		"[] [pods] [list watch] []",
		"[policy] [poddisruptionbudgets] [list watch] []",
		"[dra-steward.io] [devicedrains] [list watch] []",
	}; !slices.Equal(rights, want) {
		t.Errorf("rights %q, the webhook needs %q", rights, want)
	}
	if r.role == nil || r.roleBinding == nil || r.role.Namespace != "devices" || r.roleBinding.Namespace != "devices" || len(r.role.Rules) != 1 ||
		!slices.Equal(r.role.Rules[0].Resources, []string{"configmaps"}) || !slices.Equal(r.role.Rules[0].Verbs, []string{"list", "watch"}) {
		t.Errorf("the right to ConfigMaps: %+v, %+v", r.role, r.roleBinding)
	}
	subject := r.binding.Subjects[0]
	pod := r.deployment.Spec.Template.Spec
	if r.binding.RoleRef.Name != r.clusterRole.Name || subject.Name != pod.ServiceAccountName || subject.Namespace != "devices" || !*pod.AutomountServiceAccountToken {
		t.Errorf("the role does not reach the pods: %+v, account %s, token %v", r.binding, pod.ServiceAccountName, *pod.AutomountServiceAccountToken)
	}
}

func TestTimeToStop(t *testing.T) {
	r := render(t, everything(), Options{})
	if got := *r.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; got != 135 {
		t.Errorf("terminationGracePeriodSeconds is %d, want the delay of 10 and 125 more, in which API servers close their connections", got)
	}
	if got := argument(t, r.deployment.Spec.Template.Spec.Containers[0], "--shutdown-delay"); got != "10s" {
		t.Errorf("--shutdown-delay=%s, want 10s", got)
	}
}
