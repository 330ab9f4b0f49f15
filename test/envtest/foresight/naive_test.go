package foresight_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// guess is what one gets by comparing the free devices of a class with the requests, as far
// as a class has devices: how many pods of each set land.
func (w *world) guess(seen placement.Cluster, answer placement.Answer) map[string]int {
	change := w.planned(seen)
	free := w.free(change.After, answer)
	guess := map[string]int{}
	for _, m := range slices.Concat(answer.Moves, answer.Waiting) {
		all := slices.Concat(seen.Pods, change.Arriving)
		i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.Name == m.Pod })
		driver, count := w.asks(seen, all[i])
		if free[driver] >= count {
			free[driver] -= count
			guess[ownerOf(all[i])]++
		}
	}
	return guess
}

// free counts the devices without taints that no claim of a pod that stays has, by class.
func (w *world) free(after placement.Cluster, answer placement.Answer) map[string]int {
	leaves := map[string]bool{}
	for _, m := range answer.Moves {
		leaves[m.Pod] = true
	}
	taken := map[usage.DeviceID]bool{}
	for _, claim := range after.Claims {
		if claim.Status.Allocation == nil || slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return leaves[r.Name] }) {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			taken[usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}] = true
		}
	}
	free := map[string]int{}
	for _, slice := range after.View.List(nil) {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if len(d.Taints) == 0 && !taken[usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name}] {
				free[w.classOf(slice.Spec.Driver)]++
			}
		}
	}
	return free
}

func (w *world) classOf(driver string) string {
	return w.classes[slices.Index(w.drivers, driver)].Name
}

// asks returns the class and the number of devices that a pod asks for.
func (w *world) asks(seen placement.Cluster, pod *corev1.Pod) (class string, count int) {
	for _, reference := range pod.Spec.ResourceClaims {
		for _, template := range seen.Templates {
			if template.Name != *reference.ResourceClaimTemplateName {
				continue
			}
			r := template.Spec.Spec.Devices.Requests[0]
			if r.Exactly != nil {
				return r.Exactly.DeviceClassName, int(r.Exactly.Count)
			}
			return r.FirstAvailable[0].DeviceClassName, int(r.FirstAvailable[0].Count)
		}
	}
	for i, c := range w.classes {
		if name := c.Spec.ExtendedResourceName; name != nil {
			if q, asked := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(*name)]; asked {
				return w.classes[i].Name, int(q.Value())
			}
		}
	}
	return "", 0
}
