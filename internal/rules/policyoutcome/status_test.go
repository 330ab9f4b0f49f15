package policyoutcome

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

func at(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }

func loaded(name, digest string, problems ...Problem) Replica {
	return Replica{Name: name, Load: &Load{Revision: "r" + digest, Digests: map[string]string{"A-1": digest, "A-2": "same"}, Problems: problems}}
}

func broken(configMap string, line int) Problem {
	return Problem{ConfigMap: configMap, UID: "u", Problem: policy.Problem{File: "a.rego", Line: line, Column: 2, Message: "bad"}}
}

// TestNext runs a history: each step is the answers of the replicas, and the changes in
// them.
func TestNext(t *testing.T) {
	silent := Replica{Name: "b", Silent: "connection refused"}
	var s Status
	for i, step := range []struct {
		replicas []Replica
		news     []string
		summary  string
		since    int // of A-1, in minutes; A-2 is in force since the first agreement
	}{
		{[]Replica{silent, loaded("a", "1")}, nil, "revision r1 in force on 1 of 2 replicas; 1 do not answer", -1},
		{[]Replica{loaded("a", "1"), loaded("b", "1")}, nil, "revision r1 in force on 2 of 2 replicas", 1},
		{[]Replica{loaded("a", "1", broken("site", 3)), loaded("b", "1")},
			[]string{"true site a.rego:3:2: bad; the previous policies stay in force on a"},
			"revision r1 in force on 2 of 2 replicas; 1 refuse the present ConfigMaps: ConfigMap site: a.rego:3:2: bad", 1},
		{[]Replica{loaded("a", "1", broken("site", 3)), loaded("b", "1", broken("site", 3))}, nil, "", 1},
		{[]Replica{silent, {Name: "a", Silent: "timeout"}}, nil, "2 do not answer", 1},
		{[]Replica{loaded("a", "1", broken("site", 4), broken("other", 1)), loaded("b", "1")}, []string{"true site a.rego:4:2", "true other a.rego:1:2"}, "", 1},
		{[]Replica{loaded("a", "2", broken("other", 1)), loaded("b", "1")}, []string{"false site resolved"}, "revision r1 in force on 1 of 2 replicas; revision r2 in force on 1 of 2 replicas; 1 refuse", 1},
		{[]Replica{loaded("a", "2"), loaded("b", "2")}, []string{"false other resolved: revision r2 in force on 2 of 2 replicas"}, "", 7},
		{nil, nil, "no replica of the webhook runs", 7},
	} {
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		kept, err := Decode(data) // as it comes out of the ConfigMap
		if err != nil {
			t.Fatal(err)
		}
		next, events := kept.Next(step.replicas, at(i))
		var news []string
		for _, e := range events {
			news = append(news, fmt.Sprint(e.Warning, " ", e.ConfigMap, " ", e.Message))
		}
		if len(news) != len(step.news) {
			t.Errorf("step %d: news %q, want %q", i, news, step.news)
		} else {
			for j := range news {
				if !strings.HasPrefix(news[j], step.news[j]) {
					t.Errorf("step %d: news %q, want %q", i, news[j], step.news[j])
				}
			}
		}
		if got := next.Summary(); !strings.HasPrefix(got, step.summary) {
			t.Errorf("step %d: %q, want %q", i, got, step.summary)
		}
		if got := next.InForce["A-1"]; step.since >= 0 && !got.Since.Equal(at(step.since)) || step.since < 0 && len(next.InForce) > 0 {
			t.Errorf("step %d: in force %v, want minute %d", i, next.InForce, step.since)
		}
		if step.since >= 0 && !next.InForce["A-2"].Since.Equal(at(1)) {
			t.Errorf("step %d: what did not change is in force since %v", i, next.InForce["A-2"])
		}
		s = next
	}
}

// TestDecodeOfSomethingElse: a ConfigMap that was edited by hand does not stop the
// collector.
func TestDecodeOfSomethingElse(t *testing.T) {
	s, err := Decode(map[string]string{replicasKey: "a: [", inForceKey: "A-1: {digest: x, since: 2026-01-02T03:04:05Z}"})
	if err == nil || !strings.Contains(err.Error(), replicasKey) || s.InForce["A-1"].Digest != "x" {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := Decode(nil); err != nil || len(s.Replicas)+len(s.InForce) > 0 {
		t.Errorf("%v, %v", s, err)
	}
}
