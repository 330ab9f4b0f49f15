package materialize

import "time"

// The times of an answer of the API server from which a [window] opens or closes.
const (
	fastAnswer = 300 * time.Millisecond
	slowAnswer = time.Second
	// mostAtOnce is the largest number of pools that are updated concurrently.
	mostAtOnce = 8
)

// A window is how many pools may be updated concurrently. It grows by one for each round of
// fast answers and halves with a slow or failed one, like the congestion window of TCP, so
// that updates leave a busy API server alone. The zero value allows one.
type window struct{ size float64 }

func (w *window) allows() int { return max(1, int(w.size)) }

// answered takes an answer into account.
func (w *window) answered(a answer) {
	w.size = max(w.size, 1)
	switch {
	case a.failed || a.took > slowAnswer:
		w.size = max(1, w.size/2)
	case a.took < fastAnswer:
		w.size = min(mostAtOnce, w.size+1/w.size)
	}
}
