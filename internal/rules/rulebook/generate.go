package rulebook

//go:generate go test . -run TestPagesAreCurrent -update
//go:generate sh -c "go run ../../../cmd/dra-steward metrics >../../../docs/metrics.md.new && mv ../../../docs/metrics.md.new ../../../docs/metrics.md"
