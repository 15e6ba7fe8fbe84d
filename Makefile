# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where cargo builds.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# Built tools are kept here, keyed by version and sources.
CACHE := .cache
KUBERNETES := v1.37.2
CONTROLPLANE_SOURCES := $(wildcard tests/controlplane/*.go) tests/controlplane/go.mod tests/controlplane/go.sum
CONTROLPLANE_KEY := $(KUBERNETES)-$(shell cat $(CONTROLPLANE_SOURCES) | sha256sum | cut -c1-12)
CONTROLPLANE := $(CACHE)/controlplane/$(CONTROLPLANE_KEY)/controlplane
PANIC_TEST := answers::a_panic_in_deciding_costs_no_more_than_its_own_patch
GO_MODULES := tests/controlplane tests/quantities benches/peers

step = @printf '\n== %s\n' '$(1)'

.PHONY: help demo test controlplane quantities format-check lint docs bench simulate-bench memory-bench ci clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\n%s\n' 'Variables, as in `make demo ARGS=--once`:'
	@printf '  %-18s %s\n' ARGS 'arguments of `zonewise demo` or `simulate`; `make demo ARGS=--help` lists them' \
		CARGO_TARGET_DIR 'where cargo builds (target)' \
		ZONEWISE_SCENES 'run only these scenes of the control-plane tests, as in 3,16'

demo: ## Show it at work, with no cluster (ARGS=--once ends after that)
	@cargo run -- demo $(ARGS)

test: $(CONTROLPLANE) quantities ## Run every test, against a real control plane too
	$(call step,the release build survives a panic)
	@cargo build --release
	@ZONEWISE_TEST_BINARY=$(TARGET)/release/zonewise \
		cargo test --test serve -- --exact $(PANIC_TEST) | tee $(TARGET)/panic-test.log
	@grep -q '1 passed' $(TARGET)/panic-test.log
	$(call step,the Go peer that benchmarks compare with)
	@cd benches/peers && go test ./...
	$(call step,tests)
	@ZONEWISE_CONTROLPLANE=$(abspath $(CONTROLPLANE)) cargo test --lib --bins --tests --no-fail-fast

controlplane: $(CONTROLPLANE) ## Build the test control plane, one program, and say how to start it
	@printf '%s\n' 'Start it with this; it prints a line of JSON with its kubeconfig, and Ctrl-C ends it:' '  $(CONTROLPLANE) up'

$(CONTROLPLANE): $(CONTROLPLANE_SOURCES)
	$(call step,building the control plane of Kubernetes $(KUBERNETES): about 6 minutes the first time)
	@mkdir -p $(dir $@)
	@set -m; cd tests/controlplane && go build -trimpath -ldflags '-s -w' -o $(abspath $@).new . & \
		while kill -0 $$! 2>/dev/null; do sleep 20; kill -0 $$! 2>/dev/null && echo "  still building, $$SECONDS s"; done; wait $$!
	@mv $@.new $@

quantities: ## Check that the CPU vectors are what apimachinery's parser says
	$(call step,CPU quantities by apimachinery)
	@cd tests/quantities && go run . | cmp - ../vectors/quantities.jsonl && echo '5,000 expected values are as committed'

format-check: ## Fail on code that is not formatted
	$(call step,format)
	@cargo fmt --check
	@unformatted=$$(gofmt -l $(GO_MODULES)); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }

lint: ## Fail on warnings
	$(call step,lint)
	@cargo clippy --all-targets -- -D warnings
	@for module in $(GO_MODULES); do (cd $$module && go vet ./...); done

docs: ## Build the documentation of the code
	$(call step,docs)
	@RUSTDOCFLAGS='-D warnings' cargo doc --no-deps

bench: ## Compare speed with a Go peer and a handler that only reads (needs wrk)
	@benches/run.sh

simulate-bench: ## Compare hints on random traces with Kubernetes' own (ARGS of `zonewise simulate`)
	@benches/simulate.sh $(ARGS)

memory-bench: $(CONTROLPLANE) ## Compare a replica's memory on a large cluster with controller-runtime's caches (Linux)
	@ZONEWISE_CONTROLPLANE=$(abspath $(CONTROLPLANE)) benches/memory.sh

ci: format-check $(CONTROLPLANE) lint docs test ## All that must hold before a change lands

clean: ## Remove what was built
	@cargo clean
	@rm -rf $(CACHE)
