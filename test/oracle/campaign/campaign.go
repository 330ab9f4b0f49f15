// Package campaign puts batches of writes to an oracle and holds our rules and
// defaults against its answers. What they disagree about is kept once per cause, and
// made as small as it gets.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/compare"
	"github.com/dra-steward/dra-steward/test/oracle/objects"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// A Campaign compares. Its fields are set before its first use.
type Campaign struct {
	Oracle *oracle.Oracle
	// Progress receives a line now and then; nil discards it.
	Progress io.Writer

	compare.Tally
	// Mutated counts the writes that our defaults changed and the oracle judged again.
	Mutated int
	// Disagreements are in the order in which they were found.
	Disagreements []Disagreement

	seen map[string]int // signature -> index in Disagreements
}

// A Disagreement is a cause for which we and the API server differ.
type Disagreement struct {
	// Signature names the cause.
	Signature string
	// Text says what is different in Case, the first one that showed it.
	Text string
	Case wire.Case
	// Count is how many cases show it.
	Count int
}

// maxShrunk bounds how many disagreements are made small: with many of them something
// general is wrong.
const maxShrunk = 20

// finding is a disagreement about one case.
type finding struct{ signature, text string }

func (c *Campaign) minor() int {
	_, minor, _ := strings.Cut(c.Oracle.Minor(), ".")
	n, _ := strconv.Atoi(minor) // package build has checked it
	return n
}

// batchSize is a whole number of blocks of the same feature gates.
const batchSize = 2000

// Generated puts count generated writes to the oracle, beginning with the number
// from, or as many as it can until the deadline; zero is none.
func (c *Campaign) Generated(ctx context.Context, seed, from, count uint64, deadline time.Time) error {
	begin, last := time.Now(), time.Now()
	next := generate(seed, from, min(count, batchSize))
	for done := uint64(0); done < count; {
		batch := <-next
		if batch.err != nil {
			return batch.err
		}
		done += uint64(len(batch.cases))
		next = generate(seed, from+done, min(count-done, batchSize))
		if err := c.Judge(batch.cases); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(last) > 5*time.Second && c.Progress != nil {
			last = now
			fmt.Fprintf(c.Progress, "oracle %s: %d of %d writes, %.0f a second, %d accepted, %d disagreements\n",
				c.Oracle.Minor(), done, count, float64(done)/now.Sub(begin).Seconds(), c.Accepted, len(c.Disagreements))
		}
		if ctx.Err() != nil || !deadline.IsZero() && time.Now().After(deadline) {
			<-next
			return ctx.Err()
		}
	}
	return nil
}

type batch struct {
	cases []wire.Case
	err   error
}

// generate makes cases while the oracle is busy with those before.
func generate(seed, from, count uint64) <-chan batch {
	done := make(chan batch, 1)
	go func() {
		b := batch{cases: make([]wire.Case, count)}
		for i := range b.cases {
			if b.cases[i], b.err = objects.Case(seed, from+uint64(i)); b.err != nil {
				break
			}
		}
		done <- b
	}()
	return done
}

// Judge compares what we and the oracle say about cases.
func (c *Campaign) Judge(cases []wire.Case) error {
	if c.Oracle.Minor() != oracle.Newest {
		// Our types are those of the newest minor: others ignore some of the fields.
		cases = slices.Clone(cases)
		for i := range cases {
			cases[i].Full = true
		}
	}
	answers, err := c.Oracle.Judge(cases)
	if err != nil {
		return err
	}
	cases, answers = possible(cases, answers)
	outcomes := make([]compare.Outcome, len(cases))
	errs := make([]error, len(cases))
	dropped := make([][]compare.Difference, len(cases))
	mutated := make([]mutation, len(cases))
	parallel(len(cases), func(i int) {
		var err error
		outcomes[i], errs[i] = compare.Rules(cases[i], answers[i], c.minor())
		dropped[i], err = compare.Drops(cases[i], answers[i], c.minor())
		errs[i] = errors.Join(errs[i], err)
		mutated[i] = mutate(cases[i], answers[i])
	})
	for i, one := range cases {
		var found []finding
		if errs[i] != nil {
			found = append(found, finding{"unreadable", errs[i].Error()})
		}
		c.Add(answers[i], outcomes[i])
		for _, d := range slices.Concat(outcomes[i].Differences, dropped[i]) {
			found = append(found, finding{d.Signature(), fmt.Sprintf("%s at %s: %s", d.Type, d.Place, d.Detail)})
		}
		c.keep(one, append(found, mutated[i].found...))
	}
	return c.judgeMutated(cases, mutated)
}

