# Needs Python 3.11 or later and make; everything else is found or made by the targets themselves.

.DEFAULT_GOAL := help
.PHONY: help run test check bench soak setup

VENV := .venv
BIN := $(VENV)/bin
# On two cores: a test of a real stack waits for about half of its time.
WORKERS ?= 3

help:
	@echo 'make run    start the server with a small example shop on http://127.0.0.1:8080'
	@echo 'make test   get what is missing, check the code, run all tests'
	@echo 'make check  format, lint and types only'
	@echo 'make bench  the benchmarks, as a table of ratios'
	@echo 'make soak   a million random operations, with faults and crashes'

run: $(VENV)/.installed
	@exec $(BIN)/python -m examples.shop

test: setup check
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup

check: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: setup $(VENV)/.installed-bench
	@$(BIN)/python -m benchmarks

soak: $(VENV)/.installed-dev
	@PYTHONPATH=tests $(BIN)/python -m properties.soak

setup: $(VENV)/.installed-dev
	@$(BIN)/python -m holdfast.local ensure

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

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo 'Installing Holdfast into $(VENV).'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/.installed-dev
	@echo 'Installing the peers of the benchmarks into $(VENV).'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo 'Installing Holdfast and what its tests need into $(VENV): about a minute.'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed
