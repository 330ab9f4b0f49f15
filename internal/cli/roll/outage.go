package roll

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// patience is how long the command tries again while the API server is away.
const patience = 5 * time.Minute

// An outage is the time since a request first failed.
type outage struct {
	patience time.Duration
	since    time.Time
}

// over returns the error of a request that is not worth another try, nil otherwise.
func (a *outage) over(streams cmdutil.Streams, err error, now time.Time) error {
	switch {
	case err == nil:
		a.since = time.Time{}
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return err
	case a.since.IsZero() && a.patience > 0:
		a.since = now
		printable.Printf(streams.Err, "warning: %v; trying again for up to %s\n", err, a.patience)
	case now.Sub(a.since) >= a.patience:
		return err
	}
	return nil
}
