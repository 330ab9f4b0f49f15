package app

import (
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/webhook"
)

// decisionFlags are those of the log of decisions.
func decisionFlags(f *pflag.FlagSet, s *webhook.DecisionSettings) {
	f.Float64Var(&s.Denied, "log-denied", 1, "part of the denied requests that is logged, 0 (none) to 1 (all)")
	f.Float64Var(&s.Warned, "log-warned", 0.1, "part of the requests with warnings that is logged, 0 (none) to 1 (all)")
	f.Float64Var(&s.PerSecond, "log-decisions-per-second", 50, "most denials and warnings logged per second; 0 is no limit")
}
