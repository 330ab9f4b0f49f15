package config_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/config"
)

// mount is a folder as the kubelet mounts a ConfigMap: the file is a link into a folder
// that is a link.
type mount struct {
	t       *testing.T
	dir     string
	version string
}

// put changes the content as the kubelet does, in one step.
func (m *mount) put(text string) {
	m.t.Helper()
	folder, err := os.MkdirTemp(m.dir, "..2026_")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(text), 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Base(folder), filepath.Join(m.dir, "..data_tmp"))
	}
	if err == nil {
		err = os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data"))
	}
	if m.version == "" && err == nil {
		err = os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(m.dir, "config.yaml"))
	} else if err == nil {
		err = os.RemoveAll(m.version)
	}
	if m.version = folder; err != nil {
		m.t.Fatal(err)
	}
}

// TestWatch sees both a mounted ConfigMap that changes and a file that is written.
func TestWatch(t *testing.T) {
	mounted := &mount{t: t, dir: t.TempDir()}
	mounted.put("0")
	plain := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		if err := os.WriteFile(plain, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0")
	for path, put := range map[string]func(string){filepath.Join(mounted.dir, "config.yaml"): mounted.put, plain: write} {
		ctx, stop := context.WithCancel(t.Context())
		seen, done := make(chan string, 100), make(chan bool)
		go func() {
			defer close(done)
			config.Watch(ctx, path, func() {
				data, _ := os.ReadFile(path)
				seen <- string(data)
			}, func(err error) { t.Error(err) })
		}()
		for _, text := range []string{"1", "2", "3"} {
			put(text)
			for last := ""; last != text; {
				select {
				case last = <-seen:
				case <-time.After(9 * time.Second): // less than it takes to look unasked
					t.Fatalf("%s: the change to %s was not seen", path, text)
				}
			}
		}
		stop()
		<-done
	}
}

// TestWatchNothing: a folder that is not there is told of, and ctx ends the watch.
func TestWatchNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	failed := false
	config.Watch(ctx, filepath.Join(t.TempDir(), "missing", "config.yaml"), stop, func(error) { failed = true })
	if !failed {
		t.Error("the missing folder was not told of")
	}
}
