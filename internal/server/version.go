package server

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// How often the API server is asked for its version: a control plane is upgraded while
// webhooks go on.
const (
	askAgain   = 5 * time.Minute
	askQuickly = 5 * time.Second
)

// serverVersion is what the API server says of itself.
type serverVersion struct {
	client discovery.ServerVersionInterface
	known  atomic.Int32
}

// minor returns the minor of Kubernetes 1, 0 while it is not known or one that the rules
// do not know.
func (v *serverVersion) minor() int { return int(v.known.Load()) }

// run keeps the version up to date until ctx ends.
func (v *serverVersion) run(ctx context.Context) {
	for {
		again := askQuickly
		if info, err := v.client.ServerVersion(); err == nil {
			v.known.Store(int32(minorOf(info)))
			again = askAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// minorOf returns the minor that a server behaves like, 0 if the rules do not know it.
// One that was built without the numbers still has the name of its version.
func minorOf(info *version.Info) int {
	name := info.GitVersion
	if minor := strings.TrimRight(cmp.Or(info.EmulationMinor, info.Minor), "+"); minor != "" {
		name = info.Major + "." + minor
	}
	v, err := utilversion.ParseGeneric(name)
	if err != nil || v.Major() != 1 || v.Minor() < apiserver.OldestMinor || v.Minor() > apiserver.NewestMinor {
		return 0
	}
	return int(v.Minor())
}
