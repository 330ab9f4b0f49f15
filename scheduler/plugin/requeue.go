package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// A profile is where pods wait for devices.
type profile struct {
	logger klog.Logger
	handle fwk.Handle
	index  string
	pods   cache.Indexer
}

// addProfile lets the pods of a profile try again when patches change. The event of a
// custom resource in EventsToRegister has the same effect, but then the scheduler waits for
// the resource to be served, and without its CustomResourceDefinition nothing would be
// scheduled.
func (p *patches) addProfile(ctx context.Context, handle fwk.Handle) error {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	added := profile{klog.FromContext(ctx), handle, "dra-steward-waiting-" + handle.ProfileName(), pods.GetIndexer()}
	if err := pods.AddIndexers(cache.Indexers{added.index: waitingIn(handle.ProfileName())}); err != nil {
		return fmt.Errorf("index of the pods that wait for devices: %w", err)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.profiles = append(p.profiles, added)
	p.report.foreign.addPatched(handle.ProfileName())
	return nil
}

// waitingIn is the function of an index that has the pods of a profile that wait for
// devices.
func waitingIn(profile string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "" && pod.Spec.SchedulerName == profile && mayUseDevices(pod) {
			return []string{profile}, nil
		}
		return nil, nil
	}
}

// mayUseDevices reports whether a pod uses claims, or asks for a resource with a domain:
// that may be the extended resource of a DeviceClass.
func mayUseDevices(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range containers {
			for name := range container.Resources.Requests {
				if strings.Contains(string(name), "/") {
					return true
				}
			}
		}
	}
	return false
}

// requeue lets all pods that wait for devices try again. A pod that is being tried right
// now is tried once more.
func (p *patches) requeue() {
	p.mutex.Lock()
	profiles := p.profiles
	p.mutex.Unlock()
	for _, profile := range profiles {
		objects, err := profile.pods.ByIndex(profile.index, profile.handle.ProfileName())
		if err != nil {
			profile.logger.Error(err, "Pods that wait for devices are not retried until another change")
			continue
		}
		if len(objects) == 0 { // also before the scheduler is complete, which has no queue yet
			continue
		}
		waiting := make(map[string]*corev1.Pod, len(objects))
		for _, object := range objects {
			pod := object.(*corev1.Pod)
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
		profile.handle.Activate(profile.logger, waiting)
	}
}
