package manifest

import (
	"cmp"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// depth returns how deep objects and lists are nested in valid JSON.
func depth(raw []byte) int {
	deepest, current := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			current++
			deepest = max(deepest, current)
		case '}', ']':
			current--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest
}

// tooDeep returns the first mapping or sequence below more than limit others.
func tooDeep(node *yaml.Node, limit int) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode && node.Kind != yaml.SequenceNode {
		return nil
	}
	if limit == 0 {
		return node
	}
	for _, child := range node.Content {
		if found := tooDeep(child, limit-1); found != nil {
			return found
		}
	}
	return nil
}

// mayHaveAliases reports whether the text has both something that looks like an
// anchor and something that looks like an alias.
func mayHaveAliases(text []byte) bool {
	anchor, alias := false, false
	for i := 0; i+1 < len(text); i++ {
		switch text[i] {
		case '&':
			anchor = anchor || isAnchorByte(text[i+1])
		case '*':
			alias = alias || isAnchorByte(text[i+1])
		}
	}
	return anchor && alias
}

func isAnchorByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-'
}

// checkAliases refuses text whose aliases add more than limit bytes, and
// text of which that cannot be said because it does not parse.
func (s *source) checkAliases(limit int) *Error {
	root := s.root()
	if root == nil {
		_, err := parseNodes(s.text)
		if err == nil {
			return nil
		}
		return s.yamlError(err)
	}
	e := expansion{measured: map[*yaml.Node]expanded{}, limit: limit}
	e.measure(root)
	if e.cycle != nil {
		return &Error{Line: e.cycle.Line, Column: e.cycle.Column,
			Message: fmt.Sprintf("the value of anchor %q contains itself", e.cycle.Value)}
	}
	if e.guilty != nil {
		return &Error{Line: e.guilty.Line, Column: e.guilty.Column,
			Message: fmt.Sprintf("with this alias the aliases of the document add more than %d bytes: write the values out or split the document", limit)}
	}
	return nil
}

// expansion measures a tree with its aliases replaced by their values.
type expansion struct {
	measured map[*yaml.Node]expanded
	limit    int
	// last is the alias that was measured last, guilty the first one that leads beyond the limit,
	// cycle the first that leads to one of its own ancestors.
	last, guilty, cycle *yaml.Node
}

// expanded are the bytes of a node, and those of them that its aliases add; each is at most one more than the limit.
type expanded struct {
	size, added int
	inProgress  bool
}

func (e *expansion) measure(node *yaml.Node) (m expanded) {
	if node.Kind == yaml.AliasNode {
		e.last = node
		if e.measured[node.Alias].inProgress {
			e.cycle = cmp.Or(e.cycle, node)
			return expanded{}
		}
		m.size = e.measure(node.Alias).size
		m.added = m.size
	} else if known, is := e.measured[node]; is {
		return known
	} else {
		e.measured[node] = expanded{inProgress: true}
		m.size = len(node.Value) + 2
		for _, child := range node.Content {
			c := e.measure(child)
			m.size, m.added = min(m.size+c.size, e.limit+1), min(m.added+c.added, e.limit+1)
			if m.added > e.limit {
				e.guilty = cmp.Or(e.guilty, e.last)
			}
		}
		e.measured[node] = m
	}
	return m
}
