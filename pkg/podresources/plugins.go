package podresources

import (
	corev1 "k8s.io/api/core/v1"
)

// addPlugins adds the devices of device plugins as the kubelet lists them: by container, with
// the right ids, and without CDI ids. A device near two NUMA nodes is listed twice.
func (a *attribution) addPlugins() {
	if a.in.Listing == nil {
		return
	}
	pods := map[key]*corev1.Pod{}
	for _, pod := range a.in.Pods {
		pods[key{pod.Namespace, pod.Name}] = pod
	}
	type device struct{ container, resource, id string }
	for _, listed := range a.in.Listing.Pods {
		pod := pods[key{listed.GetNamespace(), listed.GetName()}]
		if pod != nil && isDone(pod) {
			continue
		}
		once := map[device]bool{}
		for _, container := range listed.GetContainers() {
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					at := device{container.GetName(), devices.GetResourceName(), id}
					if once[at] {
						continue
					}
					once[at] = true
					h := Holding{Device: id, Prepared: PreparedYes, Source: FromPodResources, Exactness: CDIUnknown}
					if pod != nil {
						h = heldBy(pod, at.container, "", at.resource, h)
					}
					h.Namespace, h.Pod, h.Container, h.Resource = listed.GetNamespace(), listed.GetName(), at.container, at.resource
					a.holdings = append(a.holdings, h)
				}
			}
		}
	}
}
