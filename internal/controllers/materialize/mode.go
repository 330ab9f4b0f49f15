package materialize

import "fmt"

// A Mode is how ResourceSlicePatches are written into slices.
type Mode string

const (
	// None leaves slices alone, but for those that still hold a value of ours, which are
	// restored when they are written.
	None Mode = "none"
	// Materialize writes patches into slices.
	Materialize Mode = "materialize"
	// Restore takes back what was written.
	Restore Mode = "restore"
)

// Validate refuses what is no mode; empty is None.
func (m Mode) Validate() error {
	switch m {
	case "", None, Materialize, Restore:
		return nil
	}
	return fmt.Errorf("--patches %q: must be %s, %s or %s", m, None, Materialize, Restore)
}
