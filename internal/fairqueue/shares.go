package fairqueue

import "sync"

// Shares bound an amount that several holders use at the same time, such as bytes. Up to
// Limit everybody gets what it asks for. Beyond, a holder still gets its fair share, Limit
// divided by the number of holders, so that those who came first cannot keep it for
// themselves. All together never hold more than twice the Limit.
type Shares struct {
	Limit int64

	mu   sync.Mutex
	used int64
	held map[string]int64
}

// Take adds n to what a holder uses; false if that is too much now.
func (s *Shares) Take(holder string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	holders := int64(len(s.held))
	if s.held[holder] == 0 {
		holders++
	}
	if s.used+n > s.Limit && s.held[holder]+n > s.Limit/holders {
		return false
	}
	if s.held == nil {
		s.held = map[string]int64{}
	}
	s.used += n
	s.held[holder] += n
	return true
}

// Return gives back n of what a holder uses.
func (s *Shares) Return(holder string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.held[holder] -= n; s.held[holder] <= 0 {
		delete(s.held, holder)
	}
}
