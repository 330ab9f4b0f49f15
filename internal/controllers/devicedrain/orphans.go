package devicedrain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// The CustomResourceDefinition of drains.
const definition = v1alpha1.DeviceDrainResource + "." + v1alpha1.Group

// orphans handles the rules of drains of a name that are gone. Deleting a drain lifts its
// cordon. Deleting the type, also by helm, does not: the devices stay out of use, and an
// event on the rule has the command that puts them back.
func (c *Controller) orphans(ctx context.Context, name string) error {
	rules, replaced := c.orphaned(name)
	for _, rule := range replaced {
		if err := named(rule, "delete", c.rules.remove(ctx, rule)); err != nil {
			return err
		}
		c.options.Logger.Info("Deleted the cordon of a previous drain of the name; the present drain has its own", "rule", rule.Name, "drain", name)
	}
	if len(rules) == 0 {
		return nil
	}
	// A type is marked as deleted before its drains are, so it is read after them, once.
	is, err := c.readDefinition(ctx)
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s, for the DeviceTaintRules of drain %s, which is gone: %w", definition, name, err)
	}
	for _, rule := range rules {
		if why := typeIsGone(is, rule); why != "" {
			c.keep(name, rule, why)
			continue
		}
		if err := named(rule, "delete", c.rules.remove(ctx, rule)); err != nil {
			return err
		}
	}
	return nil
}

// orphaned returns the rules of drains of a name that are gone, without those kept, and those that a
// present drain of the name has replaced by its own.
func (c *Controller) orphaned(name string) (rules, replaced []*resourceapi.DeviceTaintRule) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	d := c.newest(name)
	present := d != nil && d.DeletionTimestamp == nil
	own := map[cordonOf]bool{}
	var previous []*resourceapi.DeviceTaintRule
	for rule := range c.storedRules() {
		of, uid := drain.OwnerOf(rule)
		switch {
		case of != name || rule.DeletionTimestamp != nil:
		case present && d.UID == uid:
			own[effectOf(rule)] = true
		default:
			previous = append(previous, rule)
		}
	}
	cordoned := present && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainCordoned)
	for _, rule := range previous {
		switch {
		case cordoned && own[effectOf(rule)]:
			replaced = append(replaced, rule)
		case !c.kept[rule.UID]:
			rules = append(rules, rule)
		}
	}
	return rules, replaced
}

// A cordonOf is what a rule taints, and how.
type cordonOf struct {
	driver, pool, device, key, value string
	effect                           resourceapi.DeviceTaintEffect
}

func effectOf(rule *resourceapi.DeviceTaintRule) cordonOf {
	of := cordonOf{key: rule.Spec.Taint.Key, value: rule.Spec.Taint.Value, effect: rule.Spec.Taint.Effect}
	if s := rule.Spec.DeviceSelector; s != nil {
		of.driver, of.pool, of.device = ptr.Deref(s.Driver, ""), ptr.Deref(s.Pool, ""), ptr.Deref(s.Device, "")
	}
	return of
}

// readDefinition returns the type of drains, or nil if it does not exist.
func (c *Controller) readDefinition(ctx context.Context) (*unstructured.Unstructured, error) {
	definitions := c.options.Rules.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	is, err := definitions.Get(ctx, definition, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return is, err
}

// typeIsGone returns how the drain of a rule was deleted with its type, or "": the type is
// being deleted, does not exist, or is another one that is not older than the rule. Times
// have a resolution of a second, and a cordon that stays by mistake is better than one that
// is lifted.
func typeIsGone(is *unstructured.Unstructured, rule *resourceapi.DeviceTaintRule) string {
	switch {
	case is == nil:
		return "was deleted"
	case is.GetDeletionTimestamp() != nil:
		return "is being deleted"
	case !is.GetCreationTimestamp().Time.Before(rule.CreationTimestamp.Time):
		return "was deleted and created again"
	}
	return ""
}

// keep reports, once, that a rule stays in force.
func (c *Controller) keep(name string, rule *resourceapi.DeviceTaintRule, why string) {
	c.locked(func() { c.kept[rule.UID] = true })
	message := fmt.Sprintf("DeviceDrain %s is gone because its type %s: its devices stay out of use; to use them again: kubectl delete devicetaintrule %s", name, why, rule.Name)
	c.options.Logger.Info("Kept the cordon", "rule", rule.Name, "drain", name, "message", message)
	c.event(&corev1.ObjectReference{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "DeviceTaintRule", Name: rule.Name, UID: rule.UID},
		corev1.EventTypeWarning, "CordonKept", message)
}
