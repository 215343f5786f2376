# One word for each thing to do. `make` alone lists them.
# Needs: python3 (3.11 or later, with venv) and make. Everything else is installed by `make venv`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Every file in benchmarks/ is one measurement; names with a leading underscore are shared parts.
# The one that needs Node and a network has a target of its own.
DIFFERENTIAL := benchmarks/pi_subagents_differential.py
BENCHMARKS := $(filter-out benchmarks/conftest.py $(DIFFERENTIAL),$(sort $(wildcard benchmarks/[!_]*.py)))

# What the type checker reads, as `files` in pyproject.toml, but for folders that do not exist.
CHECKED := $(wildcard src/afterrun tests benchmarks demo)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help venv tools demo test test-fast test-engines lint bench differential soak smoke clean

help: ## list the targets and their time budgets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
	    while IFS='|' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

venv: $(STAMP) ## make .venv with afterrun and all tools in it (budget: 2 min, then 0 s)
	@:

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	    echo "$(PYTHON) not found. On Debian: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "afterrun needs Python 3.11 or later; choose one with make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "$(PYTHON) has no ensurepip. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "venv: installing into $(VENV)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet -e '.[dev]' -c constraints.txt
	@touch $@

# What pip cannot bring: strace kills at chosen system calls, PgBouncer is a proxy in front of PostgreSQL.
# PostgreSQL itself comes with `make venv`. Tests that miss PgBouncer are skipped and say so.
tools:
	@missing=; PATH="$$PATH:/usr/sbin"; \
	for tool in strace pgbouncer; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "tools: installing$$missing"; \
	        apt-get update -qq && \
	        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	    else \
	        echo "missing:$$missing. Only root can install that. On Debian: sudo apt-get install$$missing"; \
	        case "$$missing" in *strace*) exit 1;; esac; \
	    fi; \
	fi

demo: venv ## show on a real engine what afterrun does (budget: 1 min)
	@$(BIN)/python demo/run.py

test: tools venv lint test-fast test-engines smoke ## every check, as in CI (budget: 38 min)
	@echo "test: all passed"

test-fast: tools venv ## tests without an engine (budget: 20 min)
	@echo "test-fast"
	@$(BIN)/pytest -q -n 2 -m "not engine"

# One file stays in one process, so that the store an engine made for it is made once.
test-engines: tools venv ## tests with real engines, installed on first use (budget: 15 min)
	@echo "test-engines"
	@$(BIN)/pytest -q -n 2 --dist loadfile -m engine

lint: venv ## style, format, types, layers (budget: 1 min)
	@echo "lint: ruff check"
	@$(BIN)/ruff check --quiet
	@echo "lint: ruff format"
	@$(BIN)/ruff format --check --quiet
	@echo "lint: mypy"
	@$(BIN)/mypy $(CHECKED)
	@echo "lint: import-linter"
	@$(BIN)/lint-imports --no-logo

bench: venv ## every measurement in benchmarks/, one command each (budget: 45 min)
	@test -n "$(BENCHMARKS)" || { echo "bench: no benchmarks/*.py"; exit 1; }
	@set -e; for file in $(BENCHMARKS); do echo "bench: $$file"; $(BIN)/python "$$file"; done

differential: venv ## optional, needs Node: the real npm package pi-subagents judges the same trees (budget: 5 min)
	@$(BIN)/python $(DIFFERENTIAL)

soak: tools venv ## the long forms of the slow tests (budget: 1 h)
	@echo "soak"
	@AFTERRUN_SOAK=1 $(BIN)/pytest -q -n 2 --timeout 3600 -m slow

smoke: ## the wheel alone, without extras, in a fresh environment (budget: 1 min)
	@PYTHON=$(PYTHON) scripts/smoke.sh

clean: ## remove environments, engines, caches and builds
	@rm -rf $(VENV) .engines build dist .hypothesis .import_linter_cache .mypy_cache \
	    .pytest_cache .ruff_cache
	@find src tests demo benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
