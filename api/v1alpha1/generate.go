package v1alpha1

//go:generate go tool -modfile=../../go.tools.mod controller-gen object paths=.
//go:generate go tool -modfile=../../go.tools.mod controller-gen crd paths=. output:crd:dir=../../charts/dra-steward/files/crds
//go:generate go tool -modfile=../../go.tools.mod crd-ref-docs --source-path=. --config=reference.yaml --renderer=markdown --output-path=../../docs/api.md --log-level=ERROR
