package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// The CustomResourceDefinition of drains.
const definition = v1alpha1.DeviceDrainResource + "." + v1alpha1.Group

// orphans are the rules of drains of a name that are gone. Who deletes a drain wants its
// cordon to be lifted. Who deletes the type, or lets helm do it, has not spoken of the
// devices: they stay out of use, and it is said how to put them back.
func (c *Controller) orphans(ctx context.Context, name string, d *v1alpha1.DeviceDrain) error {
	for rule := range c.storedRules() {
		of, uid := OwnerOf(rule)
		if of != name || rule.DeletionTimestamp != nil || c.kept[rule.UID] || d != nil && d.DeletionTimestamp == nil && d.UID == uid {
			continue
		}
		why, err := c.typeIsGone(ctx, rule)
		if err != nil {
			return fmt.Errorf("DeviceTaintRule %s of a drain that is gone: %w", rule.Name, err)
		}
		if why != "" {
			c.keep(name, rule, why)
			continue
		}
		if err := named(rule, "delete", c.rules.remove(ctx, rule)); err != nil {
			return err
		}
	}
	return nil
}

// typeIsGone returns how the drain of a rule was deleted with its type, or "": the type is
// being deleted, does not exist, or is another one that is not older than the rule. Times
// have a resolution of a second, and a cordon that stays by mistake is better than one that
// is lifted.
func (c *Controller) typeIsGone(ctx context.Context, rule *resourceapi.DeviceTaintRule) (string, error) {
	definitions := c.options.Rules.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	is, err := definitions.Get(ctx, definition, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "was deleted", nil
	case err != nil:
		return "", err
	case is.GetDeletionTimestamp() != nil:
		return "is being deleted", nil
	case !is.GetCreationTimestamp().Time.Before(rule.CreationTimestamp.Time):
		return "was deleted, and made again", nil
	}
	return "", nil
}

// keep says, once, that a rule stays in force.
func (c *Controller) keep(name string, rule *resourceapi.DeviceTaintRule, why string) {
	c.kept[rule.UID] = true
	message := fmt.Sprintf("DeviceDrain %s is gone because its type %s: its devices stay out of use; to use them again: kubectl delete devicetaintrule %s", name, why, rule.Name)
	c.options.Logger.Info("Kept the cordon", "rule", rule.Name, "drain", name, "message", message)
	c.event(&corev1.ObjectReference{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "DeviceTaintRule", Name: rule.Name, UID: rule.UID},
		corev1.EventTypeWarning, "CordonKept", message)
}
