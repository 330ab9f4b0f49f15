package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/memory/sizedcache"
)

// maxKey is the size of the largest input whose decision is kept. A larger one is hardly
// written twice.
const maxKey = 32 << 10

// digest identifies an input: two inputs with the same digest are the same.
type digest [sha256.Size]byte

// decisions are the known ones, by the digest of all that they depend on.
type decisions struct {
	known *sizedcache.Cache[digest, Decision]
}

func newDecisions(maxBytes int64) *decisions {
	return &decisions{sizedcache.New[digest, Decision](maxBytes)}
}

func (d *decisions) get(key digest) (Decision, bool) {
	decision, found := d.known.Get(key)
	decision.Cached = found
	return decision, found
}

func (d *decisions) add(key digest, decision Decision) {
	d.known.Add(key, decision, int64(len(key))+decision.size())
}

// size is the memory that a decision takes, in bytes.
func (d *Decision) size() int64 {
	const violation, message, text = 176, 80, 16
	size := int64(96 + len(d.Violations)*violation + len(d.Messages)*message)
	for i := range d.Violations {
		v := &d.Violations[i]
		size += int64(len(v.Message) + len(v.Hint))
		for _, list := range [][]string{v.Allowed, v.Paths} {
			for _, one := range list {
				size += int64(text + len(one))
			}
		}
	}
	for i := range d.Messages {
		size += int64(len(d.Messages[i].Path) + len(d.Messages[i].Message))
	}
	return size
}

// keyOf returns the key of everything that a decision about a claim or template depends
// on, apart from policies and settings, which belong to the engine: two writes have the
// same key only if the policies see the same. It returns false for a write whose decision
// is not kept.
func keyOf(req Request, g *group) (digest, bool) {
	k, is := keyWriters.Get().(*keyWriter)
	if !is {
		return digest{}, false
	}
	defer keyWriters.Put(k)
	if !k.write(req, g) || len(k.buffer) > maxKey {
		return digest{}, false
	}
	return sha256.Sum256(k.buffer), true
}

func (k *keyWriter) write(req Request, g *group) bool {
	spec, base := specOf(req.Object)
	old, _ := specOf(req.Old)
	k.buffer = k.buffer[:0]
	k.truth(old == nil)
	if spec == nil || !k.spec(spec) || old != nil && !k.spec(old) {
		return false
	}
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
	if req.ClusterData != nil {
		k.labels(req.ClusterData.NamespaceLabels(req.Namespace))
	}
	return k.world(req)
}

// spec writes a specification: its protocol buffer is one to one and always the same. It
// returns false if that is too long.
func (k *keyWriter) spec(spec *resourceapi.ResourceClaimSpec) bool {
	size := spec.Size()
	if size > maxKey {
		return false
	}
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

// clusterView writes what the cluster has of the classes and keys that the specification
// names. It returns false if that has no revision.
func (k *keyWriter) world(req Request) bool {
	spec, _ := specOf(req.Object)
	class := func(name string) bool {
		if req.ClusterView == nil {
			return true
		}
		class := req.ClusterView.Class(name)
		k.truth(class != nil)
		if class != nil {
			k.text(string(class.UID))
			k.text(class.ResourceVersion)
		}
		return class == nil || class.ResourceVersion != ""
	}
	key := func(name string) {
		if req.ClusterData != nil {
			known, sure := req.ClusterData.TaintKey(name)
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
