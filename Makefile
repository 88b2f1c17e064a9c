# One line a target; `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO := cargo --locked
# Seconds of arbitrary input for each of the three kinds that `make full` throws at the program.
FUZZ_SECONDS ?= 200

.PHONY: help run serve test parts lint fmt ci bench load full clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | column -t -s "$$(printf '\t')"

run: ## ask the demo assistant its question
	$(CARGO) run --quiet -- run "Сколько я потратил на такси в сентябре?"

serve: ## serve the demo assistant on 127.0.0.1:8080
	$(CARGO) run --quiet -- serve

parts: ## install the real parts that the tests need
	tests/real-parts.sh

test: parts ## run every test, with the real parts where they can be had
	$(CARGO) test --doc
	$(CARGO) test --lib --bins --examples --benches --no-fail-fast
	GLASSBOX_TEST_CONTAINERS=1 $(CARGO) test --test it containers::
	$(CARGO) test --test it --no-fail-fast -- --skip containers::

lint: ## formatting, clippy, dependency rules
	cargo fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --offline check bans licenses sources; else echo "SKIP: cargo-deny is not installed; deny.toml was not checked"; fi

fmt: ## format the code
	cargo fmt

ci: lint test ## what .ci/run runs

bench: ## print what the runtime costs, one `name value` a line
	$(CARGO) bench --bench costs

load: ## ten times the demonstration's load, with faults; the report in target/load.html
	$(CARGO) run --release --quiet -- load --times 10 --duration 60s --tool-failures 0.1 --model-429 0.05 \
		--fail-if 'success<0.99' --fail-if 'lost>0' --fail-if 'dropped>0' --fail-if 'missing_spans>0' --html target/load.html

full: export GLASSBOX_TEST_FULL = 1
full: lint parts ## as ci, with the longer checks; FUZZ_SECONDS (200) for each of three kinds of input
	$(CARGO) test --doc
	$(CARGO) test --lib --bins --examples --benches --no-fail-fast
	$(CARGO) test --test it containers:: -- --test-threads 1
	$(CARGO) test --test it --no-fail-fast -- --skip fuzz:: --skip containers::
	GLASSBOX_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --test it --no-fail-fast fuzz:: -- --nocapture
	ulimit -n 4096; $(CARGO) run --release --quiet -- load --sessions 10000 --concurrency 1000 --session-timeout 5m \
		--fail-if 'success<1' --fail-if 'lost>0' --fail-if 'refused>0' --fail-if 'failed>0'
	$(CARGO) run --release --quiet -- load --rate 50 --duration 10m --fail-if 'success<1' --fail-if 'lost>0' \
		--fail-if 'dropped>0' --fail-if 'missing_spans>0' --fail-if 'growth>400'

clean: ## remove what was built
	cargo clean
