# Two commands need no preparation: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-browser test-old-sklearn docs lint clean
.DELETE_ON_ERROR:

$(VENV)/.base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[all]"
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
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

test-all: lint               ## the long statistical and fault runs as well
	$(BIN)/python -m pytest -n 2
	$(MAKE) docs

$(VENV)/.browser: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[browser]"
	@touch $@ $(VENV)/.test $(VENV)/.base

$(VENV)/.docs: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Setting up $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -e ".[docs]"
	@touch $@ $(VENV)/.base

docs: $(VENV)/.docs          ## the documentation with its gallery, offline; warnings are errors
	@rm -rf docs/_build/html
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

test-browser: $(VENV)/.browser   ## the report page in chromium, where there is one
	$(BIN)/python -m pytest tests/browser -rs

OLD := .venv-old
$(OLD)/.test: pyproject.toml constraints.txt
	@test -x $(OLD)/bin/python || { echo "Setting up $(OLD)"; $(PYTHON) -m venv $(OLD); }
	@grep -v scikit-learn constraints.txt > $(OLD)/constraints.txt
	@$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c $(OLD)/constraints.txt "scikit-learn==1.6.*" -e ".[test]"
	@touch $@

test-old-sklearn: $(OLD)/.test   ## the estimator on the oldest scikit-learn that is supported
	$(OLD)/bin/python -m pytest tests/front_doors/test_estimator.py -n 2

clean:
	rm -rf $(VENV) $(OLD) docs/_build docs/_generated docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
