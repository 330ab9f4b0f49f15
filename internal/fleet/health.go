package fleet

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/health"
)

// sick are the devices that their drivers report as broken in the status of claims.
func (f *Fleet) sick() *health.Records {
	said := &health.Records{}
	for _, claim := range f.Input.Claims {
		said.AddClaim(claim)
	}
	return said
}

// Said is the worst that the pods of a device say about its health; false if they say nothing.
func (d *Device) Said(pods []*corev1.Pod) (health.Record, bool) {
	said := &health.Records{}
	for _, pod := range pods {
		said.AddPod(pod, d.claim)
	}
	return said.Of(d.ID)
}

// claim is one of the claims that have the device, nil for another.
func (d *Device) claim(namespace, name string) *resourceapi.ResourceClaim {
	for _, claim := range d.Claims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}
