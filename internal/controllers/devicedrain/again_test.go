package devicedrain_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/drain"
)

// TestDrainAgain: a drain that is created again after its type was deleted replaces the rules that were
// kept of its devices, when its own are in force. Those of devices that it has not stay. Deleting it
// puts its devices back into use.
func TestDrainAgain(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %v", running), func(t *testing.T) {
			inPlane(t, func(p *plane) {
				p.drain("firmware", 3, nil)
				p.pass(20 * time.Second)
				if !running {
					p.stop()
				}
				p.do(func() {
					p.sources["drains"].Delete(p.drains["firmware"].DeepCopy())
					delete(p.drains, "firmware")
					p.definition.SetCreationTimestamp(metav1.NewTime(time.Now().Add(time.Second)))
				})
				if !running {
					p.start()
				}
				p.pass(time.Minute)
				p.drain("firmware", 2, nil)
				again := p.get("firmware").UID
				p.pass(5 * time.Second)
				p.rulesAre("while the scheduler observes the rules", again, 3, 2)
				p.pass(time.Minute)
				p.rulesAre("later", again, 1, 2)
				p.do(func() {
					p.sources["drains"].Delete(p.drains["firmware"].DeepCopy())
					delete(p.drains, "firmware")
				})
				p.pass(time.Minute)
				p.rulesAre("when it is deleted", again, 1, 0)
			})
		})
	}
}

// rulesAre expects so many rules of previous drains, and of the present one.
func (p *plane) rulesAre(when string, present types.UID, previous, own int) {
	p.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var gotPrevious, gotOwn int
	for _, rule := range p.rules {
		if _, uid := drain.OwnerOf(rule); uid == present {
			gotOwn++
		} else {
			gotPrevious++
		}
	}
	if gotPrevious != previous || gotOwn != own {
		p.Errorf("%s: %d rules of previous drains and %d of the present one, want %d and %d", when, gotPrevious, gotOwn, previous, own)
	}
}
