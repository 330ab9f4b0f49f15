package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Digest identifies what a policy says of a write: its text and that of the modules that
// policies import, and its mode and parameters in the cluster and in every namespace.
func (e *Engine) Digest(code string) string {
	own, _ := e.set.Policy(code)
	others := map[string]bool{}
	for _, policy := range e.set.policies {
		others[policy.File] = policy.Code != own.Code
	}
	hash := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(e.set.modules)) {
		if !others[file] {
			fmt.Fprintf(hash, "%q\n", e.set.texts[file])
		}
	}
	decided := map[string]any{"": e.scopes.cluster.decided(code)}
	for name, scope := range e.scopes.namespaces {
		decided[name] = scope.decided(code)
	}
	for i, override := range e.scopes.overrides {
		if override.Selector != nil {
			decided[fmt.Sprint(i, override.Selector)] = []any{override.Modes[code], override.Parameters[code]}
		}
	}
	_ = json.NewEncoder(hash).Encode([]any{e.disabled, decided}) // it was JSON before
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

func (s scope) decided(code string) any { return []any{s.modes[code], s.values[code]} }
