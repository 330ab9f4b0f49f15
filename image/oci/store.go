package oci

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

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
