package webhook

import "github.com/dra-steward/dra-steward/pkg/review"

// Always returns the same Reviewer for each request.
func Always(reviewer review.Reviewer) ReviewerFunc {
	return func() review.Reviewer { return reviewer }
}
