package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A link is an address with its text. Without an address it is the text.
type link struct{ URL, Text string }

// links makes the addresses of pages: of a server, or of files.
type links struct {
	// files has the addresses that exist as files; nil is a server.
	files map[string]bool
}

// to is the address of a page with values: to "device" "driver" "a". It is empty for a page that
// does not exist as a file.
func (l links) to(name string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	address := "/" + name
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	if len(address) > maxURL { // names of the API server are shorter
		return ""
	}
	if l.files == nil {
		return address
	}
	if !l.files[address] {
		return ""
	}
	return fileOf(address)
}

// fileOf is the name of the file of an address.
func fileOf(address string) string {
	path, query, has := strings.Cut(strings.TrimPrefix(address, "/"), "?")
	if path == "" {
		path = "index"
	}
	if !has {
		return path + ".html"
	}
	sum := sha256.Sum256([]byte(query))
	return path + "-" + hex.EncodeToString(sum[:10]) + ".html"
}

// asset is the address of a style or script.
func (l links) asset(name string) string {
	if l.files != nil {
		return name
	}
	return "/static/" + name
}

func (l links) device(id usage.DeviceID) link {
	return link{l.to("device", "driver", id.Driver, "pool", id.Pool, "device", id.Device), id.String()}
}

func (l links) claim(namespace, name string) link {
	return link{l.to("claim", "namespace", namespace, "name", name), namespace + "/" + name}
}

func (l links) pod(namespace, name string) link {
	return link{l.to("pod", "namespace", namespace, "name", name), namespace + "/" + name}
}

func (l links) drain(name string) link { return link{l.to("drain", "name", name), name} }

// search is the address of the map with a query.
func (l links) search(query, group string) string {
	if l.files != nil {
		return ""
	}
	return l.to("", "q", query, "group", group)
}

// A navLink leads to a page; Here is true on the page itself.
type navLink struct {
	link
	Here bool
}

func (l links) nav(template, name, address, text string) navLink {
	here := template == name || template == strings.TrimSuffix(name, "s")
	return navLink{link{address, text}, here}
}
