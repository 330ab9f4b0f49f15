package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

const (
	// maxProposals is how many proposals are kept, proposalTime how long one can be confirmed as it is.
	maxProposals = 64
	proposalTime = 15 * time.Minute
	// confirmTime bounds a write with its preview. The write goes on without the page.
	confirmTime = 50 * time.Second
)

// The states of a proposal.
const (
	proposed = "proposed"
	writing  = "writing"
	done     = "done"
	failing  = "failed"
)

// A proposal is a change that was previewed. It is written once at most.
type proposal struct {
	ID   string
	form url.Values
	// The rest is guarded by proposals.
	at time.Time
	// seen counts the previews: only the newest is confirmed.
	seen    int
	plan    *plan
	notices []string
	state   string
	result  string
	ended   chan struct{}
}

// proposals are those of a session.
type proposals struct {
	mutex sync.Mutex
	all   []*proposal // the oldest first
	// one lets one write through at a time.
	one chan struct{}
}

func (p *proposals) add(c *proposal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.all = append(p.all, c)
	if over := len(p.all) - maxProposals; over > 0 {
		at := slices.IndexFunc(p.all, func(c *proposal) bool { return c.state != writing })
		p.all = slices.Delete(p.all, max(at, 0), max(at, 0)+over)
	}
}

func (p *proposals) find(id string) *proposal {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, c := range p.all {
		if same(c.ID, id) {
			return c
		}
	}
	return nil
}

// errUnknown is about a proposal that is kept no longer.
var errUnknown = fmt.Errorf("%w: the preview is no longer kept: preview the change again", errNotFound)

// propose previews the change of a form, and sends the browser to the page of the preview.
func (s *Server) propose(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), confirmTime)
	defer cancel()
	c := &proposal{ID: secret(), form: maps.Clone(r.PostForm), at: s.options.Now(), state: proposed}
	var err error
	if c.plan, err = s.planned(ctx, c.form); err != nil {
		s.fail(w, r, err)
		return
	}
	s.proposals.add(c)
	http.Redirect(w, r, "/change?id="+c.ID, http.StatusSeeOther)
}

// planned is what a form asks for. A bounded number is planned at a time.
func (s *Server) planned(ctx context.Context, form url.Values) (*plan, error) {
	now := s.shown.Load()
	if now.stale != "" {
		return nil, fmt.Errorf("nothing can be changed now: what is shown is not current: %s", now.stale)
	}
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.plan(ctx, now, form)
}

// fail answers a form that cannot be previewed.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.page(func(context.Context, *http.Request, *shown) (page, error) { return page{}, err })(w, r)
}

// confirm writes what was previewed, if the preview still holds.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request) {
	c := s.proposals.find(r.PostForm.Get("id"))
	if c == nil {
		s.fail(w, r, errUnknown)
		return
	}
	select {
	case s.proposals.one <- struct{}{}:
		defer func() { <-s.proposals.one }()
	default:
		if s.stateOf(c) == proposed {
			s.fail(w, r, fmt.Errorf("%w: another change is being written: wait until it has ended, go back, and confirm again", errBusy))
			return
		}
	}
	if s.take(c, r.PostForm.Get("seen")) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), confirmTime)
		defer cancel()
		s.carryOut(ctx, c)
	}
	http.Redirect(w, r, "/change?id="+c.ID, http.StatusSeeOther)
}

func (s *Server) stateOf(c *proposal) string {
	s.proposals.mutex.Lock()
	defer s.proposals.mutex.Unlock()
	return c.state
}

// take begins to write a proposal. It is false for one that is or was written, that cannot be, or that
// was previewed again since the page was made.
func (s *Server) take(c *proposal, seen string) bool {
	s.proposals.mutex.Lock()
	defer s.proposals.mutex.Unlock()
	if c.state != proposed || seen != strconv.Itoa(c.seen) || !c.plan.CanConfirm() {
		return false
	}
	c.state, c.ended = writing, make(chan struct{})
	return true
}

