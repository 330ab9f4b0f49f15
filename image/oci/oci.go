// Package oci makes the images of the programs without a container engine.
package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/tools/build"
)

// User is that of the container: it has no name and no rights.
const User = "65532:65532"

// BillType is the media type of the bills of materials that are attached to images.
const BillType = "application/vnd.cyclonedx+json"

// An Image is the image of a program for several platforms.
type Image struct {
	Index v1.ImageIndex
	// Bills are the bills of materials. Each refers to the image of a platform.
	Bills []v1.Image
}

// Source is the repository that images name.
const Source = "https://github.com/dra-steward/dra-steward"

// New makes the image of a program: for the same folders and stamp the same digests.
func New(program string, stamp build.Stamp, platforms []rootfs.Platform) (*Image, error) {
	about := annotations(program, stamp)
	made := &Image{Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, p := range platforms {
		image, err := imageOf(p, about, stamp.Time)
		if err != nil {
			return nil, fmt.Errorf("image of %s for %s/%s: %w", program, p.OS, p.Arch, err)
		}
		bill, err := billOf(p, image, about)
		if err != nil {
			return nil, fmt.Errorf("bill of materials of %s for %s/%s: %w", program, p.OS, p.Arch, err)
		}
		made.Bills = append(made.Bills, bill)
		made.Index = mutate.AppendManifests(made.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	made.Index = mutate.Annotations(made.Index, about).(v1.ImageIndex)
	return made, nil
}

// annotations are those of the Open Container Initiative.
func annotations(program string, stamp build.Stamp) map[string]string {
	about := map[string]string{
		"org.opencontainers.image.title":    program,
		"org.opencontainers.image.version":  stamp.Version,
		"org.opencontainers.image.source":   Source,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if stamp.Commit != "" {
		about["org.opencontainers.image.revision"] = stamp.Commit
	}
	if !stamp.Time.IsZero() {
		about["org.opencontainers.image.created"] = stamp.Time.UTC().Format(time.RFC3339)
	}
	return about
}

// imageOf has one layer with the files of the folder.
func imageOf(p rootfs.Platform, about map[string]string, created time.Time) (v1.Image, error) {
	files, err := pack(p.Dir, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "dra-steward image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: created}
	config.Config = v1.Config{User: User, Entrypoint: []string{"/program"}, Labels: about}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, about).(v1.Image), nil
}

// billOf is an artifact with the bill of materials in the folder, which refers to the image.
func billOf(p rootfs.Platform, image v1.Image, about map[string]string) (v1.Image, error) {
	data, err := os.ReadFile(filepath.Join(p.Dir, rootfs.Bill))
	if err != nil {
		return nil, err
	}
	subject, err := descriptor(image)
	if err != nil {
		return nil, err
	}
	bill := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), BillType)
	bill, err = mutate.Append(bill, mutate.Addendum{Layer: static.NewLayer(data, BillType)})
	if err != nil {
		return nil, err
	}
	return mutate.Subject(mutate.Annotations(bill, about), *subject).(v1.Image), nil
}

func descriptor(image v1.Image) (*v1.Descriptor, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	size, err := image.Size()
	if err != nil {
		return nil, err
	}
	return &v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size}, nil
}

// pack writes the files of a folder as tar. Nothing of the machine is in it: neither users nor
// times.
func pack(root string, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := int64(0o444)
		if info.Mode()&0o100 != 0 {
			mode = 0o555
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.ReplaceAll(relative, string(filepath.Separator), "/"), Size: int64(len(data)), Mode: mode, ModTime: modified, Format: tar.FormatPAX}
		if err := files.WriteHeader(header); err != nil {
			return err
		}
		_, err = files.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Bytes(), files.Close()
}

// Push writes the image and its bills of materials to a registry, and returns the reference by
// digest. The credentials are those of docker login.
func (i *Image) Push(ctx context.Context, to string, options ...remote.Option) (string, error) {
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return "", err
	}
	options = append([]remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}, options...)
	if err := remote.WriteIndex(tag, i.Index, options...); err != nil {
		return "", fmt.Errorf("push %s: %w", tag, err)
	}
	for _, bill := range i.Bills {
		digest, err := bill.Digest()
		if err != nil {
			return "", err
		}
		if err := remote.Write(tag.Context().Digest(digest.String()), bill, options...); err != nil {
			return "", fmt.Errorf("push the bill of materials of %s: %w", tag, err)
		}
	}
	digest, err := i.Index.Digest()
	return tag.Context().Digest(digest.String()).String(), err
}

// Save writes the image and its bills of materials into a folder in the layout of the Open
// Container Initiative. The image has the tag.
func (i *Image) Save(dir, tag string) error {
	folder, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	err = folder.AppendIndex(i.Index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}))
	for _, bill := range i.Bills {
		err = errors.Join(err, folder.AppendImage(bill))
	}
	return err
}

// Digest identifies the image with all its platforms.
func (i *Image) Digest() (v1.Hash, error) { return i.Index.Digest() }
