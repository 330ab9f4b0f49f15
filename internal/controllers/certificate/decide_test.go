package certificate

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
)

const host = "dra-steward.dra-steward.svc"

var settings = Times{Hosts: []string{host}, Validity: 90 * 24 * time.Hour, RenewBefore: 30 * 24 * time.Hour, WaitAfterChange: 2 * time.Minute}

// pair makes one as it is made for a cluster.
func pair(t *testing.T, hosts ...string) Pair {
	t.Helper()
	chain, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: hosts[0], AlternateDNS: hosts[1:], MaxAge: settings.Validity})
	if err != nil {
		t.Fatal(err)
	}
	return Pair{chain, key}
}

func TestDecide(t *testing.T) {
	now := time.Now()
	old, next, foreign := pair(t, host), pair(t, host), pair(t, "other.svc")
	trusted := func(ago time.Duration) Seen { return Seen{Now: now, Trusted: now.Add(-ago), Served: now.Add(-ago)} }
	serving := State{}.Prepare(old).Promote()
	both := serving.Prepare(next)
	for name, tt := range map[string]struct {
		state State
		seen  Seen
		want  Action
		until time.Time
	}{
		"nothing":                         {State{}, Seen{Now: now}, Issue, time.Time{}},
		"for another host":                {State{}.Prepare(foreign).Promote(), trusted(time.Hour), Issue, time.Time{}},
		"first, not yet trusted":          {State{}.Prepare(old), Seen{Now: now}, Wait, time.Time{}},
		"first, trusted: nothing to lose": {State{}.Prepare(old), trusted(0), Promote, time.Time{}},
		"first, beside an unknown one":    {State{}.Trusting(serving.Bundle()).Prepare(next), trusted(0), Wait, now.Add(settings.WaitAfterChange)},
		"and waited":                      {State{}.Trusting(serving.Bundle()).Prepare(next), trusted(settings.WaitAfterChange), Promote, time.Time{}},
		"good":                            {serving, trusted(time.Hour), Wait, old.Expires().Add(-settings.RenewBefore)},
		"good, but a new one is wanted":   {serving, Seen{Now: now, Renew: true}, Issue, time.Time{}},
		"wanted, and on its way":          {both, Seen{Now: now, Renew: true}, Wait, time.Time{}},
		"about to expire":                 {serving, Seen{Now: old.Expires().Add(-settings.RenewBefore)}, Issue, time.Time{}},
		"expired":                         {serving, Seen{Now: old.Expires().Add(time.Second)}, Issue, time.Time{}},
		"next not trusted":                {both, Seen{Now: now}, Wait, time.Time{}},
		"next trusted just now":           {both, trusted(0), Wait, now.Add(settings.WaitAfterChange)},
		"next waited for":                 {both, trusted(settings.WaitAfterChange), Promote, time.Time{}},
		"next expired too":                {both, Seen{Now: next.Expires().Add(time.Second), Trusted: now}, Issue, time.Time{}},
		"promoted just now":               {both.Promote(), trusted(0), Wait, now.Add(settings.WaitAfterChange)},
		"promoted, caBundle is behind":    {both.Promote(), Seen{Now: now, Served: now.Add(-time.Hour)}, Wait, next.Expires().Add(-settings.RenewBefore)},
		"taken up everywhere":             {both.Promote(), trusted(settings.WaitAfterChange), Retire, time.Time{}},
		"retired":                         {both.Promote().Retire(), trusted(settings.WaitAfterChange), Wait, next.Expires().Add(-settings.RenewBefore)},
	} {
		t.Run(name, func(t *testing.T) {
			got := settings.Decide(tt.state, tt.seen)
			if got.Action != tt.want || !got.Until.Equal(tt.until) || got.Reason == "" {
				t.Errorf("got %+v, want %s until %v", got, tt.want, tt.until)
			}
		})
	}
}

