package mutate

import "testing"

// TestFrozen: a caller that changes a table does not change that of others.
func TestFrozen(t *testing.T) {
	wantFrozen(t, ResourceSlice)
	wantFrozen(t, DeviceTaintRule)
	wantFrozen(t, ResourceClaim)
	wantFrozen(t, ResourceClaimTemplate)
	wantFrozen(t, DeviceDrain)
}

func wantFrozen[T any](t *testing.T, table func() Table[T]) {
	t.Helper()
	all := table()
	first, one := all[0].ID, Default[T]{ID: "appended"}
	_ = append(all[:1], one)
	all[0] = one
	for i, of := range table() {
		if i == 0 && of.ID != first || of.ID == "appended" {
			t.Errorf("entry %d of %T is %s", i, all, of.ID)
		}
	}
}
