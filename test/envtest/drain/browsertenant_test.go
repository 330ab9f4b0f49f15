package drain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// tenant makes a user who reads the devices of the cluster, and everything in one namespace.
func (s site) tenant(namespace string) (kubeconfig string) {
	s.Helper()
	read := []string{"get", "list", "watch"}
	name := metav1.ObjectMeta{Name: s.name + "-tenant"}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name.Name}}
	devices := []rbacv1.PolicyRule{
		{APIGroups: []string{resourceapi.GroupName}, Resources: []string{"resourceslices", "deviceclasses", "devicetaintrules"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read},
	}
	do(s, s.create(c.RbacV1().ClusterRoles().Create(s.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: devices}, metav1.CreateOptions{})))
	do(s, s.create(c.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}}, metav1.CreateOptions{})))
	own := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: read}}
	do(s, s.create(c.RbacV1().Roles(namespace).Create(s.Context(), &rbacv1.Role{ObjectMeta: name, Rules: own}, metav1.CreateOptions{})))
	do(s, s.create(c.RbacV1().RoleBindings(namespace).Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}}, metav1.CreateOptions{})))
	kubeconfig, err := cluster.UserKubeconfig(name.Name)
	do(s, err)
	return kubeconfig
}

// TestBrowserOfOneNamespace: a user with rights on one namespace sees the own pod's device as held.
// The device of another namespace is unknown and not free, its pod is on no page, and totals say that
// they are of a part.
func TestBrowserOfOneNamespace(t *testing.T) {
	s := newSite(t, "others", 1)
	s.replicas("secret-training", 1, "")
	mine := site{t, "others-mine", s.driver}
	do(s, s.create(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mine.name}}, metav1.CreateOptions{})))
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec = s.request()
	do(s, s.create(c.ResourceV1().ResourceClaimTemplates(mine.name).Create(t.Context(), template, metav1.CreateOptions{})))
	mine.replicas("web", 1, "")
	held, unknown := 0, 1
	if mine.on("web")[0] == "node-1" {
		held, unknown = 1, 0
	}
	w := openConsole(t, s.tenant(mine.name), "--namespace="+mine.name)
	w.Navigate("/?q=driver:" + s.driver)
	w.awaitDevice(held, "held")
	w.awaitDevice(unknown, "unknown")
	for _, path := range []string{"/?q=driver:" + s.driver, fmt.Sprintf("/device?driver=%s&pool=node-%d&device=gpu-0", s.driver, unknown), "/capacity?by=class", "/capacity?by=namespace", "/taints", "/drains", "/report?make=yes"} {
		w.Navigate(path)
		w.Await(path+" is shown", `document.querySelector("main").textContent.trim() !== ""`)
		text := w.Text(`document.documentElement.outerHTML`)
		if strings.Contains(text, "secret-training") {
			t.Errorf("%s shows a pod of another namespace", path)
		}
		if path == "/capacity?by=class" && !strings.Contains(text, "partial view") {
			t.Errorf("%s does not say that the view is partial:\n%s", path, text)
		}
	}
}

// TestBrowserHostileStrings: what drivers and authors of rules write is text on each page. It makes no
// element, and no script runs.
func TestBrowserHostileStrings(t *testing.T) {
	s := newSite(t, "markup", 1)
	const markup = `"'><img src=x onerror=document.title=1><script>1</script>`
	name := s.name + "-node-0"
	slice, err := c.ResourceV1().ResourceSlices().Get(t.Context(), name, metav1.GetOptions{})
	do(s, err)
	slice.Spec.Devices[0].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: new(markup)}
	do(s, s.create(c.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{})))
	rule := &unstructured.Unstructured{Object: map[string]any{"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": s.name, "annotations": map[string]any{v1alpha1.ReasonAnnotation: markup, v1alpha1.OwnerAnnotation: markup}},
		"spec":     map[string]any{"deviceSelector": map[string]any{"driver": s.driver, "pool": "node-0"}, "taint": map[string]any{"key": "example.com/markup", "effect": "NoSchedule"}}}}
	do(s, s.create(rules.Create(t.Context(), rule, metav1.CreateOptions{})))
	s.replicas("web", 1, "")
	w := openConsole(t, cluster.Kubeconfig())
	w.Navigate("/?q=driver:" + s.driver)
	w.awaitDevice(0, "free, noschedule")
	device := fmt.Sprintf("/device?driver=%s&pool=node-0&device=gpu-0", s.driver)
	for _, path := range []string{"/?q=driver:" + s.driver + "&group=model", device, "/capacity?by=model", "/taints", "/report?make=yes"} {
		w.Navigate(path)
		w.Await(path+" is shown", `document.querySelector("main").textContent.trim() !== ""`)
		if made := w.Text(`String(document.querySelectorAll("img[src=x]").length + [...document.scripts].filter(s => s.textContent === "1").length + (document.title === "1" ? 1 : 0))`); made != "0" {
			t.Errorf("%s: the text of a driver or an author has become an element", path)
		}
	}
	w.Navigate(device)
	w.Await("the text is shown as text", fmt.Sprintf(`document.querySelector("main").textContent.includes(%q)`, markup))
	do(s, rules.Delete(t.Context(), s.name, metav1.DeleteOptions{}))
}
