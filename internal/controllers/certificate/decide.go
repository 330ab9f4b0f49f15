package certificate

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Times are the times at which certificates are replaced.
type Times struct {
	// Hosts are the names that a certificate is valid for, at least one.
	Hosts []string
	// Validity is how long a certificate is valid, RenewBefore how long before its end
	// the next one is made. 0 < RenewBefore < Validity.
	Validity, RenewBefore time.Duration
	// WaitAfterChange is how long API servers have to learn of an authority before something
	// that it signed is served, and webhooks to take up a certificate before the
	// authority of the previous one is dropped. Not negative, and twice as long fits into
	// RenewBefore.
	WaitAfterChange time.Duration
}

// MinValidity is the shortest Validity: certificates are made an hour old, for clocks
// that are late.
const MinValidity = 2 * time.Hour

// Validate is the problem with the settings.
func (s Times) Validate() error {
	var errs []error
	if len(s.Hosts) == 0 {
		errs = append(errs, errors.New("certificate hosts: name at least one"))
	}
	if s.Validity < MinValidity {
		errs = append(errs, fmt.Errorf("certificate validity %s: must be at least %s", s.Validity, MinValidity))
	}
	if s.RenewBefore <= 0 || s.RenewBefore >= s.Validity-time.Hour {
		errs = append(errs, fmt.Errorf("renewal %s before the end of the certificate: must be more than 0 and at least an hour shorter than the validity, %s", s.RenewBefore, s.Validity))
	}
	if s.WaitAfterChange < 0 || 2*s.WaitAfterChange > s.RenewBefore {
		errs = append(errs, fmt.Errorf("time to wait after a change %s: must be between 0 and half of the renewal time, %s", s.WaitAfterChange, s.RenewBefore))
	}
	return errors.Join(errs...)
}

// An Action is what comes next.
type Action string

// Actions. Each but Wait changes the Secret.
const (
	// Wait until something changes, or until the Decision's time.
	Wait Action = "wait"
	// Issue a pair that becomes the next one.
	Issue Action = "issue"
	// Promote the next pair: it is served from now on.
	Promote Action = "promote"
	// Retire the authorities that signed nothing that is served.
	Retire Action = "retire"
)

// A Decision is an action with its reason.
type Decision struct {
	Action Action
	Reason string
	// Until is when to decide again after Wait; zero is when something changes.
	Until time.Time
}

// Seen is what is known in addition to the Secret.
type Seen struct {
	Now time.Time
	// Trusted is when every webhook of the cluster was first seen to trust all
	// authorities of the State; zero if one does not.
	Trusted time.Time
	// Served is when the present serving pair was first seen.
	Served time.Time
	// Renew asks for a new pair although the present one is good.
	Renew bool
}

// Decide returns the next state.
func (s Times) Decide(state State, seen Seen) Decision {
	bad, due := s.unusable(state.Serving, seen.Now), s.due(state.Serving)
	if !state.Next.empty() {
		if reason := s.unusable(state.Next, seen.Now); reason != "" {
			return Decision{Action: Issue, Reason: "the next certificate " + reason}
		}
		return s.promote(bad != "" && !state.retired(), seen)
	}
	switch {
	case bad != "":
		return Decision{Action: Issue, Reason: "the certificate " + bad}
	case seen.Renew:
		return Decision{Action: Issue, Reason: "a new certificate was requested"}
	case !seen.Now.Before(due):
		return Decision{Action: Issue, Reason: "the certificate is about to expire"}
	case !state.retired():
		return Decision{Action: Wait, Reason: "the certificate is valid", Until: due}
	case seen.Trusted.IsZero():
		return Decision{Action: Wait, Reason: "not all webhooks trust the authorities yet", Until: due}
	}
	if drop := seen.Served.Add(s.WaitAfterChange); seen.Now.Before(drop) {
		return Decision{Action: Wait, Reason: "webhooks load the new certificate", Until: drop}
	}
	return Decision{Action: Retire, Reason: "nothing is served that these authorities signed"}
}

// promote decides about a next pair that is good. Without another pair to serve there is
// nothing to wait for.
func (s Times) promote(alone bool, seen Seen) Decision {
	switch trusted := seen.Trusted.Add(s.WaitAfterChange); {
	case seen.Trusted.IsZero():
		return Decision{Action: Wait, Reason: "not all webhooks trust the next authority yet"}
	case !alone && seen.Now.Before(trusted):
		return Decision{Action: Wait, Reason: "API servers observe the next authority", Until: trusted}
	}
	return Decision{Action: Promote, Reason: "the next authority is trusted"}
}

// due is when a pair has to be replaced.
func (s Times) due(pair Pair) time.Time { return pair.Expires().Add(-s.RenewBefore) }

// unusable returns why a pair cannot be served, or "".
func (s Times) unusable(pair Pair, now time.Time) string {
	if pair.empty() {
		return "is missing"
	}
	chain, err := pair.chain()
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	if !chain[len(chain)-1].IsCA { // as cert-manager writes it: the authority is in ca.crt alone
		return "has not its authority with it"
	}
	roots := x509.NewCertPool()
	roots.AddCert(chain[len(chain)-1])
	for _, host := range s.Hosts {
		if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
			return "is not valid: " + err.Error()
		}
	}
	return ""
}
