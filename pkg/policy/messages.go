package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxPolicyMessages is the number of messages of one policy in one mode.
	maxPolicyMessages = 10
	// maxMessages is the number of messages of one decision.
	maxMessages = 32
	// maxMessageBytes is the length of one message.
	maxMessageBytes = 4096
	// maxOtherPlaces is the number of places that a message names after the first.
	maxOtherPlaces = 2
)

// A Message is the text for the author of a write about violations that differ only in
// their places.
type Message struct {
	// Code is the code of the policy, Mode the mode in which it reports.
	Code string
	Mode Mode
	// Path is the first place; may be empty.
	Path string
	// Message says what is wrong, what is allowed, what to do, and where else it is.
	Message string
}

// identity is what violations with the same message have in common.
type identity struct {
	code            string
	mode            Mode
	stored          bool
	message, hint   string
	allowed         string
	allowedElements int
}

func identityOf(v *Violation) identity {
	return identity{v.Code, v.Mode, v.Stored, v.Message, v.Hint, strings.Join(v.Allowed, "\x00"), len(v.Allowed)}
}

// places are the distinct paths of a message, in their order.
type places struct {
	paths []string
	known map[string]bool
}

func (p *places) add(paths []string) {
	for _, path := range paths {
		if !p.known[path] {
			p.known[path] = true
			p.paths = append(p.paths, path)
		}
	}
}

// groupMessages makes one message of the violations that differ only in their places.
// Messages about denials come first if there are more than the limits allow.
func groupMessages(violations []Violation) []Message {
	groups := make(map[identity]*places, len(violations))
	var first []*Violation
	var found []*places
	for i := range violations {
		id := identityOf(&violations[i])
		group := groups[id]
		if group == nil {
			group = &places{known: make(map[string]bool, len(violations[i].Paths))}
			groups[id] = group
			first, found = append(first, &violations[i]), append(found, group)
		}
		group.add(violations[i].Paths)
	}
	listed, omitted := limitMessages(first)
	var all []Message
	for i, v := range first {
		if listed[i] {
			all = append(all, v.messageAt(found[i].paths))
		}
	}
	return append(all, omitted...)
}

// omission counts the messages of a policy in a mode that are not listed.
type omission struct {
	code string
	mode Mode
}

// limitMessages selects the messages that are listed, and returns one message for each
// policy and mode that says how many are not.
func limitMessages(first []*Violation) (listed []bool, omitted []Message) {
	order := make([]int, len(first))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(first[b].Mode), rank(first[a].Mode)) })
	listed = make([]bool, len(first))
	shown, hidden := map[omission]int{}, map[omission]int{}
	var more []omission
	total := 0
	for _, i := range order {
		of := omission{first[i].Code, first[i].Mode}
		if shown[of] < maxPolicyMessages && total < maxMessages {
			listed[i] = true
			shown[of]++
			total++
			continue
		}
		if hidden[of] == 0 {
			more = append(more, of)
		}
		hidden[of]++
	}
	for _, of := range more {
		text := fmt.Sprintf("and %d more", hidden[of])
		if shown[of] == 0 {
			text = fmt.Sprintf("%d more violations that are not listed", hidden[of])
		}
		omitted = append(omitted, Message{Code: of.code, Mode: of.mode, Message: text})
	}
	return listed, omitted
}

// messageAt returns the message of a violation with these places.
func (v *Violation) messageAt(paths []string) Message {
	m := Message{Code: v.Code, Mode: v.Mode, Message: v.text(paths)}
	if len(paths) > 0 {
		m.Path = paths[0]
	}
	return m
}

func (v *Violation) text(paths []string) string {
	var all strings.Builder
	all.WriteString(v.Message)
	if len(v.Allowed) > 0 {
		all.WriteString("; allowed: ")
		all.WriteString(strings.Join(v.Allowed, ", "))
	}
	if v.Hint != "" {
		all.WriteString("; ")
		all.WriteString(v.Hint)
	}
	if all.Len() > maxMessageBytes {
		text := all.String()[:maxMessageBytes]
		all.Reset()
		all.WriteString(strings.ToValidUTF8(text, ""))
		all.WriteString("...")
	}
	if len(paths) > 1 {
		others := paths[1:min(len(paths), 1+maxOtherPlaces)]
		all.WriteString("; also at ")
		all.WriteString(strings.Join(others, ", "))
		if rest := len(paths) - 1 - len(others); rest > 0 {
			fmt.Fprintf(&all, " and %d more", rest)
		}
	}
	return all.String()
}
