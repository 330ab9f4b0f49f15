package manifest

import (
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

// checkAliases refuses text whose aliases would expand beyond limit bytes, and
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
	e := expansion{sizes: map[*yaml.Node]int{}, limit: limit}
	if e.size(root) <= limit && e.cycle == nil {
		return nil
	}
	if e.cycle != nil {
		return &Error{Line: e.cycle.Line, Column: e.cycle.Column,
			Message: fmt.Sprintf("the value of anchor %q contains itself", e.cycle.Value)}
	}
	if e.guilty == nil {
		return nil
	}
	return &Error{Line: e.guilty.Line, Column: e.guilty.Column,
		Message: fmt.Sprintf("with this alias the document grows beyond %d bytes: write the values out or split the document", limit)}
}

// expansion measures what a tree becomes when its aliases are replaced by what
// they stand for.
type expansion struct {
	sizes map[*yaml.Node]int
	limit int
	// guilty is the first alias that leads beyond the limit, cycle the first
	// that leads to one of its own ancestors.
	guilty, cycle *yaml.Node
}

// inProgress marks a node whose size is being measured.
const inProgress = -1

// size returns the expanded size of the node in bytes, not much more than the
// limit.
func (e *expansion) size(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		target, known := e.sizes[node.Alias]
		if known && target == inProgress {
			e.cycle = node
			return e.limit + 1
		}
		total := e.size(node.Alias)
		if total > e.limit && e.guilty == nil {
			e.guilty = node
		}
		return total
	}
	if size, known := e.sizes[node]; known {
		return size
	}
	e.sizes[node] = inProgress
	total := len(node.Value) + 2
	for _, child := range node.Content {
		total += e.size(child)
		if total > e.limit {
			if e.guilty == nil && child.Kind == yaml.AliasNode {
				e.guilty = child
			}
			total = e.limit + 1
			break
		}
	}
	e.sizes[node] = total
	return total
}
