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
# Without these it says that it is v0.0.0, which charts with a kubeVersion refuse.
CONTROLPLANE_LDFLAGS := -s -w $(foreach it,gitVersion=$(KUBERNETES) gitMajor=1 gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))),-X k8s.io/component-base/version.$(it))
CONTROLPLANE_KEY := $(KUBERNETES)-$(shell (cat $(CONTROLPLANE_SOURCES); echo '$(CONTROLPLANE_LDFLAGS)') | sha256sum | cut -c1-12)
CONTROLPLANE := $(CACHE)/controlplane/$(CONTROLPLANE_KEY)/controlplane
# Tools of the chart, each built from its Go module.
HELM := $(CACHE)/helm/v4.3.1/helm
HELM_3 := $(CACHE)/helm/v3.22.0/helm
HELM_DOCS := $(CACHE)/helm-docs/v1.14.2/helm-docs
PROMTOOL := $(CACHE)/promtool/v0.316.0/promtool
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator@v0.85.0
CERT_MANAGER := github.com/cert-manager/cert-manager@v1.21.2
CHART_CRDS := $(CACHE)/crds/$(subst /,+,$(notdir $(PROMETHEUS_OPERATOR))+$(notdir $(CERT_MANAGER)))
CHART_TOOLS := $(HELM) $(HELM_3) $(HELM_DOCS) $(PROMTOOL) $(CHART_CRDS)
CHART_ENV := ZONEWISE_HELM=$(abspath $(HELM)) ZONEWISE_HELM_3=$(abspath $(HELM_3)) ZONEWISE_HELM_DOCS=$(abspath $(HELM_DOCS)) \
	ZONEWISE_PROMTOOL=$(abspath $(PROMTOOL)) ZONEWISE_CRDS=$(abspath $(CHART_CRDS))
CLUSTER_ENV := ZONEWISE_CONTROLPLANE=$(abspath $(CONTROLPLANE)) $(CHART_ENV)
PANIC_TEST := serve::answers::a_panic_in_deciding_costs_no_more_than_its_own_patch
FULL_SIZE := certificates::rotations_under_load certificates::files_swapped_under_load \
	controller::nodes_join_one_zone controller::a_rollout_is_left_alone
# Most tests wait for a process or the API server rather than for the processor.
WAITING := --test-threads 8
# What random tests multiply their number of cases by.
ifeq ($(origin CASES),undefined)
CASES = 0.25
test-cluster ci: CASES = 1
endif
GO_MODULES := tests/controlplane tests/quantities benches/peers

# Prints the step and the seconds since make started.
ifndef BEGAN
export BEGAN := $(shell date +%s)
endif
step = @printf '\n== %s (%d s so far)\n' '$(1)' $$(($$(date +%s) - $(BEGAN)))

# What runs in the background as $$!, and takes minutes, says so now and then.
wait_for_it = while kill -0 $$! 2>/dev/null; do sleep 1; (( SECONDS % 20 )) || echo "  still building, $$SECONDS s"; done; wait $$!
# Builds the program of a Go package (with flags) at the version that its folder is named after. An interrupted build leaves nothing.
go_install = @mkdir -p $(@D); set -m; GOBIN=$(abspath $(@D)) go install -trimpath -ldflags '-s -w' $(2) $(1)@$(notdir $(@D)) & $(wait_for_it)

.PHONY: help demo test test-cluster ci full-size controlplane chart-tools chart-readme quantities lint docs bench simulate-bench replica-table memory-bench image clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\n%s\n' 'Variables, as in `make demo ARGS=--once`:'
	@printf '  %-18s %s\n' ARGS 'arguments of `zonewise demo` or `simulate`; `make demo ARGS=--help` lists them' \
		CARGO_TARGET_DIR 'where cargo builds (target)' \
		CASES 'share of the random cases that tests try (0.25; 1 in test-cluster and ci)'

demo: ## Show it at work, with no cluster (ARGS=--once exits when done)
	@cargo run -- demo $(ARGS)

test: ## Test what needs no control plane
	$(call step,the library (CASES=$(CASES)))
	@CASES=$(CASES) cargo test --lib --bins --test core --no-fail-fast
	$(call step,the binary against scripted servers)
	@cargo test --test process --no-fail-fast -- --test-threads 12
	$(call step,the chart by helm 4)
	@if [ -x $(HELM) ]; then $(CHART_ENV) cargo test --test chart --no-fail-fast; \
		else echo 'SKIPPED: helm is not built; `make $(HELM)` builds it'; fi

test-cluster: $(CONTROLPLANE) $(HELM) ## Test zonewise on a real control plane (builds it first)
	$(call step,on the control plane (CASES=$(CASES)))
	@CASES=$(CASES) $(CLUSTER_ENV) cargo test --test cluster --no-fail-fast -- $(WAITING)

