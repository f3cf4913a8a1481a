# The developer's manual: every target makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAY ?= 1
CLUSTER ?= fixtures/example-day/cluster.toml
# How long `make soak` looks, and the seed of its first round (random where none is given).
SOAK_MINUTES ?= 30
SEED ?=
# Kills of processes, leaders, databases and executors on each database (1,000; of executors 200), and
# for how many seconds at most on each (3,600).
KILLS ?=
KILL_SECONDS ?=
SOAK := $(if $(SEED),AGENDA_SOAK_SEED=$(SEED)) $(if $(KILLS),AGENDA_SOAK_KILLS=$(KILLS)) \
  $(if $(KILL_SECONDS),AGENDA_SOAK_SECONDS=$(KILL_SECONDS))
# Processes that run tests: one more than cores, for tests that wait; each takes up to 1 GiB.
WORKERS ?= 3
# A part of the tests: `make test ONLY=planner`.
ONLY ?=
# Tests that need no system package; .ci/run has the others.
NO_PACKAGE := not soak and not sweep and not postgres and not slurm and not kubernetes and not browser and not proxy and not printed

# Bytecode is kept whatever the environment says: a process that compiles what it imports takes three
# times as long to begin, and tests begin hundreds.
export PYTHONDONTWRITEBYTECODE :=

# Where `make dist` writes wheels and source distributions.
DIST ?= dist

.PHONY: help setup demo demo-slurm test check lint types pytest kernels planner-kernels bench bench-smoke papers serve soak sweep dist docs clean

help:
	@echo "make demo        install, serve the example day on loopback, show the result (STAY=0 ends)"
	@echo "make demo-slurm  a server on a real Slurm of its own (root, Debian's Slurm packages)"
	@echo "make test        install, format, lint, import contracts, every test that needs no package (ONLY=planner)"
	@echo "make check       format, lint, words, import contracts, types: before a commit"
	@echo "make serve       the service on loopback with SQLite in ./agenda.db (CLUSTER=file)"
	@echo "make bench       every bench case at full size;  make bench-smoke: once, small"
	@echo "make papers      the tests of bench/papers, the experiments of the five papers"
	@echo "make soak        property tests with random seeds and kills (SOAK_MINUTES=30; SEED=n: the same"
	@echo "                 again; KILLS=10000 KILL_SECONDS=86400: so many kills, for at most so long)"
	@echo "make sweep       long sweeps, by hand (hours)"
	@echo "make docs        the documentation as a site in build/site; a broken link is an error"
	@echo "make dist        wheels and source distributions: server, client, Airflow's operators (DIST=dist)"

# Installs once; again when the dependencies change. Bytecode comes with the first import of what
# is used: compiling all of scipy, pandas and ortools beforehand costs more than it saves.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

$(VENV)/.installed: $(VENV)/.loops
	$(INSTALL) -e .
	@touch $@

# What the planner's loops import: they compile while the rest is installed.
$(VENV)/.loops: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) numba numpy msgspec scipy tzdata highspy
	@touch $@

# What tests and checks need besides: the demo does not wait for it.
$(VENV)/.dev: $(VENV)/.installed
	$(INSTALL) -e ".[dev]"
	@touch $@

# Compiled loops, so that nobody waits for them later.
$(VENV)/.warm: $(VENV)/.installed
	$(BIN)/python -m service.compile_loops
	@touch $@

setup: $(VENV)/.warm

# Where `make setup` has not been, demo and tests have loops of their own, which take less time to
# compile and more to run: they plan hundreds of requests, not hundreds of thousands.
QUICK_LOOPS := $(if $(wildcard $(VENV)/.warm),,NUMBA_OPT=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/quick-loops)

demo:
	@test -e $(VENV)/.installed || echo "installing into $(VENV) and compiling: about a minute, the first time"
	@$(MAKE) --no-print-directory $(VENV)/.loops
	$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed planner-kernels
	$(QUICK_LOOPS) STAY=$(STAY) $(BIN)/agenda demo

demo-slurm: $(VENV)/.installed
	$(BIN)/python -m service.compile_loops --demo
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/slurm .ci/slurm-demo

# Kernels of the planner compile while packages are installed, the rest of them while tools look at
# the code. Types take half a minute of a core and are judged by `make check` and .ci/run.
test: $(VENV)/.loops
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint kernels
	$(MAKE) --no-print-directory pytest

check: lint types

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python .ci/words

types: $(VENV)/.dev
	$(BIN)/mypy

pytest: $(VENV)/.dev
	$(QUICK_LOOPS) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --ignore=tests/papers --ignore=tests/end_to_end/pages \
	  -m "$(NO_PACKAGE)" $(ONLY:%=tests/%)

kernels: planner-kernels $(VENV)/.installed
	$(QUICK_LOOPS) $(BIN)/python -m service.compile_loops --all

planner-kernels: $(VENV)/.loops
	$(QUICK_LOOPS) $(BIN)/python -m service.compile_loops --demo

serve: setup
	$(BIN)/agenda serve --database sqlite:///agenda.db --cluster $(CLUSTER)

bench: setup
	$(BIN)/python -m bench --all

bench-smoke: setup
	$(BIN)/python -m bench --all --small

papers: setup $(VENV)/.dev
	AGENDA_ALL_EXAMPLES=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "$(NO_PACKAGE)" tests/papers

# Kills servers, leaders and PostgreSQL itself for AGENDA_SOAK_SECONDS (3,600) on each database,
# AGENDA_SOAK_KILLS (1,000) at most, executors with their server (200), and the parts of a Slurm;
# AGENDA_SOAK_SEED repeats a run, whose seed is printed.
soak: setup $(VENV)/.dev
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --workers $(WORKERS) $(if $(SEED),--seed $(SEED))
	$(SOAK) $(BIN)/python -m pytest -q -s -m "soak and not postgres and not slurm"
	if command -v slurmctld mariadbd > /dev/null && [ "$$(id -u)" = 0 ]; then \
	  $(SOAK) .ci/slurm $(BIN)/python -m pytest -q -s -m "soak and slurm" tests/end_to_end/kills; fi
	if ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; then \
	  $(SOAK) .ci/postgres $(BIN)/python -m pytest -q -s -m "soak and postgres"; fi
	$(BIN)/python -m tests.rdl.fuzz_rdl --inputs 1000000

sweep: setup $(VENV)/.dev
	$(BIN)/python -m pytest -q -m sweep

docs: $(VENV)/.installed
	$(INSTALL) -e ".[docs]"
	$(BIN)/zensical build --clean --strict

dist: $(VENV)/.dev
	$(BIN)/python -m build --quiet --outdir "$(DIST)" .
	$(BIN)/python -m build --quiet --outdir "$(DIST)" service/client
	$(BIN)/python -m build --quiet --outdir "$(DIST)" service/airflow

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis out
