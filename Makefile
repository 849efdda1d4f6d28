# Needs Python 3.11 or later and make; everything else is found or made by the targets themselves.

.DEFAULT_GOAL := help
.PHONY: help run test check docs bench soak setup lock

VENV := .venv
BIN := $(VENV)/bin
# On two cores: a test of a real stack waits for about half of its time.
WORKERS ?= 3
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_ITSELF := $(INSTALL) --no-index --no-deps --no-build-isolation --editable .
LOCK := $(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-package holdfast --custom-compile-command 'make lock'
# Python 3.11 reads the path of an editable installation in the encoding of the locale, and Java takes that encoding for
# the names of files: with LC_ALL=C neither can work in a folder whose path is not ASCII.
ifneq (,$(filter C POSIX,$(LC_ALL)))
export LC_ALL := C.UTF-8
endif

help:
	@echo 'make run    start the server with a small example shop on http://127.0.0.1:8080'
	@echo 'make test   get what is missing, check the code, run all tests'
	@echo 'make check  format, lint and types only'
	@echo 'make docs   the documentation site, in dist/docs'
	@echo 'make bench  the benchmarks, as a table of ratios'
	@echo 'make soak   a million random operations, with faults and crashes'
	@echo 'make lock   lock the newest versions of all dependencies in deploy/requirements/'

run: $(VENV)/.installed
	@exec $(BIN)/python -m examples.shop

test: setup check
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup

check: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: $(VENV)/.installed-dev
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir $(VENV)/doctrees . dist/docs
	@echo 'The documentation is in dist/docs/index.html.'

bench: setup $(VENV)/.installed-bench
	@$(BIN)/python -m benchmarks

soak: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.properties.soak

setup: $(VENV)/.installed-dev
	@$(BIN)/python -m holdfast.local ensure
	@$(BIN)/python -m tests.sdks

$(BIN)/python:
	@for candidate in python3 python3.11 python3.12 python3.13; do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Making $(VENV) with $$($$candidate --version)."; \
	        $$candidate -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; \
	        exit 0; \
	    fi; \
	done; \
	echo 'Python 3.11 or later was not found: install it, for example from https://www.python.org/downloads.' >&2; \
	exit 1

# Everything that is installed has the hash it was locked with, what builds it included.
$(VENV)/.installed-build: deploy/requirements/build.txt | $(BIN)/python
	@$(INSTALL) --require-hashes --only-binary :all: --requirement deploy/requirements/build.txt
	@touch $@

$(VENV)/.installed: pyproject.toml deploy/requirements/serve.txt $(VENV)/.installed-build | $(BIN)/python
	@echo 'Installing Holdfast into $(VENV).'
	@$(INSTALL) --require-hashes --only-binary :all: --requirement deploy/requirements/serve.txt
	@$(INSTALL_ITSELF)
	@touch $@

$(VENV)/.installed-bench: pyproject.toml deploy/requirements/bench.txt | $(VENV)/.installed-dev
	@echo 'Installing the peers of the benchmarks into $(VENV).'
	@$(INSTALL) --require-hashes --no-build-isolation --requirement deploy/requirements/bench.txt
	@touch $@

$(VENV)/.installed-dev: pyproject.toml deploy/requirements/dev.txt $(VENV)/.installed-build | $(BIN)/python
	@echo 'Installing Holdfast and what its tests need into $(VENV): about a minute.'
	@$(INSTALL) --require-hashes --no-build-isolation --requirement deploy/requirements/dev.txt
	@$(INSTALL_ITSELF)
	@touch $@ $(VENV)/.installed

# One lock for Linux and macOS and for every version of Python from 3.11 on; to be committed.
lock: $(BIN)/python
	@$(BIN)/python -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.11'
	@$(LOCK) --group build --output-file deploy/requirements/build.txt
	@$(LOCK) pyproject.toml --extra server --extra tracing --output-file deploy/requirements/serve.txt
	@$(LOCK) pyproject.toml --extra dev --constraints deploy/requirements/serve.txt --output-file deploy/requirements/dev.txt
	@$(LOCK) pyproject.toml --extra dev --extra bench --constraints deploy/requirements/dev.txt \
	    --output-file deploy/requirements/bench.txt
