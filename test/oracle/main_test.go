package oracle_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"
)

// processContext lives as long as the tests: the oracles end with it.
var processContext context.Context

// all says that the oracles of the older minors are wanted too.
var all = os.Getenv("DRA_STEWARD_ORACLE") == "all"

func TestMain(m *testing.M) {
	ctx, stop := context.WithCancel(context.Background())
	processContext = ctx
	code := m.Run()
	stop()
	os.Exit(code)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
