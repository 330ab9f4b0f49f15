package guard

import (
	"strings"
	"time"
)

// A Step is an eviction that a controller is about to begin.
type Step struct {
	// Object is what evicts, such as "DeviceDrain gpu", and Does how a message names that, such as "a
	// drain of node-1".
	Object, Does string
	Hit          Hit
	// Acknowledged is what the object of the controller acknowledges, nil for nothing, and Annotate
	// its name, such as "the roll".
	Acknowledged *Ceiling
	Annotate     string
}

// Refuse asks the thresholds about a step of a controller, by itself and with the evictions of the
// window. It returns why the step may not begin, empty if it may, and when it may if waiting helps.
func (w Window) Refuse(now time.Time, s Step, starts []Start) (why string, until time.Time) {
	counts := Counts{Devices: len(s.Hit.Devices), Claims: len(s.Hit.Claims), Pods: len(s.Hit.Pods), Namespaces: s.Hit.Namespaces()}
	if excess := w.Thresholds.Exceeded(counts, s.Acknowledged); len(excess) > 0 {
		var texts []string
		for _, e := range excess {
			texts = append(texts, e.String())
		}
		return s.Does + " evicts too many pods: " + strings.Join(texts, ", ") + "; if this is intended, annotate " + s.Annotate + " with " + CeilingOf(counts).Annotate(), time.Time{}
	}
	if sum, exceeds := w.Exceeds(now, s.Hit, s.Acknowledged, starts); exceeds {
		return s.Does + ", " + sum.String(), sum.Until
	}
	return "", time.Time{}
}
