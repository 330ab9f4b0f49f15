package rulebook

//go:generate sh -c "go run ../../cmd/dra-steward explain --all >../../docs/rules.md.new && mv ../../docs/rules.md.new ../../docs/rules.md"
//go:generate sh -c "go run ../../cmd/dra-steward metrics >../../docs/metrics.md.new && mv ../../docs/metrics.md.new ../../docs/metrics.md"
