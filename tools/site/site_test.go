package site

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

const (
	tree   = "../.."
	source = "https://github.com/dra-steward/dra-steward/blob/main/"
)

// A page is what the test looks at in a file of the site.
type page struct {
	ids, links, loads []string
	text              string
}

// build makes the site as make docs does, and returns its folder and pages by path.
func build(t *testing.T, settings ...string) (dir string, pages map[string]page) {
	t.Helper()
	dir = t.TempDir()
	command := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-C", tree, "docs", "SITE=" + dir}, settings...)...)
	if out, err := command.CombinedOutput(); err != nil || bytes.Contains(out, []byte("WARN")) {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	pages = map[string]page{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		root, err := html.Parse(bytes.NewReader(text))
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		pages[filepath.ToSlash(relative)] = read(root, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, pages
}

func read(root *html.Node, text string) page {
	p := page{text: text}
	for node := range root.Descendants() {
		for _, a := range node.Attr {
			switch {
			case a.Key == "id":
				p.ids = append(p.ids, a.Val)
			case a.Key == "href" && node.Data == "a":
				p.links = append(p.links, a.Val)
			case slices.Contains([]string{"href", "src", "srcset", "data", "action", "poster"}, a.Key):
				p.loads = append(p.loads, a.Val)
			}
		}
	}
	return p
}

// TestSite: every page of the repository for users is in the site and can be reached from its
// first page, and each link leads to a page with that heading, or to a file of the repository.
func TestSite(t *testing.T) {
	dir, pages := build(t)
	leads := map[string][]string{}
	for name, p := range pages {
		for _, link := range p.links {
			if to := follow(t, name, link, pages); to != "" {
				leads[name] = append(leads[name], to)
			}
		}
		for _, load := range p.loads {
			u, err := url.Parse(load)
			if err != nil || u.Scheme != "" || u.Host != "" {
				t.Errorf("%s loads %s, which is not of this site", name, load)
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, path.Join(path.Dir(name), u.Path))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !strings.Contains(p.text, `content="default-src 'none'; script-src 'self';`) {
			t.Errorf("%s lets browsers load from other hosts", name)
		}
	}
	reached := map[string]bool{"index.html": true}
	for next := []string{"index.html"}; len(next) > 0; next = next[1:] {
		for _, to := range leads[next[0]] {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for file, name := range wanted(t) {
		if _, is := pages[name]; !is {
			t.Errorf("the site lacks %s, as %s", file, name)
		} else if !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
	wantSearch(t, dir, pages)
}

// TestVersions: every page of a site leads to the first page of each other version, below this site or elsewhere.
func TestVersions(t *testing.T) {
	more := filepath.Join(t.TempDir(), "versions.yaml")
	versions := "params:\n  versions:\n    - {name: next, url: ./}\n    - {name: v0.2, url: v0.2/}\n    - {name: v0.1, url: https://docs.example.com/v0.1/}\n"
	if err := os.WriteFile(more, []byte(versions), 0o600); err != nil {
		t.Fatal(err)
	}
	_, pages := build(t, "HUGO_FLAGS=--config hugo.yaml,"+more)
	for name, p := range pages {
		if !strings.Contains(p.text, "Version next") || !slices.Contains(p.links, "https://docs.example.com/v0.1/") {
			t.Errorf("%s lacks its version or the version elsewhere", name)
		}
		below := slices.ContainsFunc(p.links, func(link string) bool { return path.Join(path.Dir(name), link) == "v0.2" })
		if !below {
			t.Errorf("%s does not lead to the version below: %q", name, p.links)
		}
	}
}

// follow checks a link and returns the page that it leads to, if that is of the site.
func follow(t *testing.T, name, link string, pages map[string]page) string {
	t.Helper()
	u, err := url.Parse(link)
	switch {
	case err != nil:
		t.Errorf("%s: the link %s: %v", name, link, err)
	case strings.HasPrefix(link, source):
		if _, err := os.Stat(filepath.Join(tree, strings.TrimPrefix(u.Path, "/dra-steward/dra-steward/blob/main/"))); err != nil {
			t.Errorf("%s: the link %s: %v", name, link, err)
		}
	case u.Scheme != "":
	default:
		to := name
		if u.Path != "" {
			to = path.Join(path.Dir(name), u.Path)
			if !strings.HasSuffix(to, ".html") {
				to = path.Join(to, "index.html")
			}
		}
		p, is := pages[to]
		if !is {
			t.Errorf("%s: the link %s leads to no page", name, link)
			return ""
		}
		if u.Fragment != "" && !slices.Contains(p.ids, u.Fragment) {
			t.Errorf("%s: the link %s: %s has no such heading", name, link, to)
		}
		return to
	}
	return ""
}

// wanted are the pages of the site by the files of the repository.
func wanted(t *testing.T) map[string]string {
	t.Helper()
	want := map[string]string{}
	err := filepath.WalkDir(filepath.Join(tree, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		file, err := filepath.Rel(tree, name)
		want[filepath.ToSlash(file)] = strings.ToLower(strings.TrimSuffix(filepath.ToSlash(file), ".md")) + "/index.html"
		return err
	})
	if err != nil || len(want) < 40 {
		t.Fatalf("%d pages in docs, %v", len(want), err)
	}
	want["docs/tutorial.md"], want["README.md"], want["charts/dra-steward/README.md"] = "index.html", "readme/index.html", "charts/dra-steward/readme/index.html"
	return want
}

// wantSearch: the index has the text of every page, and the search finds one.
func wantSearch(t *testing.T, dir string, pages map[string]page) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct{ Title, URL, Text string }
	data := strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(string(text), "window.searchIndex = ")), ";")
	if err := json.Unmarshal([]byte(data), &index); err != nil {
		t.Fatal(err)
	}
	if len(index) != len(pages) {
		t.Errorf("the index has %d pages, the site %d", len(index), len(pages))
	}
	for _, entry := range index {
		if _, is := pages[path.Join(entry.URL, "index.html")]; !is || entry.Title == "" || strings.HasSuffix(entry.Title, ".md") || len(entry.Text) < 50 {
			t.Errorf("index: %q at %q with %d bytes of text", entry.Title, entry.URL, len(entry.Text))
		}
	}
	t.Run("search", func(t *testing.T) {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Skip("Node.js is not installed; with it, this test runs the script of the search")
		}
		script := `globalThis.window = {}; for (const name of ["search-index.js", "search.js"]) (0, eval)(require("fs").readFileSync(name, "utf8") + (name === "search.js" ? ";globalThis.find = find" : ""));
console.log(find(window.searchIndex, "circuit breaker supplement").some(hit => hit.page.url === "docs/eviction/"), find(window.searchIndex, "no-such-word-anywhere").length, find(window.searchIndex, " ").length)`
		command := exec.CommandContext(t.Context(), node, "-e", script)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil || string(out) != "true 0 0\n" {
			t.Errorf("search: %v\n%s", err, out)
		}
	})
}