// TestState: what is written is read again, and what is broken counts as missing.
func TestState(t *testing.T) {
	old, next := pair(t, host), pair(t, host)
	state := State{}.Prepare(old).Promote().Prepare(next)
	if got := Parse(state.Data()); !bytes.Equal(got.Bundle(), state.Bundle()) || len(got.Authorities) != 2 || string(got.Next.PrivateKey) != string(next.PrivateKey) {
		t.Errorf("read again: %d authorities", len(got.Authorities))
	}
	retired := state.Promote().Retire()
	if len(retired.Authorities) != 1 || retired.Authorities[0].Equal(state.Authorities[0]) {
		t.Error("the old authority must go, the new one stay")
	}
	if data := retired.Data(); data[NextCertificateKey] != nil || data[CertificateKey] == nil {
		t.Error("the next pair is still there")
	}
	for name, change := range map[string]func(map[string][]byte){
		"key of another pair": func(d map[string][]byte) { d[PrivateKeyKey] = next.PrivateKey },
		"garbage":             func(d map[string][]byte) { d[CertificateKey] = []byte("garbage") },
		"a key and no more":   func(d map[string][]byte) { delete(d, CertificateKey) },
	} {
		data := state.Data()
		change(data)
		if got := Parse(data); !got.Serving.empty() || got.Next.empty() || len(got.Authorities) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !(Parse(nil).Empty()) {
		t.Error("nothing is something")
	}
	if got := Parse(map[string][]byte{AuthoritiesKey: append([]byte("junk\n"), state.Bundle()...)}); len(got.Authorities) != 2 || !got.Empty() {
		t.Errorf("authorities after junk: %d", len(got.Authorities))
	}
}

// TestNothingIsServedUntrusted follows three years day by day: at every moment the
// serving pair is valid and its authority has been trusted for the time to wait, and no
// more than two authorities are trusted.
func TestNothingIsServedUntrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state State
		var trusted, served time.Time
		s, rotations := settings, 0
		s.WaitAfterChange = 2 * 24 * time.Hour
		announced := map[string]time.Time{}
		for start := time.Now(); time.Since(start) < 3*365*24*time.Hour; <-time.After(24 * time.Hour) {
			now := time.Now()
			if trusted.IsZero() {
				trusted = now
				for _, authority := range state.Authorities {
					if _, ok := announced[string(authority.Raw)]; !ok {
						announced[string(authority.Raw)] = now
					}
				}
			}
			switch decision := s.Decide(state, Seen{Now: now, Trusted: trusted, Served: served}); decision.Action {
			case Issue:
				state, trusted = state.Prepare(pair(t, host)), time.Time{}
			case Promote:
				first := state.Serving.empty()
				state, served = state.Promote(), now
				chain, err := state.Serving.chain()
				if at, ok := announced[string(chain[1].Raw)]; err != nil || !ok || !first && now.Sub(at) < s.WaitAfterChange {
					t.Fatalf("%v: served %v after it was announced: %v", now, now.Sub(at), err)
				}
				rotations++
			case Retire:
				state, trusted = state.Retire(), time.Time{}
			}
			if reason := s.unusable(state.Serving, now); reason != "" && now.Sub(start) > 2*24*time.Hour {
				t.Fatalf("%v: the certificate %s", now, reason)
			}
			if len(state.Authorities) > 2 {
				t.Fatalf("%v: %d authorities", now, len(state.Authorities))
			}
		}
		if rotations < 15 || rotations > 20 {
			t.Errorf("%d certificates in three years, want one every 60 days", rotations)
		}
	})
}

func TestSettings(t *testing.T) {
	for want, change := range map[string]func(*Times){
		"":                   func(*Times) {},
		"certificate hosts":  func(s *Times) { s.Hosts = nil },
		"at least 2h0m0s":    func(s *Times) { s.Validity = time.Hour },
		"at least an hour":   func(s *Times) { s.RenewBefore = s.Validity },
		"more than 0":        func(s *Times) { s.RenewBefore = 0 },
		"half of the":        func(s *Times) { s.WaitAfterChange = s.RenewBefore },
		"after a change -1s": func(s *Times) { s.WaitAfterChange = -time.Second },
	} {
		s := settings
		change(&s)
		if err := s.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), []byte("key"))
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		state := Parse(map[string][]byte{CertificateKey: certificate, PrivateKeyKey: key, AuthoritiesKey: certificate})
		if got := settings.Decide(state, Seen{Now: time.Now()}); got.Action != Issue {
			t.Errorf("%+v of garbage", got)
		}
	})
}

// TestGarbage: whatever the Secret holds, the authority of the certificate that webhooks serve
// stays trusted until another one is served.
func TestGarbage(t *testing.T) {
	served := State{}.Prepare(pair(t, host)).Promote()
	next := served.Prepare(pair(t, host))
	garbage := []byte("garbage")
	hooks := []hook{{"validating", "1", "claims", served.Bundle()}}
	for name, data := range map[string]map[string][]byte{
		"the certificate":         {CertificateKey: garbage, PrivateKeyKey: served.Serving.PrivateKey, AuthoritiesKey: served.Bundle()},
		"the key":                 {CertificateKey: served.Serving.Certificate, PrivateKeyKey: garbage, AuthoritiesKey: served.Bundle()},
		"all":                     {CertificateKey: garbage, PrivateKeyKey: garbage, AuthoritiesKey: garbage},
		"nothing":                 nil,
		"all but the next":        {CertificateKey: garbage, AuthoritiesKey: garbage, NextCertificateKey: next.Next.Certificate, NextPrivateKeyKey: next.Next.PrivateKey},
		"all, also what was next": {CertificateKey: garbage, AuthoritiesKey: garbage, NextCertificateKey: garbage},
	} {
		for leader, rotator := range map[string]*Rotator{"the leader": {memory: memory{state: served}}, "a new leader": {}} {
			state, _ := rotator.state(&corev1.Secret{Data: data}, hooks)
			if state.Empty() { // nothing is announced, and a pair is issued
				state = state.Prepare(pair(t, host))
			}
			if !bytes.Contains(state.Bundle(), served.Bundle()) {
				t.Errorf("%s, %s: the authority that is served is not trusted", name, leader)
			}
			now := time.Now()
			if d := settings.Decide(state, Seen{Now: now, Trusted: now, Served: now}); d.Action == Promote || d.Action == Retire {
				t.Errorf("%s, %s: %s at once", name, leader, d.Action)
			}
		}
	}
}
