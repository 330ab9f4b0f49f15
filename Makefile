# make help lists the targets. Go and make are all that is needed; with gcc, make test checks
# the words of texts, and make test-long has a part with the race detector.

CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dra-steward
CITEST = CGO_ENABLED=0 go build -trimpath -o "$(CACHE)/bin/citest" ./tools/citest && exec "$(CACHE)/bin/citest"

.DEFAULT_GOAL := help
.PHONY: help build image-root image image-push sbom krew snapshot docs demo test test-short test-long test-hostile test-node flakes bench-long bench-policies oracle mutants lint prose generate

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## build the binary into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/dra-steward

PROGRAM ?= dra-steward
IMAGE_ROOT ?= bin/image/$(PROGRAM)
IMAGE_LAYOUT ?= bin/oci/$(PROGRAM)
# Runs on this machine also where GOOS and GOARCH name the platform of the image.
IMAGE = cd image && env -u GOOS -u GOARCH go run .

image-root: ## all that goes into the image, below IMAGE_ROOT: program, SBOM, licenses; PROGRAM=dra-steward-scheduler
	@$(IMAGE) root -program $(PROGRAM) $(if $(GOOS),-platforms $(GOOS)/$(or $(GOARCH),amd64)) "$(abspath $(IMAGE_ROOT))"

image: ## the image for amd64 and arm64, below IMAGE_LAYOUT in the OCI layout; needs no container engine
	@$(IMAGE) save -program $(PROGRAM) "$(abspath $(IMAGE_LAYOUT))"

image-push: ## push the image to a registry: IMAGE_REFERENCE=registry.example.com/dra-steward:v0.1.0
	@$(IMAGE) push -program $(PROGRAM) "$(IMAGE_REFERENCE)"

sbom: image-root ## write the bill of materials (CycloneDX) to standard output
	@cat "$(IMAGE_ROOT)/bom.json"

krew: ## the archives and the manifest of the plugin of kubectl, below bin/krew
	@$(IMAGE) krew "$(CURDIR)/bin/krew"

snapshot: ## build a release without publishing it, below bin/dist
	@export VERSION="$${VERSION:-v$$(sed -n 's/^appVersion: //p' charts/dra-steward/Chart.yaml)-dev}" COMMIT="$${COMMIT:-$$(git rev-parse HEAD)}" && \
	  goreleaser=$$(cd tools/release && CGO_ENABLED=0 go tool -n goreleaser) && "$$goreleaser" release --snapshot --clean --skip=sign

SITE ?= bin/site
HUGO_FLAGS ?=

docs: ## the site with this documentation, below bin/site: static files for any path of a server
	@hugo=$$(cd tools/site && CGO_ENABLED=0 go tool -n hugo) && "$$hugo" --source tools/site --destination "$(abspath $(SITE))" --cleanDestinationDir --noBuildLock --quiet --panicOnWarning $(HUGO_FLAGS)

demo: ## run dra-steward against a real control plane; KEEP=1 leaves it running
	@cd test/envtest && go build -o "$(CACHE)/bin/demo" ./demo && cd ../.. && exec "$(CACHE)/bin/demo" $(if $(KEEP),--keep)

test: ## run all checks and tests; the first run builds Kubernetes 1.37
	@$(CITEST) all

test-short: ## run what needs no control plane
	@$(CITEST) short

PART ?=

test-long: ## run the tests on the control planes and the code of Kubernetes 1.36, 1.35 and 1.34, in parts: goes on where it ended, or PART=
	@$(CITEST) long $(if $(PART),'$(PART)')

PACKAGE ?=

flakes: ## run the packages that match PACKAGE again and again under load, and record how many runs fail
	@$(CITEST) flakes $(if $(PACKAGE),'$(PACKAGE)')

test-node: ## run the tests of the node, and helm install, on containerd and runc: needs root, installs runc and nftables
	@{ command -v runc && command -v nft; } >/dev/null || { echo "installing runc and nftables"; apt-get update >/dev/null && apt-get install -y --no-install-recommends runc nftables >/dev/null; }
	cd test/node && DRA_STEWARD_NODE_CONTAINERD=1 go test -count=1 -v -timeout=60m -run 'TestContainerd|TestInstall' .

RUN ?=
AFTER ?= 0

mutants: ## put plausible bugs into the tree, one at a time, and name those that no test finds (RUN=, AFTER=)
	@go run ./tools/mutants -run '$(RUN)' -after $(AFTER)

CAMPAIGN ?= 10m

test-hostile: ## run tenants who try to get round an installed release, for CAMPAIGN and half as long again
	cd test/envtest && DRA_STEWARD_CAMPAIGN=$(CAMPAIGN) go test -count=1 -v -timeout=3h ./hostile

SLICES ?= 1000 10000

bench-long: ## measure tracker, evictor and scheduler compared with those of Kubernetes, and check the ratios with test/results/ranges.tsv
	@{ ( cd test/tracker && go test -c -o "$(CACHE)/bin/tracker.test" . && for n in $(SLICES); do \
	  echo "$$n slices"; \
	  TRACKER_SLICES=$$n "$(CACHE)/bin/tracker.test" -test.timeout=2h -test.run='^$$' -test.bench='Build|Memory|Rule|Patch' -test.benchtime=3x && \
	  TRACKER_SLICES=$$n "$(CACHE)/bin/tracker.test" -test.timeout=2h -test.run='^$$' -test.bench='SliceUpdate|Status' -test.benchtime=2000x || exit 1; \
	done ) && echo "10000 claims" && \
	( cd test/evictor && EVICTOR_LONG=1 go test -run '^$$' -bench 'Evict|Memory' -benchtime 1x -timeout 60m . ) && \
	( cd test/evictor && go test -run '^$$' -bench 'Events|Latency' -benchtime 100x . ) && \
	( cd test/envtest && go test -run '^$$' -bench PatchToBound -benchtime 50x ./scheduler ) && \
	( cd test/envtest && go test -run '^$$' -bench Throughput -benchtime 1x -timeout 1h ./scheduler ) || echo FAIL; } | go run ./tools/citest ranges

bench-policies: ## measure what policies cost: requests, decisions compared with others, growth
	go test ./webhook -run '^$$' -bench '^BenchmarkPolicies$$' -benchtime 2000x
	go test ./pkg/policy -run '^$$' -bench 'Library/8|Growth/evaluate|Namespaces/evaluate' -benchtime 2000x -benchmem
	go test ./pkg/policy -run '^$$' -bench '/load' -benchtime 3x -benchmem
	cd test/oracle && go test . -run '^$$' -bench '^BenchmarkPolicies$$' -benchtime 1000x -benchmem

COUNT ?= 100000
SEED ?= 1
MINOR ?= 1.37

oracle: ## hold rules and defaults against an API server's own code: COUNT, SEED, MINOR, RECORD
	@cd test/oracle && go build -o "$(CACHE)/bin/oracle" ./cmd/oracle && exec "$(CACHE)/bin/oracle" -count $(COUNT) -seed $(SEED) -minor $(MINOR) $(if $(RECORD),-record ../../test/results/performance-lab.md)

lint: ## check formatting, vet, staticcheck and the words of docs/glossary.md
	@$(CITEST) lint

prose: ## check pages, help, messages and comments with vale against docs/glossary.md; needs a C compiler
	@cd tools/prose && go run . ../..

generate: ## write what is generated: documentation, deep copies, the schema and page of the chart
	go generate ./...
