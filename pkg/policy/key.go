package policy

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// write writes everything that a decision about a claim or template depends on, the
// revisions apart, which belong to the engine: two writes have the same key only if the
// policies see the same. It returns false for a write whose decision is not kept.
func (k *keyWriter) write(req Request, g *group) bool {
	spec, base := specOf(req.Object)
	if spec == nil {
		return false
	}
	k.buffer = k.buffer[:0]
	k.text(base)
	k.text(req.Namespace)
	k.text(req.User)
	k.texts(req.Groups)
	k.text(string(req.GeneratedBy))
	k.truth(req.DryRun)
	k.truth(absent(req.Old))
	named := g.all.any(fieldNamed("name"))
	k.truth(named)
	if named {
		k.text(req.Name)
	}
	if req.Facts != nil {
		k.labels(req.Facts.NamespaceLabels(req.Namespace))
	}
	if !k.world(req) {
		return false
	}
	old, _ := specOf(req.Old)
	return k.spec(spec) && (old == nil || k.spec(old))
}

// spec writes a specification: its protocol buffer is one to one and always the same.
func (k *keyWriter) spec(spec *resourceapi.ResourceClaimSpec) bool {
	size := spec.Size()
	k.buffer = binary.AppendUvarint(k.buffer, uint64(size))
	end := len(k.buffer)
	k.buffer = slices.Grow(k.buffer, size)[:end+size]
	_, err := spec.MarshalToSizedBuffer(k.buffer[end:])
	return err == nil
}

// keyWriter writes values that cannot be confused: each with its length.
type keyWriter struct{ buffer []byte }

var keyWriters = sync.Pool{New: func() any { return &keyWriter{make([]byte, 0, 4096)} }}

func (k *keyWriter) text(s string) {
	k.buffer = append(binary.AppendUvarint(k.buffer, uint64(len(s))), s...)
}

func (k *keyWriter) texts(all []string) {
	k.buffer = binary.AppendUvarint(k.buffer, uint64(len(all)))
	for _, s := range all {
		k.text(s)
	}
}

func (k *keyWriter) truth(b bool) {
	if b {
		k.buffer = append(k.buffer, 1)
	} else {
		k.buffer = append(k.buffer, 0)
	}
}

func (k *keyWriter) labels(labels map[string]string) {
	k.buffer = binary.AppendUvarint(k.buffer, uint64(len(labels)))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		k.text(name)
		k.text(labels[name])
	}
}

// world writes what the cluster has of the classes and keys that the specification
// names. It returns false if that has no revision.
func (k *keyWriter) world(req Request) bool {
	spec, _ := specOf(req.Object)
	class := func(name string) bool {
		if req.World == nil {
			return true
		}
		class := req.World.Class(name)
		k.truth(class != nil)
		if class != nil {
			k.text(string(class.UID))
			k.text(class.ResourceVersion)
		}
		return class == nil || class.ResourceVersion != ""
	}
	key := func(name string) {
		if req.Facts != nil {
			known, sure := req.Facts.TaintKey(name)
			k.truth(known)
			k.truth(sure)
		}
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if request.Exactly != nil {
			if !class(request.Exactly.DeviceClassName) {
				return false
			}
			for _, t := range request.Exactly.Tolerations {
				key(t.Key)
			}
		}
		for j := range request.FirstAvailable {
			if !class(request.FirstAvailable[j].DeviceClassName) {
				return false
			}
			for _, t := range request.FirstAvailable[j].Tolerations {
				key(t.Key)
			}
		}
	}
	return true
}
