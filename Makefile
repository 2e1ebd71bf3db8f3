# Two commands need no preparation: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-old-sklearn test-torch lint clean
.DELETE_ON_ERROR:

$(VENV)/.base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[all]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[test]"
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base          ## shards, summaries, merged, fitted: table, model and picture
	@$(BIN)/python examples/demo.py

lint: $(VENV)/.test          ## style and types
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

test: lint                   ## every fast test
	$(BIN)/python -m pytest -m "not long" -n 2

test-all: lint               ## the long statistical and fault runs as well
	$(BIN)/python -m pytest -n 2

OLD := .venv-old
$(OLD)/.test: pyproject.toml constraints.txt
	@test -x $(OLD)/bin/python || { echo "Setting up $(OLD)"; $(PYTHON) -m venv $(OLD); }
	@grep -v scikit-learn constraints.txt > $(OLD)/constraints.txt
	@$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c $(OLD)/constraints.txt "scikit-learn==1.6.*" -e ".[test]"
	@touch $@

test-old-sklearn: $(OLD)/.test   ## the estimator on the oldest scikit-learn that is supported
	$(OLD)/bin/python -m pytest tests/front_doors/test_estimator.py -n 2

TORCH := .venv-torch
$(TORCH)/.test: pyproject.toml constraints.txt
	@test -x $(TORCH)/bin/python || { echo "Setting up $(TORCH)"; $(PYTHON) -m venv $(TORCH); }
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  array-api-strict hypothesis jax pytest pytest-xdist torch triton -e ".[gpu]"
	@touch $@

test-torch: $(TORCH)/.test       ## rows of torch and JAX on the CPU; the GPU kernel, interpreted
	TRITON_INTERPRET=1 $(TORCH)/bin/python -m pytest tests/unit/arrays -n 2

clean:
	rm -rf $(VENV) $(OLD) $(TORCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis
