# The developer's manual: every target makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAY ?= 1
CLUSTER ?= fixtures/example-day/cluster.toml

.PHONY: help setup demo test check bench bench-smoke serve soak clean

help:
	@echo "make demo        install, serve the example day on loopback, show the result (STAY=0 ends)"
	@echo "make test        install, run every check and test that needs no system package"
	@echo "make check       format, lint, types, import contracts"
	@echo "make serve       the service on loopback with SQLite in ./agenda.db (CLUSTER=file)"
	@echo "make bench       every bench case at full size;  make bench-smoke: once, small"
	@echo "make soak        long sweeps, by hand (hours)"

# Installs once; again when the dependencies change. Warms the compiled kernels' cache.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m bench.warm
	@touch $@

setup: $(VENV)/.installed

demo: setup
	STAY=$(STAY) $(BIN)/agenda demo

test: check
	$(BIN)/python -m bench.warm --all
	$(BIN)/python -m pytest -q -n 2 -m "not soak and not postgres and not browser and not slurm"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

serve: setup
	$(BIN)/agenda serve --database sqlite:///agenda.db --cluster $(CLUSTER)

bench: setup
	$(BIN)/python -m bench --all

bench-smoke: setup
	$(BIN)/python -m bench --all --small

soak: setup
	$(BIN)/python -m pytest -q -m soak
	$(BIN)/python -m bench.fuzz_rdl --inputs 1000000

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis out
