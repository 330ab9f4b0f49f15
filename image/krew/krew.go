// Package krew writes the archives from which krew installs dra-steward as a plugin of
// kubectl, and their manifest.
package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/dra-steward/dra-steward/image/root"
	"github.com/dra-steward/dra-steward/tools/build"
	"github.com/dra-steward/dra-steward/tools/krew"
)

// A Platform is the program for one platform: Root is the folder that package root wrote.
type Platform struct {
	OS, Arch, Root string
}

// Write writes an archive for each platform and the manifest into the folder. The same files
// and stamp give the same archives.
func Write(dir string, stamp build.Stamp, platforms []Platform) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release := krew.Release{Version: stamp.Version}
	for _, p := range platforms {
		of := krew.Archive{OS: p.OS, Arch: p.Arch}
		data, err := archive(p.Root, of.Binary(), stamp.Time)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		of.SHA256 = hex.EncodeToString(sum[:])
		release.Archives = append(release.Archives, of)
		if err := os.WriteFile(filepath.Join(dir, of.Name()), data, 0o644); err != nil {
			return err
		}
	}
	manifest, err := krew.Manifest(release)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, krew.File), manifest, 0o644)
}

// archive packs the program under its name as a plugin, and the other files of a root.
func archive(dir, binary string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, file := range []struct {
		from, to string
		mode     int64
	}{
		{root.Program, binary, 0o755}, {root.License, root.License, 0o644},
		{root.ThirdParty, root.ThirdParty, 0o644}, {root.Bill, root.Bill, 0o644},
	} {
		data, err := os.ReadFile(filepath.Join(dir, file.from))
		if err != nil {
			return nil, err
		}
		if err := packed.WriteHeader(&tar.Header{Name: file.to, Mode: file.mode, Size: int64(len(data)), ModTime: at}); err != nil {
			return nil, err
		}
		if _, err := packed.Write(data); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
