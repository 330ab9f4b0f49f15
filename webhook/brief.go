package webhook

import (
	"context"
	"errors"
	"slices"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// What brief answers have instead of messages. These can name the values that a site allows,
// its exemptions, and what others use.
const (
	briefFinding = "violates the rule; details are not shown"
	briefError   = "cannot check the request; details are not shown"
)

// verbose reports whether the caller reads messages.
func (o Options) verbose(ctx context.Context) bool {
	return !o.Brief || authenticated(ctx)
}

// redact returns the part of an answer that the caller reads.
func (o Options) redact(ctx context.Context, answer review.Answer) review.Answer {
	if o.verbose(ctx) {
		return answer
	}
	answer.Findings, answer.Audited = withoutMessages(answer.Findings), withoutMessages(answer.Audited)
	answer.Exempted, answer.Effect, answer.EffectRule = nil, "", ""
	return answer
}

// withoutMessages returns the findings with their places and rules. Of a policy whose list of
// messages ends with "and 3 more", the number stays.
func withoutMessages(findings []review.Finding) []review.Finding {
	findings = slices.Clone(findings)
	for i, f := range findings {
		if _, is := unlisted(f); !is {
			findings[i].Message = briefFinding
		}
	}
	return findings
}

// redactError returns the part of an error that the caller reads.
func (o Options) redactError(ctx context.Context, err error) error {
	if unknown := (review.UnknownKindError{}); o.verbose(ctx) || errors.As(err, &unknown) {
		return err
	}
	return errors.New(briefError)
}
