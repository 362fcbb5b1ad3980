SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets run in the order in which they are written: the tests share one machine, and fast ones speak first.
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

# What is built does not depend on flags and workspaces of whoever builds it.
export GOFLAGS := -buildvcs=false
export GOWORK := off
# One setting for everything that is built, so that it is compiled once. Only the race detector wants C.
export CGO_ENABLED := 0

GO ?= go
# Tools are pinned in hack/tools/go.mod and built on first use.
TOOL := $(GO) tool -modfile=hack/tools/go.mod
# golangci-lint with kube-api-linter built in.
LINT := $(TOOL) golangci-lint-kube-api-linter

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)

# What runs the pods of whole runs: process, as which nothing is needed, or kubelet, which wants root on Linux and the packages
# that bin/devcluster names if they are not there.
NODE ?= process
# Which stories are told there. Those that have OnAKubelet in their names are told there only; STORIES=. tells all.
STORIES ?= $(if $(filter kubelet,$(NODE)),OnAKubelet|EveryExample|PodsThatCannotStart,.)

MODULES := . hack/devcluster hack/helm hack/tools test/bench
GENERATED := api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/rbac/role.yaml charts/ekiden docs/reference \
	docs/guides/troubleshooting.md examples/gitops/argocd/argocd-cm.yaml

# The race detector wants a C compiler.
RACE := $(if $(shell command -v $$($(GO) env CC)),-race)
TEST_RACE := $(if $(RACE),CGO_ENABLED=1 )$(GO) test $(RACE) -shuffle=on

##@ Every day

.PHONY: help
help: ## This text. A target without help is not meant to be called.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z0-9_\/-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Write what is generated: deepcopy, CRDs, RBAC, reference docs.
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	rm -rf bin/rbac
	$(TOOL) controller-gen rbac:roleName=ekiden-manager paths=./controllers/... paths=. output:rbac:artifacts:config=bin/rbac
	cp bin/rbac/role.yaml config/rbac/role.yaml # Missing if no marker was found: a blank line parts markers from the comment of a type.
	$(GO) run ./hack/chart
	$(GO) run ./hack/docs

.PHONY: fmt
fmt: ## Format all Go code: gofumpt, our own imports last.
	$(LINT) fmt ./...
	cd hack/devcluster && $(GO) tool -modfile=../tools/go.mod golangci-lint-kube-api-linter fmt --config ../../.golangci.yml ./...
	cd test/bench && $(GO) tool -modfile=../../hack/tools/go.mod golangci-lint-kube-api-linter fmt --config ../../.golangci.yml ./...

.PHONY: lint
lint: ## Lint all of the module, then api/ by the conventions of Kubernetes.
	$(LINT) run ./...
	$(LINT) run --config .golangci-kal.yml ./api/...

.PHONY: test
test: build bin/devcluster bin/helm test-pure test-store test-chart test-crd test-integration test-chaos test-lifetime ## Build everything, then run every test, fast ones first.

.PHONY: test-pure
test-pure: ## Decisions, laws and stories: need nothing.
	$(if $(RACE),,@echo "no C compiler: running without the race detector")
	$(TEST_RACE) $$($(GO) list ./... | grep -vE '/ekiden/(test/(chart|corpus|cost|crd|integration|interleave|lifetime)|runtime/store|controllers/ledger|cli/session/postgres)(/|$$)|/ekiden/test/chaos$$')

.PHONY: test-store
test-store: ## The ports to Postgres against a real server, which is started if EKIDEN_TEST_DSN names none.
	$(TEST_RACE) ./runtime/store/... ./controllers/ledger/... ./cli/session/postgres/... ./test/cost/... ./test/corpus/... ./test/interleave/...

.PHONY: test-chart
test-chart: bin/helm ## The chart against config/, without a cluster.
	$(GO) test -count=1 ./test/chart/...

.PHONY: test-crd
test-crd: bin/devcluster ## Schemas, rules and rights of the API against a real API server.
	$(GO) test -count=1 -timeout=15m ./test/crd/...

.PHONY: test-integration
test-integration: build bin/devcluster ## Whole runs on the development cluster.
	$(GO) test -count=1 -timeout=30m -parallel=8 ./test/integration/...

.PHONY: test-chaos
test-chaos: build bin/devcluster ## A sample of `make chaos`; EKIDEN_GATES=full runs all that the promises ask for.
	$(GO) test -count=1 -timeout=2h ./test/chaos

