package webhook

import "sync"

// maxOverruns is how many checks may go on after their deadline without a slot.
const maxOverruns = 64

// overruns are the checks that go on after their deadline. Each gives its slot back, so that
// the requests of others are checked; who has one running gets no slot until it ends.
type overruns struct {
	mu      sync.Mutex
	holders map[holder]int
	running int
}

// A holder is who shares slots of a class with others.
type holder struct {
	class  class
	tenant string
}

// begin counts a check, unless there are too many.
func (o *overruns) begin(h holder) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running >= maxOverruns {
		return false
	}
	if o.holders == nil {
		o.holders = map[holder]int{}
	}
	o.running++
	o.holders[h]++
	return true
}

func (o *overruns) end(h holder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running--
	if o.holders[h]--; o.holders[h] == 0 {
		delete(o.holders, h)
	}
}

// has reports whether a check of a holder goes on.
func (o *overruns) has(h holder) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holders[h] > 0
}

// A slot is that of one request. Nil is none.
type slot struct {
	overruns *overruns
	holder   holder
	release  func()
	overran  bool
}

// overrun gives the slot back before the check ends. It is not called at the same time as end.
func (s *slot) overrun() {
	if s == nil || s.overran || !s.overruns.begin(s.holder) {
		return
	}
	s.overran = true
	s.release()
}

// end is called when the check has ended.
func (s *slot) end() {
	if s.overran {
		s.overruns.end(s.holder)
		return
	}
	s.release()
}
