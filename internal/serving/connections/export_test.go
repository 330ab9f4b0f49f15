package connections

// Held is what connections hold that are open, and that end.
func (a *Account) Held() (used, ending int64) { return a.used, a.ending }

// HeldBy is what an address holds.
func (a *Account) HeldBy(address string) int64 {
	if h := a.holders[address]; h != nil {
		return h.held
	}
	return 0
}