// possible leaves out the writes that are not possible in the minor, such as those to a
// status that it has not.
func possible(cases []wire.Case, answers []wire.Answer) ([]wire.Case, []wire.Answer) {
	if !slices.ContainsFunc(answers, func(a wire.Answer) bool { return a.NotServed }) {
		return cases, answers
	}
	var keptCases []wire.Case
	var keptAnswers []wire.Answer
	for i, answer := range answers {
		if !answer.NotServed {
			keptCases, keptAnswers = append(keptCases, cases[i]), append(keptAnswers, answer)
		}
	}
	return keptCases, keptAnswers
}

// mutation is what our defaults make of a case.
type mutation struct {
	// again is the mutated case; its ID is empty if there is nothing to judge.
	again wire.Case
	found []finding
}

// mutate holds our defaults to what can be said without asking the oracle again.
func mutate(one wire.Case, answer wire.Answer) (m mutation) {
	if answer.DecodeError != "" || one.Subresource != "" {
		return m
	}
	again, changes, err := compare.Mutated(one)
	if err != nil {
		m.found = append(m.found, finding{"mutation fails", err.Error()})
		return m
	}
	if len(changes) > 0 && answer.Accepted() {
		m.again = again
	}
	rest, err := compare.AfterServer(one, answer)
	if err != nil {
		m.found = append(m.found, finding{"mutation fails after the API server", err.Error()})
	}
	for _, change := range rest {
		m.found = append(m.found, finding{"mutation of what the API server has defaulted: " + change.Default, "at " + change.Pointer})
	}
	return m
}

// judgeMutated asks whether what was accepted still is.
func (c *Campaign) judgeMutated(cases []wire.Case, mutated []mutation) error {
	var again []wire.Case
	var origin []int
	for i, m := range mutated {
		if m.again.ID != "" {
			again, origin = append(again, m.again), append(origin, i)
		}
	}
	answers, err := c.Oracle.Judge(again)
	if err != nil {
		return err
	}
	c.Mutated += len(again)
	for i, answer := range answers {
		if !answer.Accepted() {
			c.keep(cases[origin[i]], []finding{{"an accepted object is rejected after our mutation", fmt.Sprint(answer.Errors, answer.DecodeError, answer.Panic)}})
		}
	}
	return nil
}

// keep remembers the first case of every cause.
func (c *Campaign) keep(one wire.Case, found []finding) {
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	for _, f := range found {
		if at, known := c.seen[f.signature]; known {
			c.Disagreements[at].Count++
			continue
		}
		c.seen[f.signature] = len(c.Disagreements)
		c.Disagreements = append(c.Disagreements, Disagreement{f.signature, f.text, one, 1})
	}
}

// shrinkTime bounds the time for all of them.
const shrinkTime = time.Minute

// Shrink makes the cases of the disagreements as small as they get.
func (c *Campaign) Shrink() error {
	end := time.Now().Add(shrinkTime)
	for i := range c.Disagreements[:min(maxShrunk, len(c.Disagreements))] {
		if time.Now().After(end) {
			return nil
		}
		d := &c.Disagreements[i]
		smallest, err := objects.Shrink(d.Case, func(cases []wire.Case) (int, error) { return c.shows(d.Signature, cases) })
		if err != nil {
			return err
		}
		d.Case = smallest
		if again := c.alone(); again.Judge([]wire.Case{smallest}) == nil && len(again.Disagreements) > 0 {
			d.Text = again.Disagreements[0].Text
		}
	}
	return nil
}

// shows returns the index of the first case with a disagreement, or -1.
func (c *Campaign) shows(signature string, cases []wire.Case) (int, error) {
	again := c.alone()
	if err := again.Judge(cases); err != nil {
		return -1, err
	}
	for _, d := range again.Disagreements {
		if d.Signature == signature {
			for i := range cases {
				if string(cases[i].Object) == string(d.Case.Object) && string(cases[i].Old) == string(d.Case.Old) {
					return i, nil
				}
			}
		}
	}
	return -1, nil
}

// alone is a campaign with the same settings that has seen nothing.
func (c *Campaign) alone() *Campaign { return &Campaign{Oracle: c.Oracle} }

// parallel uses all processors.
func parallel(n int, do func(i int)) {
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < n; i += workers {
				do(i)
			}
		})
	}
	group.Wait()
}
