# `make help` lists what there is: each target says what it is for after "##".
SUITE = go run ./internal/integration/cmd/suite

.DEFAULT_GOAL := help
.PHONY: help test test-go test-js types lint browsers model demo soak sweep bench install shots package size

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## everything, as CI runs it; installs what is missing on Debian
	@$(SUITE)

test-go: ## go test -race over every module
	@$(SUITE) go

test-js: ## the scripts' tests that need no browser
	@$(SUITE) js

types: ## tsc --checkJs over every script
	@$(SUITE) types

lint: ## gofmt, go vet, staticcheck
	@$(SUITE) format vet staticcheck

browsers: ## the browser tests whole: every scenario on every engine, hundreds of random schedules, and the outbox's lives (hours)
	@ONCEWARD_BROWSERS=all $(SUITE) browsers
	@$(MAKE) --no-print-directory model

model: ## ten thousand random lives of the outbox in a simulated browser (about two minutes; MODEL_LIVES=…)
	@$(SUITE) -install js
	@MODEL_LIVES=$${MODEL_LIVES:-10000} node --test outbox/model.test.js

SHOTS ?= .cache/shots
shots: ## pictures of every state of the outbox's kit, ru and en, light and dark, three widths: SHOTS=folder
	@$(SUITE) -install browsers
	@ONCEWARD_SHOTS="$(SHOTS)" node --test internal/integration/browser/kit-states.test.js
	@echo "$(SHOTS)/index.html"

package: ## the browser's half for npm: onceward-outbox-VERSION.tgz
	@$(SUITE) -install types
	@go run ./internal/integration/cmd/npm

demo: ## the same taps over the same bad network, without Onceward and with it (about two minutes; in Russian if LANG is)
	@$(SUITE) -install browsers
	@node internal/integration/browser/demo.js

soak: ## minutes of taps over a bad network, judged; SOAK_TAPS=1000 SOAK_RUNS=3 SOAK_SEED=…
	@$(SUITE) -install browsers
	@node internal/integration/browser/planner.soak.js

sweep: ## kill and stop a process at every point of a request, on every store in every mode; prints a table
	@$(SUITE) -install go
	@cd internal/integration/sweep && ONCEWARD_SWEEP=all go test -count=1 -timeout=60m
	@cd internal/integration/histories && ONCEWARD_HISTORIES=100000 go test -count=1 -timeout=60m -v -run Linearizable
	@cd internal/integration/stores && ONCEWARD_CYCLES=300000 ONCEWARD_STORES=all go test -count=1 -timeout=60m -v -run "TestB094|TestPostgresKeepsTheContract"
	@cd internal/integration/frameworks && ONCEWARD_FRAMEWORKS=all go test -count=1 -timeout=60m -run 'Requirement76'

bench: ## measure what docs/speed.md promises about speed, beside others; BENCH_LARGE=1: ten million keys
	@go run ./internal/integration/cmd/bench

size: ## measure what the outbox's scripts weigh, against what they may
	@go run ./internal/integration/cmd/size

install: ## only install what the tests need
	@$(SUITE) -install
