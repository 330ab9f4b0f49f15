package podresources_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// TestShares: an allocation has the ids of a share where the driver answers the kubelet without it, as dra-driver-cpu does. A
// request tells two shares apart; where none does, the ids are those of both, and share-unknown.
func TestShares(t *testing.T) {
	const device = "cpudevnuma0"
	entry := func(share types.UID, request string, ids ...string) checkpoint.Device {
		d := checkpoint.Device{Driver: "dra.cpu", Pool: "node", Device: device, ShareID: share, CDIIDs: ids}
		if request != "" {
			d.Requests = []string{request}
		}
		return d
	}
	for name, test := range map[string]struct {
		results []string // request=share
		entries []checkpoint.Device
		want    string
	}{
		"named":                       {[]string{"a=s1"}, []checkpoint.Device{entry("s1", "a", "x/y=1")}, "a x/y=1 exact"},
		"not named":                   {[]string{"a=s1"}, []checkpoint.Device{entry("", "a", "x/y=1")}, "a x/y=1 exact"},
		"no request either":           {[]string{"a=s1"}, []checkpoint.Device{entry("", "", "x/y=1")}, "a x/y=1 exact"},
		"an alternative":              {[]string{"a/small=s1", "b=s2"}, []checkpoint.Device{entry("", "a", "x/y=1"), entry("", "b", "x/y=2")}, "a/small x/y=1 exact, b x/y=2 exact"},
		"another share":               {[]string{"a=s1"}, []checkpoint.Device{entry("s2", "a", "x/y=1")}, "a  cdi-unknown"},
		"two, named":                  {[]string{"a=s1", "a=s2"}, []checkpoint.Device{entry("s1", "a", "x/y=1"), entry("s2", "a", "x/y=2")}, "a x/y=1 exact, a x/y=2 exact"},
		"two by request":              {[]string{"a=s1", "b=s2"}, []checkpoint.Device{entry("", "a", "x/y=1"), entry("", "b", "x/y=2")}, "a x/y=1 exact, b x/y=2 exact"},
		"two of one request":          {[]string{"a=s1", "a=s2"}, []checkpoint.Device{entry("", "a", "x/y=1"), entry("", "a", "x/y=2")}, "a x/y=1+x/y=2 share-unknown, a x/y=1+x/y=2 share-unknown"},
		"two with the same id":        {[]string{"a=s1", "a=s2"}, []checkpoint.Device{entry("", "a", "x/y=1")}, "a x/y=1 exact, a x/y=1 exact"},
		"one named, one not":          {[]string{"a=s1", "b=s2"}, []checkpoint.Device{entry("s1", "", "x/y=1"), entry("", "b", "x/y=2")}, "a x/y=1 exact, b x/y=2 exact"},
		"the allocation has no share": {[]string{"a="}, []checkpoint.Device{entry("s1", "a", "x/y=1")}, "a x/y=1 exact"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p", UID: "p"}, Spec: corev1.PodSpec{
				Containers:     []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "cpu"}}}}},
				ResourceClaims: []corev1.PodResourceClaim{{Name: "cpu", ResourceClaimName: new("cpu")}}}}
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "cpu", UID: "claim"}, Status: resourceapi.ResourceClaimStatus{
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}, Allocation: &resourceapi.AllocationResult{}}}
			for _, result := range test.results {
				request, share, _ := strings.Cut(result, "=")
				r := resourceapi.DeviceRequestAllocationResult{Request: request, Driver: "dra.cpu", Pool: "node", Device: device}
				if share != "" {
					r.ShareID = new(types.UID(share))
				}
				claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, r)
			}
			prepared := checkpoint.Claim{UID: "claim", Namespace: "team-a", Name: "cpu", PodUIDs: []types.UID{"p"}, Devices: test.entries}
			in := podresources.Input{Pods: []*corev1.Pod{pod}, Claims: []*resourceapi.ResourceClaim{claim}, Checkpoint: []checkpoint.Claim{prepared}}
			if got := lines(podresources.Attribute(in)); got != test.want {
				t.Errorf("checkpoint:\ngot  %s\nwant %s", got, test.want)
			}
			if strings.Contains(name, "request") || name == "an alternative" {
				return // the kubelet's answer names no request
			}
			listed := &v1.ContainerResources{Name: "c", DynamicResources: []*v1.DynamicResource{{ClaimName: "cpu", ClaimNamespace: "team-a"}}}
			for _, d := range test.entries {
				r := &v1.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Device}
				if d.ShareID != "" {
					r.ShareId = new(string(d.ShareID))
				}
				for _, id := range d.CDIIDs {
					r.CdiDevices = append(r.CdiDevices, &v1.CDIDevice{Name: id})
				}
				listed.DynamicResources[0].ClaimResources = append(listed.DynamicResources[0].ClaimResources, r)
			}
			in.Checkpoint, in.Listing = nil, &podresources.Listing{Pods: []*v1.PodResources{{Name: "p", Namespace: "team-a", Containers: []*v1.ContainerResources{listed}}}}
			if got := lines(podresources.Attribute(in)); got != test.want && name != "one named, one not" {
				t.Errorf("PodResources:\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
}

func lines(holdings []podresources.Holding) string {
	var all []string
	for _, h := range holdings {
		all = append(all, strings.Join([]string{h.Request, strings.Join(h.CDIIDs, "+"), string(h.Exactness)}, " "))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
