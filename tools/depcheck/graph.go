package depcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// A Graph maps the import path of each package to what it imports. Tests are not
// part of it.
type Graph map[string][]string

// Load asks the go command for the packages of the module in dir and for all that
// they depend on.
func Load(dir string) (Graph, error) {
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w\n%s", command, dir, err, stderr.String())
	}
	graph := Graph{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return graph, nil
		} else if err != nil {
			return nil, fmt.Errorf("output of %s: %w", command, err)
		}
		graph[p.ImportPath] = p.Imports
	}
}

// Check returns what is wrong with the arrows of the graph, a line each.
func (g Graph) Check(table map[string]Package) (problems []string) {
	for _, path := range slices.Sorted(maps.Keys(g)) {
		name, ours := strings.CutPrefix(path, Root+"/")
		if !ours {
			continue
		}
		p, known := table[name]
		if !known {
			problems = append(problems, fmt.Sprintf("%s: not in Packages; add it with its floor to tools/depcheck/table.go", name))
			continue
		}
		problems = append(problems, g.upward(name, p, table)...)
		for _, never := range p.Never {
			if chain := g.chain(path, never); chain != nil {
				problems = append(problems, fmt.Sprintf("%s must not depend on %s, but does: %s", name, never, strings.Join(chain, " -> ")))
			}
		}
	}
	return problems
}

// Missing returns the rows of the table whose package does not exist, a line each.
func (g Graph) Missing(table map[string]Package) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if _, exists := g[Root+"/"+name]; !exists {
			problems = append(problems, fmt.Sprintf("%s: there is no such package; delete its row from tools/depcheck/table.go", name))
		}
	}
	return problems
}

// upward returns the imports of one package that do not point down.
func (g Graph) upward(name string, p Package, table map[string]Package) (problems []string) {
	for _, path := range g[Root+"/"+name] {
		imported, ours := strings.CutPrefix(path, Root+"/")
		if !ours {
			continue
		}
		below := table[imported]
		if below.Floor >= p.Floor && !slices.Contains(p.Peers, imported) {
			problems = append(problems, fmt.Sprintf("%s (floor %d) must not import %s (floor %d): an arrow only points down",
				name, p.Floor, imported, below.Floor))
		}
		if below.Importers != nil && !slices.Contains(below.Importers, name) {
			problems = append(problems, fmt.Sprintf("%s must not import %s: it is for %s only",
				name, imported, strings.Join(below.Importers, ", ")))
		}
	}
	return problems
}

// chain returns the shortest way from a package to one in the module or folder
// called target, nil if there is none.
func (g Graph) chain(from, target string) []string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		if path != from && within(path, target) {
			var chain []string
			for ; path != ""; path = cameFrom[path] {
				chain = append(chain, path)
			}
			slices.Reverse(chain)
			return chain
		}
		for _, next := range g[path] {
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = path
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
