package policystatus

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

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
			load.Digests = nil // what they agree on stands below
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