.PHONY: chaos
chaos: build bin/devcluster ## Kill anything while runs work, and print what that shows: KILLS=1000 SEED=1; test/chaos/README.md has the rest.
	$(GO) test -count=1 -v -timeout=2h -run TestKillAnything ./test/chaos

.PHONY: gates
gates: build bin/devcluster ## The promises at the counts in which they are made, and every planted bug. make test runs samples of it.
	EKIDEN_GATES=full $(GO) test -count=1 -timeout=2h ./test/sim ./test/interleave ./test/cost ./test/corpus
	$(GO) test -count=1 -timeout=30m -run 'CostsFewWrites|WhatAnApprovalWrites|KeepTheStatusSmall|Poison' ./test/integration/...
	EKIDEN_GATES=full $(MAKE) --no-print-directory test-chaos
	$(MAKE) --no-print-directory mutants

.PHONY: test-lifetime
test-lifetime: build bin/devcluster bin/helm ## An installation is upgraded, taken away and put back, on clusters of its own.
	$(GO) test -count=1 -timeout=30m ./test/lifetime/...

.PHONY: e2e
e2e: build $(if $(filter kubelet,$(NODE)),images bin/helm) bin/devcluster ## Whole runs on the node that NODE names: process, or kubelet for those that only containers can tell.
	NODE='$(NODE)' $(GO) test -count=1 -timeout=30m -parallel=8 -run '$(STORIES)' ./test/integration/...

.PHONY: test-devcluster
test-devcluster: images bin/devcluster ## The development cluster itself: its own module, real clusters included.
	cd hack/devcluster && DEVCLUSTER='$(CURDIR)/bin/devcluster' $(GO) test -trimpath ./...

.PHONY: test-bench
test-bench: ## The benches, each small: that they still measure. Their own module; no part of make test.
	cd test/bench && $(GO) test -count=1 -timeout=10m ./...

##@ Before a change is done

.PHONY: mutants
mutants: ## Plant the bugs of docs/reference/mutants.md, one after the other, and fail if a test does not find one. MUTANT=name plants one.
	$(GO) run ./hack/mutants/cmd/mutants --only '$(MUTANT)'

.PHONY: verify
verify: ## Fail if generating, tidying or linting would change or find anything.
	hack/verify-generated.sh '$(MAKE) --no-print-directory generate' $(GENERATED)
	for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff); done
	$(MAKE) --no-print-directory lint

.PHONY: check
check: verify test test-devcluster ## All of the above.

##@ Build and run

.PHONY: build
build: ## Build manager, segment and kubectl-ekiden into bin/, and modelserver and toolserver for tests and the demo.
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/manager .
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/segment ./runtime/cmd/segment
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/kubectl-ekiden ./cli/kubectl-ekiden
	$(GO) build -ldflags '-s -w' -o bin/modelserver ./test/modelserver/cmd/modelserver
	$(GO) build -ldflags '-s -w' -o bin/toolserver ./test/toolserver/cmd/toolserver

.PHONY: images
images: build ## Write the images of manager and segment into bin/images, without Docker. containerd, podman and Docker load them.
	$(GO) build -trimpath -ldflags '-s -w' -o bin/pause ./hack/image/pause
	$(GO) run ./hack/image -out bin/images -version '$(VERSION)' -revision '$(REVISION)' manager=bin/manager segment=bin/segment pause=bin/pause

bin/devcluster: $(shell find hack/devcluster -type f -not -name '*_test.go') hack/build-devcluster.sh ## Build the development cluster: some minutes the first time, seconds after.
	hack/build-devcluster.sh $@

bin/helm: hack/helm/go.mod hack/helm/go.sum ## Build Helm, which installs the chart in tests: some minutes the first time.
	$(GO) build -modfile=hack/helm/go.mod -o $@ helm.sh/helm/v4/cmd/helm

.PHONY: bench
bench: build ## Measure kills, durable steps and a long conversation beside other engines: BENCH_KILLS=100 and so on, see test/bench.
	cd test/bench && $(GO) run . -segment '$(CURDIR)/bin/segment' -out '$(CURDIR)/bin/bench'

.PHONY: demo
demo: build bin/devcluster ## Show a run that is killed and one that waits for people, on a cluster of its own. KEEP=1 leaves the cluster up.
	$(GO) run ./hack/demo

.PHONY: demo-down
demo-down: ## Take down the cluster that KEEP=1 left up.
	$(GO) run ./hack/demo down

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin
