package policyload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// schemaSuffix is how the key of a JSON Schema ends.
const schemaSuffix = ".schema.json"

// Files are what ConfigMaps hold, with what comes from elsewhere: policies, and the
// schemas of opaque parameters. They come into force together.
type Files struct {
	Set *policy.Set
	// Schemas are folders of one file; of two for one kind the later one counts.
	Schemas []fs.FS
	hash    []byte
}

// addSchema adds a file that is no policy; file is its place for messages.
func (f *Files) addSchema(file, name, text string) error {
	if !strings.HasSuffix(name, schemaSuffix) {
		return policy.Problem{File: file, Message: "a key must be <name>.rego for a policy, <name>_test.rego for its tests, or <name>" + schemaSuffix + " for the parameters of a driver"}
	}
	if err := new(parameters.Library).Clone().Add([]byte(text)); err != nil {
		problem := policy.Problem{File: file, Message: "no schema of parameters: " + err.Error()}
		if syntax := (*json.SyntaxError)(nil); errors.As(json.Unmarshal([]byte(text), new(any)), &syntax) {
			before := text[:min(int(syntax.Offset), len(text))]
			problem.Line, problem.Column = 1+strings.Count(before, "\n"), max(1, len(before)-strings.LastIndex(before, "\n")-1)
			problem.Message = "no JSON: " + syntax.Error()
		}
		return problem
	}
	f.Schemas = append(f.Schemas, fstest.MapFS{name: {Data: []byte(text)}})
	sum := sha256.Sum256(fmt.Appendf(f.hash, "%q %q\n", file, text))
	f.hash = sum[:]
	return nil
}

// revision identifies the content.
func (f Files) revision() string {
	if len(f.Schemas) == 0 {
		return f.Set.Revision()
	}
	sum := sha256.Sum256(append([]byte(f.Set.Revision()), f.hash...))
	return hex.EncodeToString(sum[:])[:16]
}
