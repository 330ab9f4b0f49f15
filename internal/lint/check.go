package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// check returns the problems of a document, in the order of its text.
func (s *Site) check(document *manifest.Document, w *world, namespace string, now time.Time, templates bool) []Diagnostic {
	j := judgement{site: s, document: document, world: w, now: now}
	object, problems := manifest.Decode(document)
	for _, p := range problems {
		if p.More > 0 {
			j.more(rulebook.FormRule(p.Kind), validate.Error, p.More)
			continue
		}
		finding := review.Finding{Rule: rulebook.FormRule(p.Kind), Severity: validate.Error, Path: p.Path, Message: p.Message}
		if change, is := s.proposed(document.Kind, p); is {
			finding = review.Finding{Rule: rulebook.ComingChange, Severity: validate.Warning, Path: p.Path, Message: change}
		}
		j.reports = append(j.reports, report(document, p.Line, p.Column, finding))
	}
	if object != nil {
		if object.GetNamespace() == "" && namespaced(object) {
			object.SetNamespace(namespace)
		}
		j.version()
		j.rules(object)
		j.adminAccess(object)
		j.next(object)
	}
	if templates {
		j.templates()
	}
	j.droppedLists()
	j.sort()
	return append(j.reports, j.unlisted()...)
}

// sort orders the reports as the text is.
func (j *judgement) sort() {
	slices.SortStableFunc(j.reports, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func namespaced(object manifest.Object) bool {
	switch object.(type) {
	case *resourceapi.ResourceClaim, *resourceapi.ResourceClaimTemplate:
		return true
	}
	return false
}

// A judgement is one document being checked.
type judgement struct {
	site     *Site
	document *manifest.Document
	world    *world
	now      time.Time
	reports  []Diagnostic
	// seen are the findings so far, listed how many of each rule are in reports.
	seen   map[review.Finding]bool
	listed map[string]int
	// rest are those that are not listed, by rule.
	rest map[string]rest
}

// maxListed is how many findings of one rule are listed for an object: the place of each is looked
// for in its text.
const maxListed = 1000

// A rest is what is not listed of a rule: how many findings, the worst of which has the severity.
type rest struct {
	severity validate.Severity
	count    int
}

func (j *judgement) add(finding review.Finding) {
	switch {
	case j.seen[finding]:
		return
	case j.listed[finding.Rule] >= maxListed:
		j.more(finding.Rule, finding.Severity, 1)
		return
	case j.seen == nil:
		j.seen, j.listed = map[review.Finding]bool{}, map[string]int{}
	}
	j.seen[finding] = true
	j.listed[finding.Rule]++
	if j.compilation(finding) {
		return
	}
	line, column := j.document.Position(finding.Path)
	j.reports = append(j.reports, report(j.document, line, column, finding))
}

// more counts findings that are not listed.
func (j *judgement) more(rule string, severity validate.Severity, count int) {
	if j.rest == nil {
		j.rest = map[string]rest{}
	}
	if known, is := j.rest[rule]; is {
		severity, count = min(severity, known.severity), count+known.count
	}
	j.rest[rule] = rest{severity, count}
}

// unlisted says of each rule how much is not listed.
func (j *judgement) unlisted() (reports []Diagnostic) {
	for _, rule := range slices.Sorted(maps.Keys(j.rest)) {
		line, column := j.document.Position("")
		reports = append(reports, report(j.document, line, column, review.Finding{Rule: rule, Severity: j.rest[rule].severity,
			Message: fmt.Sprintf("%s of this rule in the object, not listed", plural.Of(j.rest[rule].count, "more finding"))}))
	}
	return reports
}

// templates replaces what the rules find in text of a template.
func (j *judgement) templates() {
	type place struct{ line, column int }
	failed := map[place]string{}
	for _, r := range j.reports {
		if r.Severity == validate.Error {
			failed[place{r.Line, r.Column}] = r.Path
		}
	}
	replaced := map[place]bool{}
	var found []review.Finding
	var places []place
	for _, t := range j.document.Templates() {
		at := place{t.Line, t.Column}
		path, wrong := failed[at]
		if replaced[at] || !wrong && !t.Certain {
			continue
		}
		replaced[at] = true
		severity := validate.Warning
		if wrong {
			severity = validate.Error
		}
		if len(found) == maxListed {
			j.more(rulebook.Unrendered, severity, 1)
			continue
		}
		found, places = append(found, review.Finding{Rule: rulebook.Unrendered, Severity: severity, Path: path, Message: t.Message}), append(places, at)
	}
	j.reports = slices.DeleteFunc(j.reports, func(r Diagnostic) bool { return replaced[place{r.Line, r.Column}] })
	for i, at := range places {
		j.reports = append(j.reports, report(j.document, at.line, at.column, found[i]))
	}
}

// version reports a version that the API server does not know, or does not serve by
// default.
func (j *judgement) version() {
	version, known := j.document.Version()
	switch minor := j.site.minor(); {
	case !known:
	case !exists(version, minor):
		j.add(review.Finding{Rule: rulebook.UnknownVersion, Severity: validate.Error, Path: "apiVersion",
			Message: fmt.Sprintf("Kubernetes 1.%d does not know %s of %s: %s", minor, version, j.document.Kind, alternative(j.document.Kind, minor))})
	case version.OffByDefault:
		j.add(review.Finding{Rule: rulebook.DeprecatedVersion, Severity: validate.Warning, Path: "apiVersion",
			Message: fmt.Sprintf("%s is not served by default; %s", version, alternative(j.document.Kind, minor))})
	}
}

// exists reports whether an API server of a minor knows a version.
func exists(version manifest.Version, minor int) bool {
	return release(version.Introduced) <= minor && (version.Removed == "" || minor < release(version.Removed))
}

// release returns the minor of a release such as "1.34", 0 for none.
func release(name string) (minor int) {
	_, _ = fmt.Sscanf(name, "1.%d", &minor)
	return minor
}

// alternative is the version to use in a minor.
func alternative(kind string, minor int) string {
	for _, version := range manifest.Versions(kind) {
		if exists(version, minor) && !version.OffByDefault {
			return "use " + resourceapi.GroupName + "/" + version.Name
		}
	}
	for _, version := range manifest.Versions(kind) {
		if exists(version, minor) {
			return fmt.Sprintf("the newest that 1.%d can serve is %s/%s, switched on by --runtime-config",
				minor, resourceapi.GroupName, version.Name)
		}
	}
	return fmt.Sprintf("1.%d has no %s", minor, kind)
}

func (j *judgement) rules(object manifest.Object) {
	data, err := json.Marshal(object)
	if err != nil {
		j.add(review.Finding{Rule: rulebook.WrongType, Severity: validate.Error, Message: err.Error()})
		return
	}
	stored := object.GetUID() != ""
	for _, subresource := range subresources(object) {
		if subresource != "" && !stored {
			j.add(review.Finding{Rule: rulebook.FieldDropped, Severity: validate.Warning, Path: "status",
				Message: "the API server does not keep the status of an object that it creates"})
		}
		reviewer := j.site.reviewer
		if view := j.world.view(folderOf(j.document.File)); view != nil {
			reviewer.ClusterView, reviewer.ClusterData = view, view
		}
		reviewer.InCluster = subresource != ""
		answer, err := reviewer.Review(request(object, subresource, data, j.now))
		if err != nil {
			j.add(review.Finding{Rule: rulebook.WrongType, Severity: validate.Error, Message: err.Error()})
		}
		for _, finding := range answer.Findings {
			if subresource != "" && !stored {
				if finding.Rule == allocationFinalizer {
					continue
				}
				finding.Severity = validate.Warning
			}
			if finding.Rule == classExists && !j.missing(&finding) {
				continue
			}
			j.add(finding)
		}
	}
}

// classExists is the rule for the class of a request, which may exist outside of the input.
const classExists = "class-exists"

// missing reports whether to say that a class does not exist. Where classes are known, it names the nearest.
func (j *judgement) missing(finding *review.Finding) bool {
	if j.world == nil {
		return true
	}
	if !j.world.names.HasClasses() {
		return j.world.more
	}
	_, quoted, _ := strings.Cut(finding.Message, `"`)
	name, _, _ := strings.Cut(quoted, `"`)
	if message, missing := j.world.names.MissingClass(name); missing {
		finding.Message = message // a warning: the driver's chart can bring the class
	}
	return true
}

func request(object manifest.Object, subresource string, data []byte, now time.Time) review.Request {
	return review.Request{Kind: object.GetObjectKind().GroupVersionKind(),
		Namespace: object.GetNamespace(), Object: data, Subresource: subresource, Now: now}
}

// allocationFinalizer is the rule for what an allocator writes to an existing claim.
const allocationFinalizer = "allocation-finalizer"

// subresources are those that an object is checked by. An object that a cluster returned has
// a uid, and its status is in effect. The status of any other object is lost when the object
// is created, so nothing in it is an error.
func subresources(object manifest.Object) []string {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if ok && (claim.Status.Allocation != nil || len(claim.Status.Devices)+len(claim.Status.ReservedFor) > 0) {
		return []string{"", "status"}
	}
	return []string{""}
}

// compilerError matches one error in what the CEL compiler prints about an expression.
var compilerError = regexp.MustCompile(`(?m)ERROR: <input>:(\d+):(\d+): (.*)$`)

// compilation reports a finding about an expression that does not compile: every error of
// the compiler at its own place in the file. It reports nothing and returns false for other
// findings, and if the place of an error is not known.
func (j *judgement) compilation(finding review.Finding) bool {
	type place struct{ line, column int }
	var places []place
	found := compilerError.FindAllStringSubmatch(finding.Message, -1)
	for _, match := range found {
		line, lineErr := strconv.Atoi(match[1])
		column, columnErr := strconv.Atoi(match[2])
		if lineErr != nil || columnErr != nil {
			return false
		}
		line, column, ok := j.document.PositionIn(finding.Path, line, column)
		if !ok {
			return false
		}
		places = append(places, place{line, column})
	}
	for i, at := range places {
		one := finding
		one.Message = "the expression does not compile: " + found[i][3]
		if r := report(j.document, at.line, at.column, one); !slices.Contains(j.reports[max(0, len(j.reports)-len(places)):], r) {
			j.reports = append(j.reports, r)
		}
	}
	return len(places) > 0
}

// inOrder yields work(item) for every item, in the order of the items, while up to
// workers of them are worked on at once. It takes no more than a few items ahead.
func inOrder[In, Out any](items iter.Seq[In], workers int, work func(In) Out) iter.Seq[Out] {
	return func(yield func(Out) bool) {
		results := make(chan chan Out, 2*workers)
		stop := make(chan struct{})
		go func() {
			defer close(results)
			busy := make(chan struct{}, workers)
			for item := range items {
				select {
				case busy <- struct{}{}:
				case <-stop:
					return
				}
				result := make(chan Out, 1)
				go func() {
					result <- work(item)
					<-busy
				}()
				select {
				case results <- result:
				case <-stop:
					return
				}
			}
		}()
		defer close(stop)
		for result := range results {
			if !yield(<-result) {
				return
			}
		}
	}
}

// A Progress shows on a terminal that a long run goes on. Its zero value shows nothing.
type Progress struct {
	// Out is the terminal.
	Out io.Writer
	// Now returns the time.
	Now func() time.Time

	documents   int
	start, next time.Time
	shown       bool
}

// Timing of a Progress: when the first line appears, and how often it changes.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 200 * time.Millisecond
)

// Count counts an object of a file.
func (p *Progress) Count(file string) {
	if p.Out == nil {
		return
	}
	p.documents++
	now := p.Now()
	if p.start.IsZero() {
		p.start, p.next = now, now.Add(progressDelay)
	}
	if now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressInterval), true
	fmt.Fprintf(p.Out, "\r\033[K%d objects in %.0f s, now %s", p.documents, now.Sub(p.start).Seconds(), printable.Text(file))
}

// Hide takes the line away, for something else to be written.
func (p *Progress) Hide() {
	if p.shown {
		fmt.Fprint(p.Out, "\r\033[K")
		p.shown = false
	}
}
