package helmchart_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest/helmchart"
)

const chartYAML = "apiVersion: v2\nname: small\nversion: 1.0.0\n"

// folder writes a chart.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "given")
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// An entry is a file of an archive.
type entry struct {
	header tar.Header
	text   string
}

func archive(t *testing.T, entries ...entry) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	for _, e := range entries {
		e.header.Mode = 0o644
		if e.header.Typeflag == 0 {
			e.header.Typeflag, e.header.Size = tar.TypeReg, int64(len(e.text))
		}
		if err := writer.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "small-1.0.0.tgz")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func file(name, text string) entry { return entry{tar.Header{Name: name}, text} }

// TestPlacement: Helm 4, which renders here, leaves out the nulls of values.yaml, by which components have the placement of
// the webhook.
func TestPlacement(t *testing.T) {
	files, err := helmchart.Render(t.Context(), "../../../charts/dra-steward", helmchart.Options{Kubernetes: "v1.37.0",
		Set: []string{"nodeSelector.pool=infra", "tolerations[0].key=pool", "tolerations[0].operator=Exists", "scheduler.enabled=true"}})
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{"deployment.yaml": true, "controller-deployment.yaml": true, "scheduler-deployment.yaml": true, "uninstall-job.yaml": true}
	for _, f := range files {
		if name := filepath.Base(f.Name); strings.Contains(f.Text, "pool: infra") && strings.Contains(f.Text, "key: pool") {
			delete(missing, name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("without the placement of the webhook: %v", slices.Sorted(maps.Keys(missing)))
	}
}

// TestOwnChart: a real chart with every template that it has.
func TestOwnChart(t *testing.T) {
	files, err := helmchart.Render(t.Context(), "../../../charts/dra-steward", helmchart.Options{Kubernetes: "v1.37.0"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		found[f.Name] = true
		if _, err := os.Stat(f.Name); err != nil {
			t.Errorf("%s does not exist: %v", f.Name, err)
		}
	}
	for _, name := range []string{"templates/configmap.yaml", "templates/deployment.yaml"} {
		if !found[filepath.Join("../../../charts/dra-steward", name)] {
			t.Errorf("%s is not rendered; there are %v", name, found)
		}
	}
}

func TestArchive(t *testing.T) {
	name := archive(t, file("small/Chart.yaml", chartYAML), file("small/templates/a.yaml", "a: {{ .Release.Name }}\n"))
	files, err := helmchart.Render(t.Context(), name, helmchart.Options{Release: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0].Name != filepath.Join(name, "templates/a.yaml") || files[0].Text != "a: r\n" {
		t.Errorf("files are %+v", files)
	}
}

// TestHostileArchives: what an archive from elsewhere may hold.
func TestHostileArchives(t *testing.T) {
	chart := file("small/Chart.yaml", chartYAML)
	zeros := strings.Repeat("\x00", 101<<20)
	for name, test := range map[string]struct {
		entries []entry
		want    string
	}{
		"parent":          {[]entry{chart, file("small/../../etc/passwd", "x")}, "parent directory"},
		"absolute":        {[]entry{chart, file("small//etc/passwd", "x")}, "absolute paths"},
		"parent, windows": {[]entry{chart, file(`small\..\..\x`, "x")}, "parent directory"},
		"bomb":            {[]entry{chart, file("small/templates/a.yaml", zeros)}, "larger than the maximum size"},
		"no chart":        {[]entry{file("small/values.yaml", "a: b")}, "Chart.yaml file is missing"},
		"empty":           {nil, "no files in chart archive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := helmchart.Render(t.Context(), archive(t, test.entries...), helmchart.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
	link := entry{tar.Header{Name: "small/templates/link.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""}
	files, err := helmchart.Render(t.Context(), archive(t, chart, link), helmchart.Options{})
	if err != nil || len(files) > 0 {
		t.Errorf("a link in an archive: %v, %v, want no files", files, err)
	}
}

// TestLinks: a link to a file or folder of the chart is followed, any other link is refused before what it leads to is read.
func TestLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ link, target, want string }{
		"inside":               {"files/a", "../more/a", ""},
		"a folder inside":      {"files", "more", ""},
		"outside":              {"files/a", outside, "files/a: the link to " + outside + " leaves the chart"},
		"outside, relative":    {"files/a", "../../secret", "leaves the chart"},
		"a folder outside":     {"files", filepath.Dir(outside), "leaves the chart"},
		"the process":          {"files/a", "/proc/self/environ", "leaves the chart"},
		"a device":             {"files/a", "/dev/zero", "leaves the chart"},
		"nowhere":              {"files/a", "gone", "the link leads to gone, which does not exist"},
		"itself":               {"files/a", "a", "cannot be followed"},
		"a folder above":       {"files/b", "..", "cannot be followed"},
		"what is ignored":      {".helmignore", outside, "leaves the chart"},
		"the values":           {"values.yaml", outside, "leaves the chart"},
		"a subchart elsewhere": {"charts/b", filepath.Dir(outside), "leaves the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "more/a": "inside", "templates/a.yaml": `a: {{ .Files.Get "files/a" }}`})
			link := filepath.Join(chart, test.link)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(test.target, link); err != nil {
				t.Fatal(err)
			}
			files, err := helmchart.Render(t.Context(), chart, helmchart.Options{})
			if test.want == "" {
				if err != nil || len(files) != 1 || files[0].Text != "a: inside" {
					t.Errorf("files %v, error %v, want what is inside", files, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("files %v, error %v, want %q", files, err, test.want)
			}
		})
	}
}

// TestSizes: a file too large for a chart is refused by its size, not read. It is sparse.
func TestSizes(t *testing.T) {
	chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "files/large": ""})
	if err := os.Truncate(filepath.Join(chart, "files/large"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := helmchart.Render(t.Context(), chart, helmchart.Options{}); err == nil || !strings.Contains(err.Error(), "files/large: the chart is larger") {
		t.Error(err)
	}
}

// TestLimits: what a template may cost.
func TestLimits(t *testing.T) {
	loops := "{{ range until 3000 }}{{ range until 1000 }}{{ end }}{{ end }}"
	for name, test := range map[string]struct {
		template, want string
		limits         helmchart.Limits
	}{
		"time":   {loops, "rendering takes longer than 50ms", helmchart.Limits{Time: 50 * time.Millisecond}},
		"output": {`{{ repeat 2000 "a" }}`, "the rendered objects have 2000 bytes, more than 1000", helmchart.Limits{Output: 1000}},
		"memory": {`{{ range until 300 }}{{ repeat 100000 "0123456789" }}{{ end }}`, "rendering needs more than 1048576 bytes", helmchart.Limits{Memory: 1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": test.template})
			_, err := helmchart.Render(t.Context(), chart, helmchart.Options{Limits: test.limits})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": loops})
	if _, err := helmchart.Render(ctx, chart, helmchart.Options{}); err == nil {
		t.Error("an ended context renders")
	}
}

// TestNoNetwork: a schema from an address is not fetched, and names have no address.
func TestNoNetwork(t *testing.T) {
	chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "values.yaml": "a: 1\nb: c\n",
		"values.schema.json": `{"properties": {"a": {"type": "string"}, "b": {"$ref": "http://127.0.0.1:1/schema.json"}}}`,
		"templates/a.yaml":   `a: {{ getHostByName "localhost" | quote }}`})
	if _, err := helmchart.Render(t.Context(), chart, helmchart.Options{}); err == nil || !strings.Contains(err.Error(), "'/a'") {
		t.Errorf("error is %v, want one of a alone", err)
	}
	files, err := helmchart.Render(t.Context(), chart, helmchart.Options{Set: []string{"a=text"}})
	if err != nil || len(files) != 1 || files[0].Text != `a: ""` {
		t.Errorf("files are %v, error %v", files, err)
	}
}

func TestPlace(t *testing.T) {
	chart := folder(t, map[string]string{"Chart.yaml": chartYAML, "templates/_helpers.tpl": "{{ define \"h\" }}\nh: 1\ng: 2\n{{- end }}",
		"templates/a.yaml": "{{ if true }}\n# start\nonce: 1\ntwice: 1\n{{ end }}\ntwice: 1\nvalue: {{ 5 }}\n{{ include \"h\" . }}\nd: [{{ 1 }}]\nd: [{{ 2 }}]\n"})
	files, err := helmchart.Render(t.Context(), chart, helmchart.Options{})
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	place := files[0].Place()
	lines := strings.Split(files[0].Text, "\n")
	for text, want := range map[string]struct {
		line, column int
		noted        bool
	}{
		"once: 1": {3, 4, false}, "twice: 1": {3, 1, true}, "value: 5": {7, 4, true}, "h: 1": {7, 1, true}, "g: 2": {7, 1, true}, "d: [1]": {7, 1, true},
	} {
		for i, line := range lines {
			if line != text {
				continue
			}
			row, column, note := place.Find(i+1, 4)
			if row != want.line || column != want.column || (note != "") != want.noted {
				t.Errorf("%q is at %d:%d with note %q, want %+v", text, row, column, note, want)
			}
			break
		}
	}
	for _, line := range []int{-1, 0, len(lines) + 1} {
		if row, column, note := place.Find(line, 1); row != 1 || column != 1 || note != "" {
			t.Errorf("line %d is at %d:%d %q", line, row, column, note)
		}
	}
}
