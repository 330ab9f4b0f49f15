package drain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// says waits until the page of a change has a text.
func (w window) says(text string) {
	w.Await("the page says "+text, fmt.Sprintf(`document.body.dataset.template === "change" && document.querySelector("main").textContent.includes(%q)`, text))
}

// changes presses a button that previews a change, looks for texts in the preview, and confirms it.
func (w window) changes(button, done string, previews ...string) {
	w.Click(button)
	w.says("Nothing has been changed")
	for _, text := range previews {
		w.says(text)
	}
	w.Click("#confirm")
	w.says(done)
}

// rule is that of the test whose key is given; nil if there is none.
func (s site) rule(key string) map[string]string {
	s.Helper()
	list, err := rules.List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=dra-steward-taint"})
	do(s, err)
	for _, rule := range list.Items {
		if text, err := rule.MarshalJSON(); err == nil && strings.Contains(string(text), key) {
			return rule.GetAnnotations()
		}
	}
	return nil
}

// TestBrowserWrites: in a browser, a user taints a device from its page, untaints it, drains it until
// it is drained, with a pause in between, and cancels the drain.
func TestBrowserWrites(t *testing.T) {
	s := newSite(t, "pages", 1)
	w := openConsole(t, cluster.Kubeconfig(), "--allow-writes")
	devices, key := "/?q=driver:"+s.driver, s.driver+"/broken"
	device := fmt.Sprintf("/device?driver=%s&pool=node-0&device=gpu-0", s.driver)
	w.Navigate(devices)
	w.awaitDevice(0, "free")
	w.Navigate(device)
	w.Set("#t-key", key)
	w.Set("#t-reason", "the fan <b>")
	w.Set("#t-for", "2h")
	w.changes("#preview-taint", "Done: devicetaintrule/taint-gpu-0-", "creates taint-gpu-0-", "evicts no pods", "reason: the fan <b>", "dra-steward taint "+s.driver+"/node-0/gpu-0 "+key+":NoSchedule --for 2h --reason 'the fan <b>'")
	if notes := s.rule(key); notes[v1alpha1.OwnerAnnotation] != "admin" || notes[v1alpha1.ReasonAnnotation] != "the fan <b>" || notes[v1alpha1.ExpiresAnnotation] == "" {
		t.Errorf("annotations of the rule: %q", notes)
	}
	w.Navigate(devices)
	w.awaitDevice(0, "free, noschedule")
	w.Navigate(device)
	w.changes(".untaint button", "deleted", "deletes taint-gpu-0-", "dra-steward untaint "+s.driver+"/node-0/gpu-0 "+key)
	if notes := s.rule(key); notes != nil {
		t.Errorf("after untaint: %q", notes)
	}
	w.Navigate(devices)
	w.awaitDevice(0, "free")

	s.replicas("web", 1, "")
	from, to := 0, 1
	if s.on("web")[0] == "node-1" {
		from, to = 1, 0
	}
	s.budget("web", "web", 1)
	w.awaitDevice(from, "held")
	name := w.drains(s, from)
	do(s, c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.Navigate("/drain?name=" + name)
	w.Await("the drain has ended", `document.querySelector("h1 .state").textContent === "Drained"`)
	s.wait(name, "Drained=True Drained")
	w.Navigate(devices)
	w.awaitDevice(from, "free, noschedule")
	w.awaitDevice(to, "held")
	w.Navigate("/drains")
	w.changes(fmt.Sprintf(`button[data-verb="cancel"][aria-label="cancel drain %s"]`, name), "devicedrain "+name+" deleted", "the controller removes the cordon")
	w.Navigate(devices)
	w.awaitDevice(from, "free")
}

// drains makes a drain from the page of the device of a node, which a budget blocks, and pauses it and
// makes it go on.
func (w window) drains(s site, node int) (name string) {
	target := fmt.Sprintf("%s/node-%d/gpu-0", s.driver, node)
	w.Navigate(fmt.Sprintf("/device?driver=%s&pool=node-%d&device=gpu-0", s.driver, node))
	w.Set("#d-rate", "60")
	w.changes("#preview-drain", "created", "cordon "+target, "blocked BudgetBlocked", "pages/web", "dra-steward drain "+target+" --rate=60")
	w.Click("#written a")
	w.Await("the budget blocks the drain", `document.body.dataset.template === "drain" && document.querySelector("h1 .state").textContent === "Blocked"`)
	name = w.Text(`new URLSearchParams(location.search).get("name")`)
	w.changes(`button[data-verb="pause"]`, "devicedrain "+name+" paused", "the cordon stays", "dra-steward drain --pause "+name)
	s.wait(name, "Draining=False Paused")
	w.Navigate("/drain?name=" + name)
	w.Await("the drain is paused", `document.querySelector("h1 .state").textContent === "Paused"`)
	w.changes(`button[data-verb="continue"]`, "devicedrain "+name+" goes on", "When it continues", "dra-steward drain --resume "+name)
	return name
}

// TestBrowserWithoutRights: a user who is only allowed to read sees the words of the API server, and
// what helps.
func TestBrowserWithoutRights(t *testing.T) {
	s := newSite(t, "reader", 1)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pages-reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}}
	do(s, s.create(c.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})))
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: role.Name}}}
	do(s, s.create(c.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})))
	kubeconfig, err := cluster.UserKubeconfig(role.Name)
	do(s, err)
	w := openConsole(t, kubeconfig, "--allow-writes")
	device := fmt.Sprintf("/device?driver=%s&pool=node-0&device=gpu-0", s.driver)
	w.Navigate(device)
	w.Set("#t-key", s.driver+"/broken")
	w.Click("#preview-taint")
	w.says(`User "pages-reader" cannot patch resource "devicetaintrules"`)
	w.says("Ask an administrator for the ClusterRole of people on call")
	w.Await("nothing can be confirmed", `document.querySelector("#confirm") === null`)
	w.Navigate(device)
	w.Click("#preview-drain")
	w.says(`User "pages-reader" cannot create resource "devicedrains"`)
	w.Await("nothing can be confirmed", `document.querySelector("#confirm") === null`)
	list, err := drains.List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		if strings.HasPrefix(d.GetName(), "gpu-0-") && strings.Contains(fmt.Sprint(d.Object["spec"]), s.driver) {
			t.Errorf("there is a drain %s", d.GetName())
		}
	}
}