ci: $(CONTROLPLANE) $(CHART_TOOLS) quantities lint docs ## Check all that must hold before a change lands
	$(call step,the Go peer that benchmarks compare with)
	@cd benches/peers && go test ./...
	$(call step,the release build survives a panic)
	@cargo build --release
	@ZONEWISE_TEST_BINARY=$(TARGET)/release/zonewise \
		cargo test --test process -- --exact $(PANIC_TEST) | tee $(TARGET)/panic-test.log
	@grep -q '1 passed' $(TARGET)/panic-test.log
	@$(MAKE) --no-print-directory test CASES=$(CASES)
	$(call step,the chart by helm 3 and promtool and helm-docs)
	@$(CHART_ENV) cargo test --test chart -- --ignored
	$(call step,on the control plane)
	@CASES=$(CASES) $(CLUSTER_ENV) cargo test --test cluster --no-fail-fast -- --include-ignored $(WAITING)

full-size: $(CONTROLPLANE) ## Run four scenes of test-cluster at full size: rotations for 3 minutes, 300 nodes, rollouts
	$(call step,at full size)
	@mkdir -p $(TARGET)
	@$(CLUSTER_ENV) ZONEWISE_FULL_SIZE=1 cargo test --test cluster -- --test-threads 1 --exact $(FULL_SIZE) | tee $(TARGET)/full-size.log
	@grep -q '$(words $(FULL_SIZE)) passed' $(TARGET)/full-size.log

controlplane: $(CONTROLPLANE) ## Build the test control plane, one program, and say how to start it
	@printf '%s\n' 'Start it with this; it prints a line of JSON with its kubeconfig, and Ctrl-C ends it:' '  $(CONTROLPLANE) up'

$(CONTROLPLANE): $(CONTROLPLANE_SOURCES)
	$(call step,building the control plane of Kubernetes $(KUBERNETES): about 6 minutes the first time)
	@mkdir -p $(dir $@)
	@set -m; cd tests/controlplane && go build -trimpath -ldflags '$(CONTROLPLANE_LDFLAGS)' -o $(abspath $@).new . & $(wait_for_it)
	@mv $@.new $@

chart-tools: $(CHART_TOOLS) ## Build what the tests of the chart need: helm 4 and 3, helm-docs, promtool, CRDs

chart-readme: $(HELM_DOCS) ## Write the chart's README.md from its values.yaml
	@$(HELM_DOCS) --chart-search-root charts --sort-values-order file --log-level warning

$(HELM): ; $(call step,building helm $(notdir $(@D)): about 2 minutes the first time)
	$(call go_install,helm.sh/helm/v4/cmd/helm)

$(HELM_3): ; $(call step,building helm $(notdir $(@D)): about 2 minutes the first time)
	$(call go_install,helm.sh/helm/v3/cmd/helm)

$(HELM_DOCS): ; $(call step,building helm-docs $(notdir $(@D)): seconds)
	$(call go_install,github.com/norwoodj/helm-docs/cmd/helm-docs)

# Without what discovers targets in clouds, which is most of it.
$(PROMTOOL): ; $(call step,building promtool $(notdir $(@D)): about 2 minutes the first time)
	$(call go_install,github.com/prometheus/prometheus/cmd/promtool,-tags remove_all_sd)

$(CHART_CRDS): ; $(call step,fetching the CRDs of the Prometheus operator and of cert-manager)
	@mkdir -p $@.new
	@dir=$$(go mod download -json $(PROMETHEUS_OPERATOR) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p'); \
		cp $$dir/example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml $@.new
	@dir=$$(go mod download -json $(CERT_MANAGER) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p'); \
		cp $$dir/deploy/crds/cert-manager.io_{certificates,issuers}.yaml $@.new
	@rm -rf $@ && mv $@.new $@

quantities: ## Check that the CPU vectors are what apimachinery's parser says
	$(call step,CPU quantities by apimachinery)
	@cd tests/quantities && go run . | cmp - ../vectors/quantities.jsonl && echo '5,000 expected values are as committed'

lint: ## Fail on code that is not formatted, and on warnings
	$(call step,format and lint)
	@cargo fmt --check
	@unformatted=$$(gofmt -l $(GO_MODULES)); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	@cargo clippy --all-targets -- -D warnings
	@for module in $(GO_MODULES); do (cd $$module && go vet ./...); done

docs: ## Build the documentation of the code
	$(call step,docs)
	@RUSTDOCFLAGS='-D warnings' cargo doc --no-deps

bench: ## Compare speed with a Go peer and a handler that only reads (needs wrk)
	@benches/run.sh

simulate-bench: ## Compare hints on random traces with Kubernetes' own (ARGS of `zonewise simulate`)
	@benches/simulate.sh $(ARGS)

replica-table: ## Write the table of docs/heuristics.md: hints by number of pods, with Kubernetes' own
	@cd benches/peers && go run . replicas >../../tests/vectors/replicas.jsonl
	@GOLDEN_WRITE=1 cargo test --quiet --test core replica_table

memory-bench: $(CONTROLPLANE) ## Compare a replica's memory on a large cluster with controller-runtime's caches (Linux)
	@ZONEWISE_CONTROLPLANE=$(abspath $(CONTROLPLANE)) benches/memory.sh

image: ## Build the container image with docker, podman or buildah (see docs/image.md)
	@.ci/image

clean: ## Remove what was built
	@cargo clean
	@rm -rf $(CACHE)
