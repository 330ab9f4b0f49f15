package evictor_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/evictor"
)

func ExampleDecide() {
	w := one(ptr.To(metav1.NewTime(start)), tolerate("NoExecute", ptr.To[int64](300)))
	verdict := evictor.Decide(w.claims["ns/claim"], w, evictor.Settings{}, start)
	fmt.Println(verdict.Explain(start))
	// Output:
	// evicted at 2026-03-01T12:05:00Z, in 5m0s
	// - device gpu.example.com/node/gpu-0 has taint example.com/broken=xid-79:NoExecute of the driver, and claim ns/claim tolerates it for 300s: due 2026-03-01T12:05:00Z
}