// carryOut previews again, and writes unless more is affected than was shown.
func (s *Server) carryOut(ctx context.Context, c *proposal) {
	fresh, err := s.planned(ctx, c.form)
	notices, state, result := []string(nil), proposed, ""
	if err == nil {
		notices = s.objections(c, fresh)
		if len(notices) == 0 && fresh.CanConfirm() {
			state = done
			result, err = fresh.write(ctx)
		}
	}
	if err != nil {
		state, result = failing, errorText(err)
	}
	s.proposals.mutex.Lock()
	defer s.proposals.mutex.Unlock()
	if fresh != nil {
		c.plan = fresh
	}
	c.notices, c.state, c.result, c.at = notices, state, result, s.options.Now()
	c.seen++
	close(c.ended)
}

// objections are why a preview must be looked at again before it is written.
func (s *Server) objections(c *proposal, fresh *plan) (texts []string) {
	s.proposals.mutex.Lock()
	defer s.proposals.mutex.Unlock()
	if s.options.Now().Sub(c.at) > proposalTime {
		texts = append(texts, fmt.Sprintf("the preview was older than %s", lasting(s.options.Now(), s.options.Now().Add(-proposalTime))))
	}
	if c.plan.Object != fresh.Object {
		texts = append(texts, "the object has changed")
	}
	return append(texts, grown(c.plan.Counts, fresh.Counts)...)
}

// grown are the numbers that are larger than before.
func grown(before, now guard.Counts) (texts []string) {
	for _, n := range []struct {
		what        string
		before, now int
	}{{"held device", before.Devices, now.Devices}, {"claim", before.Claims, now.Claims}, {"pod", before.Pods, now.Pods}, {"namespace", before.Namespaces, now.Namespaces}} {
		if n.now > n.before {
			texts = append(texts, fmt.Sprintf("it affects %s, and the preview showed %d", plural.Of(n.now, n.what), n.before))
		}
	}
	return texts
}

// A proposalView is the data of the page of a proposal.
type proposalView struct {
	*plan
	ID            string
	Seen          int
	State, Result string
	Notices       []string
	// Again are the fields of its form, without the acknowledgement.
	Again []pair
}

// A pair is a field of a form.
type pair struct{ Name, Value string }

// proposalPage shows a preview, or what has been done.
func (s *Server) proposalPage(ctx context.Context, r *http.Request, _ *shown) (page, error) {
	c := s.proposals.find(r.FormValue("id"))
	if c == nil {
		return page{}, errUnknown
	}
	s.await(ctx, c)
	s.proposals.mutex.Lock()
	defer s.proposals.mutex.Unlock()
	v := proposalView{plan: c.plan, ID: c.ID, Seen: c.seen, State: c.state, Result: c.result, Notices: c.notices}
	for _, name := range slices.Sorted(maps.Keys(c.form)) {
		if name != "acknowledge" {
			v.Again = append(v.Again, pair{name, c.form.Get(name)})
		}
	}
	return page{Template: "change", Title: c.plan.Title, Data: v}, nil
}

// await waits some seconds for the end of a write.
func (s *Server) await(ctx context.Context, c *proposal) {
	s.proposals.mutex.Lock()
	ended := c.ended
	s.proposals.mutex.Unlock()
	if ended == nil {
		return
	}
	timer := time.NewTimer(waitTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errBusy is about a change that has to wait for another one.
var errBusy = errors.New("busy")

// A Writer writes to the cluster with the rights of the user. A dry write is checked by the API server
// and not stored. The warnings are those of the API server.
type Writer interface {
	// User is the name of the user.
	User(ctx context.Context) (string, error)
	// Faults are the known faults that a taint sets off; one that the cluster certainly has is an error.
	Faults(ctx context.Context) (warnings []string, _ error)
	// Rule reads a rule; nil if there is none.
	Rule(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error)
	// ApplyRule writes the rule of an intent, and returns whether it is created, changed or unchanged.
	ApplyRule(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule, dry bool) (did string, warnings []string, _ error)
	// DeleteRule deletes a stored rule.
	DeleteRule(ctx context.Context, stored *resourceapi.DeviceTaintRule, dry bool) (warnings []string, _ error)
	// CreateDrain creates a drain, and fails if there is one with its name.
	CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) (warnings []string, _ error)
	// PauseDrain pauses a drain, or makes it go on; DeleteDrain deletes it if it is still this one.
	PauseDrain(ctx context.Context, d *v1alpha1.DeviceDrain, paused, dry bool) (warnings []string, _ error)
	DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) (warnings []string, _ error)
	// Drain reads a drain; nil if there is none.
	Drain(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error)
}
