package placement

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelper "k8s.io/component-helpers/storage/volume"
)

// Storage has the volumes of a cluster. What is nil was not read.
type Storage struct {
	VolumeClaims []*corev1.PersistentVolumeClaim
	Volumes      []*corev1.PersistentVolume
	// CSINodes have the limits of CSI volumes.
	CSINodes []*storagev1.CSINode
}

// storage finds volumes by their names.
type storage struct {
	Storage
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

func (s Storage) index() storage {
	found := storage{s, map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}}
	for _, claim := range s.VolumeClaims {
		found.claims[nameOf(claim)] = claim
	}
	for _, volume := range s.Volumes {
		found.volumes[volume.Name] = volume
	}
	return found
}

// What decides about volumes and is not checked.
const (
	volumesUnread  = "volumes, which were not read"
	volumesUnbound = "volumes that are not bound"
	volumesLimits  = "limits of CSI volumes"
	volumesInline  = "volumes that the pod has without a claim"
)

// bindCompleted is the annotation of a claim that is bound for good.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// volumesOf returns the bound volumes of a pod. A reason is about all nodes; unknown names what is not checked.
func (s *Simulation) volumesOf(pod *corev1.Pod) (bound []*corev1.PersistentVolume, reason Reason, unknown []string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := claimName(pod, v)
		if name == "" {
			if v.CSI != nil && s.storage.limited(v.CSI.Driver) {
				unknown = append(unknown, volumesLimits)
			}
			if restricted(v) {
				unknown = append(unknown, volumesInline)
			}
			continue
		}
		volume, reason, missing := s.volumeOf(pod, name, v.Ephemeral != nil)
		switch {
		case reason.Kind != "":
			return nil, reason, nil
		case missing != "":
			unknown = append(unknown, missing)
			continue
		}
		if volume.Spec.CSI != nil && s.storage.limited(volume.Spec.CSI.Driver) {
			unknown = append(unknown, volumesLimits)
		}
		bound = append(bound, volume)
	}
	return bound, Reason{}, unknown
}

// claimName is the PersistentVolumeClaim of a volume, empty if it has none.
func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// restricted reports whether kube-scheduler looks for other pods with the volume.
func restricted(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// volumeOf returns the volume of a claim of a pod, or why there is none, or what is unknown about it.
func (s *Simulation) volumeOf(pod *corev1.Pod, name string, ephemeral bool) (*corev1.PersistentVolume, Reason, string) {
	key := types.NamespacedName{Namespace: nameOf(pod).Namespace, Name: name}
	claim := s.storage.claims[key]
	wrong := func(what string) (*corev1.PersistentVolume, Reason, string) {
		return nil, Reason{Kind: Volume, Message: fmt.Sprintf("PersistentVolumeClaim %s %s", name, what)}, ""
	}
	switch {
	case s.storage.VolumeClaims == nil:
		return nil, Reason{}, volumesUnread
	case claim == nil && ephemeral:
		return nil, Reason{}, volumesUnbound
	case claim == nil:
		return wrong("does not exist")
	case claim.Status.Phase == corev1.ClaimLost:
		return wrong("has lost its volume")
	case claim.DeletionTimestamp != nil:
		return wrong("is being deleted")
	case slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && s.usesVolume(pod, key):
		return nil, Reason{Kind: Volume, Message: fmt.Sprintf("PersistentVolumeClaim %s is ReadWriteOncePod, and another pod uses it", name)}, ""
	case claim.Spec.VolumeName == "" || claim.Annotations[bindCompleted] == "":
		return nil, Reason{}, volumesUnbound
	case s.storage.Volumes == nil:
		return nil, Reason{}, volumesUnread
	case s.storage.volumes[claim.Spec.VolumeName] == nil:
		return wrong("is bound to PersistentVolume " + claim.Spec.VolumeName + ", which does not exist")
	}
	return s.storage.volumes[claim.Spec.VolumeName], Reason{}, ""
}

// usesVolume reports whether another pod that has a node uses a claim.
func (s *Simulation) usesVolume(pod *corev1.Pod, of types.NamespacedName) bool {
	for _, other := range s.pods {
		if other.Spec.NodeName != "" && uidOf(other) != uidOf(pod) && nameOf(other).Namespace == of.Namespace &&
			slices.ContainsFunc(other.Spec.Volumes, func(v corev1.Volume) bool { return claimName(other, &v) == of.Name }) {
			return true
		}
	}
	return false
}

// limited reports whether a node can have a limit of volumes of a CSI driver.
func (s *storage) limited(driver string) bool {
	return s.CSINodes == nil || slices.ContainsFunc(s.CSINodes, func(n *storagev1.CSINode) bool {
		return slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver && d.Allocatable != nil })
	})
}

// zoneLabels are the labels of volumes that nodes must have, too, each with the one that replaced it.
func zoneLabels() [][2]string {
	return [][2]string{
		{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone}, {corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
		{corev1.LabelTopologyZone, corev1.LabelTopologyZone}, {corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
	}
}

// elsewhere returns why a volume cannot be used on a node.
func elsewhere(v *corev1.PersistentVolume, n *node) (Kind, string) {
	if volumehelper.CheckNodeAffinity(v, n.Labels) != nil {
		return VolumeElsewhere, "cannot use PersistentVolume " + v.Name + ": its node affinity is for other nodes"
	}
	zoned := slices.ContainsFunc(zoneLabels(), func(key [2]string) bool { _, has := n.Labels[key[0]]; return has })
	for _, key := range zoneLabels() {
		zones, err := zonesOf(v.Labels[key[0]])
		if !zoned || err != nil || zones == nil {
			continue
		}
		value, has := n.Labels[key[0]]
		if !has {
			value, has = n.Labels[key[1]]
		}
		if !has || !slices.Contains(zones, value) {
			return VolumeElsewhere, fmt.Sprintf("cannot use PersistentVolume %s: it is in %s=%s", v.Name, key[0], v.Labels[key[0]])
		}
	}
	return "", ""
}

// zonesOf are the zones of a label: one, or several joined by two underscores.
func zonesOf(label string) (zones []string, _ error) {
	if label == "" {
		return nil, nil
	}
	for zone := range strings.SplitSeq(label, "__") {
		if zone = strings.TrimSpace(zone); zone == "" {
			return nil, fmt.Errorf("zones %q: one is empty", label)
		}
		zones = append(zones, zone)
	}
	return zones, nil
}
