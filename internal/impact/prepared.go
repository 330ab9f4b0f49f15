package impact

import "github.com/dra-steward/dra-steward/pkg/validate"

// Prepared returns the claims that drivers have prepared on a node.
func (i *Estimator) Prepared(node string, drivers []string) (all []validate.PreparedClaim, _ error) {
	for _, driver := range drivers {
		for _, p := range i.Index.Prepared(node, driver) {
			all = append(all, validate.PreparedClaim{Namespace: p.Claim.Namespace, Claim: p.Claim.Name, Pod: p.Pod.Name, Driver: driver})
		}
	}
	return all, i.complete()
}
