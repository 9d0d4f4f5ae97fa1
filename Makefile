# Two commands: `make run` and `make test`. Both build .venv first when it is missing or its lock has changed.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run test bench lock doctor clean

USE_CASE ?= credit_risk
ARGS ?=
UPGRADE ?=
WORKERS ?= 2
SETUP := bash infra/environment/setup.sh
PY := .venv/bin/python

help:  ## show this list
	@printf 'Tandem: train in PyTorch Lightning or TensorFlow, audit once, ship one SavedModel\n\n'
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 18
	@printf '\nvariables\n'
	@sed -nE 's/^#: ([A-Z_]+) +(.*)/  \1\t\2/p' Makefile | expand -t 26

#: PYTHON                CPython 3.11 to build .venv with (otherwise python3.11 or python3 on PATH)
#: USE_CASE              what `make run` runs: a use case of pipelines/ or a folder (credit_risk)
#: ARGS                  more arguments: of `tandem run` for run, of pytest for test, of tests/bench/run.py for bench
#: WORKERS               pytest processes of `make test` (2: one a core)
#: UPGRADE               1: `make lock` takes the newest versions that fit instead of keeping what is locked
#: PIP_FIND_LINKS        pip's own: a folder or page that holds torch's CPU wheel; PIP_INDEX_URL and the others work too
#: TANDEM_DEBIAN_MIRROR  a Debian mirror for the private C library, where glibc is older than 2.39 and apt names none

run:  ## set up, then run the pipeline of USE_CASE to its end
	@$(SETUP) run
	@.venv/bin/tandem run $(USE_CASE) $(ARGS)

test:  ## set up with the test group, then check style, types and imports, and run the tests
	@$(SETUP) test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())'
	$(PY) -m pytest -m 'not bench' -n $(WORKERS) --dist loadfile $(ARGS)

bench:  ## set up with the test group, then measure (tests/bench); takes long
	@$(SETUP) test
	$(PY) tests/bench/run.py $(ARGS)

lock:  ## resolve pyproject.toml again and write requirements.lock and requirements-test.lock
	@$(SETUP) run
	@$(PY) -m infra.environment.lock $(if $(filter 1,$(UPGRADE)),--upgrade)

doctor:  ## examine Python, machine, C library, disk, lock and stores
	@[ -x .venv/bin/tandem ] || { echo 'tandem doctor: there is no .venv yet; make it by `make run`' >&2; exit 2; }
	@.venv/bin/tandem doctor $(ARGS)

clean:  ## delete .venv and what the tools cached; runs, stores and pushed models stay
	rm -rf .venv .venv-setup.log .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
