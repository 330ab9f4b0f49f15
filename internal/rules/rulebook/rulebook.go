// Package rulebook documents every rule and default, in one text for the pages
// docs/rules.md and docs/rules/<kind>.md and for "dra-steward explain". The text comes
// from the tables and the examples; nothing is written twice.
package rulebook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// An Entry is a rule, a default, a check of a manifest's form or an answer of the webhook.
type Entry struct {
	ID string
	// What the entry is, with its category and severity: "limit rule (error)",
	// "default" …
	What string
	// Doc, Upstream and Source are as in validate.Rule; Upstream and Source may be
	// empty.
	Doc, Upstream, Source string
	// Kinds are the kinds that the entry is about.
	Kinds   []string
	Example example.Example
}

// Summary is the first sentence of the entry.
func (e Entry) Summary() string {
	summary, _, _ := strings.Cut(e.Doc, "\n")
	return summary
}

// A Book is all entries, in the order in which they are shown.
type Book []Entry

// Open reads the tables and their examples.
func Open() (Book, error) {
	var book Book
	for _, rule := range validate.Rules() {
		e, err := example.Load(validate.Examples, rule.ID)
		if err != nil {
			return nil, err
		}
		book = append(book, Entry{rule.ID, fmt.Sprintf("%s rule (%s)", rule.Category, rule.Severity), rule.Doc, rule.Upstream, rule.Source, rule.Kinds, e})
	}
	for _, d := range mutate.Defaults() {
		e, err := example.Load(mutate.Examples, d.ID)
		if err != nil {
			return nil, err
		}
		book = append(book, Entry{d.ID, "default", d.Doc, d.Upstream, d.Source, d.Kinds, e})
	}
	return slices.Concat(book, formEntries(), podEntries(), answerEntries(), requestEntries()), nil
}

// Find returns the entry of an ID. The error suggests similar IDs.
func (b Book) Find(id string) (Entry, error) {
	if at := slices.IndexFunc(b, func(e Entry) bool { return e.ID == id }); at >= 0 {
		return b[at], nil
	}
	ids := make([]string, len(b))
	for i, e := range b {
		ids[i] = e.ID
	}
	hint := cmp.Or(manifest.DidYouMean(id, ids), `; "dra-steward explain" lists all`)
	return Entry{}, fmt.Errorf("there is no rule %q%s", id, hint)
}

// Policies are entries for the policies of a set; none for nil.
func Policies(set *policy.Set) (book Book) {
	if set == nil {
		return nil
	}
	for _, p := range set.Policies() {
		book = append(book, Entry{
			ID: p.Code, What: fmt.Sprintf("policy (%s, severity %s)", p.Mode, p.Severity),
			Doc: p.Title + ".\n\n" + strings.TrimSpace(p.Description), Upstream: "does not check it",
			Source: strings.Join(p.Related, ", "), Kinds: p.Kinds,
		})
	}
	return book
}
