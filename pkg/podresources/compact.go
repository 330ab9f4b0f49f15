package podresources

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Numbers of fields of the PodResources API, from an answer down to the devices of a claim.
const (
	podField         = protowire.Number(1) // of an answer
	nameField        = protowire.Number(1) // of a pod
	namespaceField   = protowire.Number(2)
	containerField   = protowire.Number(3)
	claimField       = protowire.Number(5) // of a container
	deviceField      = protowire.Number(4) // of a claim
	driverNameField  = protowire.Number(2) // of a device
	lastNamesOfField = protowire.Number(5) // driver, pool, device and share
)

// A listAnswer is the kubelet's answer about all pods, without the devices that it repeats.
type listAnswer struct {
	v1.ListPodResourcesResponse
	bytes   int
	largest types.NamespacedName
}

// A compactCodec leaves out of the kubelet's answers what they repeat (kubernetes#141335) before it decodes them:
// a decoded answer takes up to six times its size. The first of equal devices stays, which has no CDI ids of
// the others that were added later.
type compactCodec struct{ encoding.CodecV2 }

func newCompactCodec() compactCodec {
	return compactCodec{encoding.GetCodecV2(protocodec.Name)}
}

// Unmarshal implements encoding.CodecV2.
func (c compactCodec) Unmarshal(data mem.BufferSlice, v any) error {
	answer, isList := v.(*listAnswer)
	message, isMessage := v.(proto.Message)
	if _, isPod := v.(*v1.GetPodResourcesResponse); !isMessage || !isList && !isPod {
		return c.CodecV2.Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	content := buffer.ReadOnlyData()
	if isList {
		message, answer.bytes, answer.largest = &answer.ListPodResourcesResponse, len(content), largestPod(content)
	}
	return proto.Unmarshal(compacted(content, podField, containerField, claimField, deviceField), message)
}

// compacted returns a message without equal devices. The path leads to these; what is not a message stays as it
// is, for the decoder to report.
func compacted(message []byte, path ...protowire.Number) (compact []byte) {
	seen := map[string]bool{}
	var names []byte
	for number, field := range fields(message) {
		content, isMessage := contentOf(field)
		if number != path[0] || !isMessage {
			compact = append(compact, field...)
			continue
		}
		if len(path) > 1 {
			compact = protowire.AppendTag(compact, number, protowire.BytesType)
			compact = protowire.AppendBytes(compact, compacted(content, path[1:]...))
			continue
		}
		if names = appendNames(names[:0], content); !seen[string(names)] {
			seen[string(names)] = true
			compact = append(compact, field...)
		}
	}
	return compact
}

// appendNames appends what distinguishes a device from others.
func appendNames(names, device []byte) []byte {
	for number, field := range fields(device) {
		if number >= driverNameField && number <= lastNamesOfField {
			names = append(names, field...)
		}
	}
	return names
}

// largestPod returns the pod that most of an answer is about.
func largestPod(answer []byte) (largest types.NamespacedName) {
	most := -1
	for number, field := range fields(answer) {
		pod, isMessage := contentOf(field)
		if number != podField || !isMessage || len(pod) <= most {
			continue
		}
		most, largest = len(pod), types.NamespacedName{}
		for number, field := range fields(pod) {
			text, _ := contentOf(field)
			switch number {
			case nameField:
				largest.Name = string(text)
			case namespaceField:
				largest.Namespace = string(text)
			}
		}
	}
	return largest
}

// fields yields the fields of a message, with their tags. What is after a field that cannot be read comes as
// one of number 0.
func fields(message []byte) func(yield func(protowire.Number, []byte) bool) {
	return func(yield func(protowire.Number, []byte) bool) {
		for len(message) > 0 {
			number, _, n := protowire.ConsumeField(message)
			if n < 0 {
				yield(0, message)
				return
			}
			if !yield(number, message[:n]) {
				return
			}
			message = message[n:]
		}
	}
}

// contentOf returns the content of a field that has a length: of a message or a text.
func contentOf(field []byte) ([]byte, bool) {
	_, kind, n := protowire.ConsumeTag(field)
	if n < 0 || kind != protowire.BytesType {
		return nil, false
	}
	content, n := protowire.ConsumeBytes(field[n:])
	return content, n >= 0
}
