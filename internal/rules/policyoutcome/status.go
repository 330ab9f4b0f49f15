// Package policyoutcome has the results of loading policies, as each replica of the webhook serves them and
// as the controller writes them into a ConfigMap.
package policyoutcome

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Path is where a replica serves its [Load], at the address of its metrics.
const Path = "/policies"

// A Load is what a replica says of its policies.
type Load struct {
	// Revision is that of the policies in force; the replica took them over at Since.
	Revision string    `json:"revision"`
	Since    time.Time `json:"since"`
	// Digests say by code what the policies deny.
	Digests map[string]string `json:"digests,omitempty"`
	// Problems say why other policies that it was given are not in force.
	Problems []Problem `json:"problems,omitempty"`
}

// A Problem is one reason for which a replica goes on with the policies before.
type Problem struct {
	// ConfigMap and UID name the ConfigMap; empty if the problem is in none.
	ConfigMap string    `json:"configMap,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	// File of the problem is the key in the ConfigMap.
	policy.Problem `json:",inline"`
}

func (p Problem) same(other Problem) bool {
	return p.ConfigMap == other.ConfigMap && p.Problem == other.Problem
}

// A Replica is one of the webhook.
type Replica struct {
	// Name is that of its pod.
	Name string `json:"name"`
	// Load is what it said, nil if it did not answer; Silent says why.
	Load   *Load  `json:"load,omitempty"`
	Silent string `json:"silent,omitempty"`
}

// InForce is the time at which a policy began to deny what it denies.
type InForce struct {
	Digest string    `json:"digest"`
	Since  time.Time `json:"since"`
}

// A Status is what is known of all replicas.
type Status struct {
	Replicas []Replica
	// InForce is about the policies, by their codes, on which all replicas agreed last.
	InForce map[string]InForce
}

// An Event is news about policies.
type Event struct {
	// ConfigMap and UID name what it is about; empty is the status itself.
	ConfigMap string
	UID       types.UID
	Warning   bool
	Message   string
}

// Next returns the status after the replicas have been asked, and what is new in it.
func (s Status) Next(replicas []Replica, now time.Time) (Status, []Event) {
	next := Status{Replicas: slices.Clone(replicas), InForce: s.InForce}
	slices.SortFunc(next.Replicas, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
	if digests, agreed := next.agreed(); agreed {
		next.InForce = map[string]InForce{}
		for code, digest := range digests {
			next.InForce[code] = InForce{digest, now}
			if before := s.InForce[code]; before.Digest == digest {
				next.InForce[code] = before
			}
		}
	}
	return next, next.news(s)
}

// agreed returns the digests that all replicas have; false if one is silent or differs.
func (s Status) agreed() (digests map[string]string, all bool) {
	for i, replica := range s.Replicas {
		if replica.Load == nil || i > 0 && !maps.Equal(replica.Load.Digests, digests) {
			return nil, false
		}
		digests = replica.Load.Digests
	}
	return digests, len(s.Replicas) > 0
}

// refusal is a problem with the replicas that have it.
type refusal struct {
	Problem
	replicas []string
}

func (s Status) refusals() (all []refusal) {
	for _, replica := range s.Replicas {
		if replica.Load == nil {
			continue
		}
		for _, problem := range replica.Load.Problems {
			i := slices.IndexFunc(all, func(r refusal) bool { return r.same(problem) })
			if i < 0 {
				i, all = len(all), append(all, refusal{Problem: problem})
			}
			all[i].replicas = append(all[i].replicas, replica.Name)
		}
	}
	return all
}

// news are the problems that were not there before, and the ConfigMaps that have none
// any more.
func (s Status) news(before Status) (events []Event) {
	now, then := s.refusals(), before.refusals()
	for _, r := range now {
		if !slices.ContainsFunc(then, func(old refusal) bool { return old.same(r.Problem) }) {
			events = append(events, Event{r.ConfigMap, r.UID, true,
				fmt.Sprintf("%s; the previous policies stay in force on %s", r.Problem.Problem, strings.Join(r.replicas, ", "))})
		}
	}
	if !slices.ContainsFunc(s.Replicas, func(r Replica) bool { return r.Load != nil }) {
		return events
	}
	mended := map[string]bool{}
	for _, old := range then {
		still := slices.ContainsFunc(now, func(r refusal) bool { return r.ConfigMap == old.ConfigMap })
		if !still && !mended[old.ConfigMap] {
			mended[old.ConfigMap] = true
			events = append(events, Event{old.ConfigMap, old.UID, false, "resolved: " + s.Summary()})
		}
	}
	return events
}

// Summary is the status in one line.
func (s Status) Summary() string {
	revisions := map[string]int{}
	refusing, silent := 0, 0
	for _, replica := range s.Replicas {
		switch {
		case replica.Load == nil:
			silent++
			continue
		case len(replica.Load.Problems) > 0:
			refusing++
		}
		revisions[replica.Load.Revision]++
	}
	var parts []string
	for _, revision := range slices.Sorted(maps.Keys(revisions)) {
		parts = append(parts, fmt.Sprintf("revision %s in force on %d of %d replicas", revision, revisions[revision], len(s.Replicas)))
	}
	if refusing > 0 {
		parts = append(parts, fmt.Sprintf("%d refuse the present ConfigMaps: %s", refusing, s.refusals()[0].place()))
	}
	if silent > 0 {
		parts = append(parts, fmt.Sprintf("%d do not answer", silent))
	}
	if len(parts) == 0 {
		return "no replica of the webhook runs"
	}
	return strings.Join(parts, "; ")
}

// place says in one line what is wrong where.
func (r refusal) place() string {
	line, _, _ := strings.Cut(r.Problem.Problem.String(), "\n")
	if r.ConfigMap == "" {
		return line
	}
	return "ConfigMap " + r.ConfigMap + ": " + line
}

// The keys of the ConfigMap.
const (
	summaryKey  = "summary"
	replicasKey = "replicas.yaml"
	inForceKey  = "in-force.yaml"
)

// Encode returns the status as the data of a ConfigMap.
func (s Status) Encode() (map[string]string, error) {
	shown := slices.Clone(s.Replicas)
	for i := range shown {
		if shown[i].Load != nil {
			load := *shown[i].Load
			load.Digests = nil // what they agree on follows below
			shown[i].Load = &load
		}
	}
	replicas, err := yaml.Marshal(shown)
	if err != nil {
		return nil, err
	}
	inForce, err := yaml.Marshal(s.InForce)
	if err != nil {
		return nil, err
	}
	return map[string]string{summaryKey: s.Summary() + "\n", replicasKey: string(replicas), inForceKey: string(inForce)}, nil
}

// Decode reads what Encode has written. What cannot be read is left out and reported.
func Decode(data map[string]string) (s Status, err error) {
	if bad := yaml.Unmarshal([]byte(data[replicasKey]), &s.Replicas); bad != nil {
		s.Replicas, err = nil, fmt.Errorf("%s: %w", replicasKey, bad)
	}
	if bad := yaml.Unmarshal([]byte(data[inForceKey]), &s.InForce); bad != nil {
		s.InForce, err = nil, errors.Join(err, fmt.Errorf("%s: %w", inForceKey, bad))
	}
	return s, err
}
