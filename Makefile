# Two commands need no preparation: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/momentmix/native/*.[ch])  # built again when it changes
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-browser test-oldest test-torch docs lint clean
.DELETE_ON_ERROR:

$(VENV)/.base: pyproject.toml constraints.txt $(NATIVE)
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[all]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt $(NATIVE)
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[test]"
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base          ## shards, summaries, merged, fitted: table, model, picture, report
	@$(BIN)/python examples/demo.py

lint: $(VENV)/.test          ## style and types
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/ruff format --check src tests benchmarks examples docs
	$(BIN)/mypy

test: lint                   ## every fast test
	$(BIN)/python -m pytest -m "not long" -n 2

test-all: test               ## the long runs as well, about an hour; ends with their counts
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m long -n 2 --dist worksteal
	$(MAKE) docs

$(VENV)/.browser: pyproject.toml constraints.txt $(NATIVE)
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[browser]"
	@touch $@ $(VENV)/.test $(VENV)/.base

$(VENV)/.docs: pyproject.toml constraints.txt $(NATIVE)
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[docs]"
	@touch $@ $(VENV)/.base

docs: $(VENV)/.docs          ## the documentation with its gallery, offline; warnings are errors
	@rm -rf docs/_build/html
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

test-browser: $(VENV)/.browser   ## the report page in chromium, where there is one
	$(BIN)/python -m pytest tests/browser -rs

OLDEST := .venv-oldest
$(OLDEST)/.test: pyproject.toml constraints-oldest.txt
	@test -x $(OLDEST)/bin/python || { echo "Setting up $(OLDEST)"; $(PYTHON) -m venv $(OLDEST); }
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints-oldest.txt -e ".[test]"
	@touch $@

test-oldest: $(OLDEST)/.test     ## the fast tests on the oldest versions that are supported
	$(OLDEST)/bin/python -m pytest -m "not long" -n 2

TORCH := .venv-torch
$(TORCH)/.test: pyproject.toml constraints.txt $(NATIVE)
	@test -x $(TORCH)/bin/python || { echo "Setting up $(TORCH)"; $(PYTHON) -m venv $(TORCH); }
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  array-api-strict hypothesis jax pytest pytest-timeout pytest-xdist torch triton -e ".[gpu]"
	@touch $@

test-torch: $(TORCH)/.test       ## rows of torch and JAX on the CPU; the GPU kernel, interpreted
	TRITON_INTERPRET=1 $(TORCH)/bin/python -m pytest tests/unit/arrays -n 2

clean:
	rm -rf $(VENV) $(OLDEST) $(TORCH) docs/_build docs/_generated docs/gallery \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis
