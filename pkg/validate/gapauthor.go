package validate

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeNameExtra is the extra of a user under which an API server keeps the node of the
// pod that a token was issued for.
const NodeNameExtra = "authentication.kubernetes.io/node-name"

// Publishers are who may publish slices for a driver.
type Publishers struct {
	// Users and Groups are names as the API server authenticates them.
	Users, Groups []string
}

// authorGaps are the rules for who publishes a slice. They look at the write and not at
// other objects. What another has stored before excuses nobody.
var authorGaps = Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-node-author",
		Doc: `A slice for a node is written from that node.

A token that was issued for a pod says on which node the pod runs. A driver that writes
slices for another node can invent devices there, or take away those of another pod. The
API server only holds kubelets to their nodes. It only warns, since one pod may publish
for many nodes; set it to error where every driver runs on its nodes.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "holds kubelets to it (NodeRestriction), drivers not",
		Source:   "KEP-4381, ResourceSliceSpec.NodeName; KEP-4193, " + NodeNameExtra,
		Check:    sliceNodeAuthor,
	},
	{
		ID: "slice-driver-author",
		Doc: `A slice of a driver is written by one of the driver's identities.

Whoever may write ResourceSlices may write those of every driver. A site names the users
and groups of a driver (drivers.<name>.users, drivers.<name>.groups in the
configuration); of a driver that it does not name nothing is said.`,
		Class:  Gap,
		Server: "lets whoever may write slices write those of any driver",
		Source: "KEP-4381, ResourceSliceSpec.Driver",
		Check:  sliceDriverAuthor,
	},
}

func sliceNodeAuthor(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
	if c.Author == nil || slice.Spec.NodeName == nil {
		return nil
	}
	from := c.Author.Extra[NodeNameExtra]
	if len(from) == 0 || slices.Contains(from, *slice.Spec.NodeName) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "nodeName"),
		"the token of "+c.Author.Username+" was issued for a pod on the node "+from[0]+"; publish from there")}
}

func sliceDriverAuthor(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
	publishers, named := c.Publishers[slice.Spec.Driver]
	if c.Author == nil || !named || publishers.include(*c.Author) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "driver"),
		c.Author.Username+" is not among the users and groups that publish for the driver; the site names them (drivers in the configuration of dra-steward)")}
}

func (p Publishers) include(user authenticationv1.UserInfo) bool {
	return slices.Contains(p.Users, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(p.Groups, group) })
}
