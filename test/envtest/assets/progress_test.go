package assets

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress reports the packages of a build as time passes. The estimate follows the
// pace, and comes from a tenth of the packages on.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		stop := p.every(10*time.Second, "etcd")
		p.phase("downloading modules")
		advance := func(packages int, d time.Duration) {
			for range packages {
				p.compiled([]byte("example.com/a"))
			}
			p.compiled([]byte("go: a message"))
			<-time.After(d)
			synctest.Wait()
		}
		advance(0, 11*time.Second)
		p.compiling(100)
		advance(9, 10*time.Second)
		advance(11, 10*time.Second)
		advance(70, 10*time.Second)
		advance(10, 10*time.Second)
		stop()
		want := strings.Join([]string{
			"envtest: etcd: downloading modules, 10s so far",
			"envtest: etcd: 9 of 100 packages compiled, 20s so far",
			"envtest: etcd: 20 of 100 packages compiled, 30s so far, about 1 min left",
			"envtest: etcd: 90 of 100 packages compiled, 40s so far, less than a minute left",
			"envtest: etcd: all 100 packages compiled, linking, 50s so far",
		}, "\n") + "\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
}

// TestToCompile counts what is compiled, not what the build cache has.
func TestToCompile(t *testing.T) {
	const stale = "\nbuild ID mismatch\n\nstale dependency: internal/cpu\nnot installed but available in build cache\n"
	if n := toCompile([]byte(stale)); n != 2 {
		t.Errorf("%d packages, want 2", n)
	}
}
