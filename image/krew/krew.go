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

	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/tools/build"
	"github.com/dra-steward/dra-steward/tools/krew"
)

// Write writes an archive for each platform and the manifest into the folder. The same files
// and stamp give the same archives.
func Write(dir string, stamp build.Stamp, platforms []rootfs.Platform) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release := krew.Release{Version: stamp.Version}
	for _, p := range platforms {
		of := krew.Archive{OS: p.OS, Arch: p.Arch}
		data, err := archive(p.Dir, of.Binary(), stamp.Time)
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

// archive packs the program under its name as a plugin, and the other files of a rootfs.
func archive(dir, binary string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, file := range []struct {
		from, to string
		mode     int64
	}{
		{rootfs.Program, binary, 0o755}, {rootfs.License, rootfs.License, 0o644},
		{rootfs.ThirdParty, rootfs.ThirdParty, 0o644}, {rootfs.Bill, rootfs.Bill, 0o644},
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
