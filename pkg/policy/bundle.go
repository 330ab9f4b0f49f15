package policy

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// maxBundle bounds what a bundle holds once it is unpacked.
const maxBundle = 32 << 20

// Bundle reads a bundle of OPA, a gzipped tarball as "opa build" writes it. Its data are
// refused: policies see their input alone.
func Bundle(r io.Reader) (fs.FS, error) {
	read, err := bundle.NewReader(r).WithSkipBundleVerification(true).WithProcessAnnotations(true).
		WithCapabilities(capabilities()).WithSizeLimitBytes(maxBundle).Read()
	if err != nil {
		return nil, err
	}
	if len(read.Data) > 0 {
		return nil, fmt.Errorf("the bundle has data; policies see their input alone: make parameters of them")
	}
	files := fstest.MapFS{}
	for _, module := range read.Modules {
		files[strings.TrimPrefix(module.Path, "/")] = &fstest.MapFile{Data: module.Raw}
	}
	return files, nil
}
