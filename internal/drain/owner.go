package drain

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// The longest UID that is kept, and the longest kind and name of an object. The API server does not
// bound those of owner references, which the author of a pod writes.
const (
	maxUID  = 64
	maxKind = 63
	maxName = 253
)

// controllerOf returns the controller of a pod, whose UID is bounded, or nil.
func controllerOf(pod metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner != nil {
		owner.UID = types.UID(condition.Bounded(string(owner.UID), maxUID))
	}
	return owner
}

// ownerOf names the controller of a pod, "" if it has none.
func ownerOf(pod *candidate) string {
	owner := controllerOf(pod)
	if owner == nil {
		return ""
	}
	return objectName(cmp.Or(owner.Kind, "controller"), owner.Name)
}

// objectName names an object by what others wrote about it.
func objectName(kind, name string) string { return word(kind, maxKind) + "/" + word(name, maxName) }

// word bounds a text, without control characters and space.
func word(text string, most int) string {
	text = strings.Join(strings.Fields(condition.Bounded(text, most)), "_")
	return condition.Bounded(printable.Text(text), most)
}
