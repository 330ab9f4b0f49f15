package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// lockPatience is how long a lock may take before the waiting is reported.
const lockPatience = time.Second

// DefaultCache returns the folder for what is built: dra-steward in the user's
// cache folder (os.UserCacheDir).
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "dra-steward"), nil
}

// key names the cache's folder for everything that determines a build.
func (g *getter) key(toolchain string) string {
	hash := sha256.New()
	for _, part := range [][]byte{g.kube.mod, g.kube.sum, g.etcd.mod, g.etcd.sum,
		[]byte(toolchain), []byte(runtime.GOOS), []byte(runtime.GOARCH), []byte(ldflags(g.kubernetes))} {
		fmt.Fprintf(hash, "%d\n%s\n", len(part), part)
	}
	return g.kubernetes + "-" + hex.EncodeToString(hash.Sum(nil))[:12]
}

// fromCache returns the cache's folder, in which the named binaries then are.
func (g *getter) fromCache(ctx context.Context, names []string) (string, error) {
	if err := os.MkdirAll(g.cache, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	toolchain, err := goVersion(ctx, g.cache)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(g.cache, g.key(toolchain))
	if len(absent(dir, names)) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	unlock, err := g.lock(ctx, dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if names = absent(dir, names); len(names) == 0 {
		g.log.printf("the other process has built everything")
		return dir, nil
	}
	return dir, g.fill(ctx, dir, names)
}

// fill builds the named binaries in a temporary folder beside dir and moves
// each into dir. The caller holds the lock.
func (g *getter) fill(ctx context.Context, dir string, names []string) error {
	removeAbandoned(dir)
	temp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".build-")
	if err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer os.RemoveAll(temp)
	holder := fmt.Sprintf("process %d, which builds %s since %s", os.Getpid(), strings.Join(names, ", "), time.Now().Format("15:04:05"))
	if err := os.WriteFile(holderFile(dir), []byte(holder), 0o644); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer os.Remove(holderFile(dir))
	if err := g.build(ctx, buildRequest{release: g.release, names: names, temp: temp, log: g.log}); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(temp, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("moving a new binary into the cache: %w", err)
		}
	}
	return nil
}

// lock takes the lock of a cache folder and says so when it has to wait.
func (g *getter) lock(ctx context.Context, dir string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	done := make(chan result)
	go func() {
		unlock, err := lockedfile.MutexAt(dir + ".lock").Lock()
		select {
		case done <- result{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	patience := time.NewTimer(lockPatience)
	defer patience.Stop()
	for {
		select {
		case r := <-done:
			if r.err != nil {
				return nil, fmt.Errorf("locking %s.lock: %w", dir, r.err)
			}
			return r.unlock, nil
		case <-patience.C:
			g.log.printf("waiting for %s", holderOf(dir))
			patience.Reset(30 * time.Second)
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", holderOf(dir), ctx.Err())
		}
	}
}

func holderFile(dir string) string { return dir + ".holder" }

func holderOf(dir string) string {
	holder, err := os.ReadFile(holderFile(dir))
	if err != nil || len(holder) == 0 {
		return "another process that holds " + dir + ".lock"
	}
	return string(holder)
}

// absent returns those of names that are not in dir.
func absent(dir string, names []string) []string {
	var missing []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	return missing
}

// removeAbandoned removes what builds that were killed have left beside dir.
func removeAbandoned(dir string) {
	left, err := filepath.Glob(dir + ".build-*")
	if err != nil {
		return
	}
	for _, path := range left {
		os.RemoveAll(path)
	}
}
