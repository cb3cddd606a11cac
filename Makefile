# Every target works alone on a fresh machine: it makes the virtualenv it needs and installs the versions that are pinned
# in requirements/ from the package index. An installation is repeated only when pyproject.toml or its pins have changed.
# Needs make and a Python of 3.11 or newer.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
CORES  ?= --numprocesses auto --dist worksteal # as many tests at once as there are cores; empty: one after another

# Options of pytest that fix the order of tests and the examples of laws. None: each run has others, and so finds other faults.
SEEDS ?=

# What `make test` runs, and what it leaves: tests/conftest.py. The engine's coverage is that of both, so it needs both.
FAST := -m "not rest" --hypothesis-profile quick --durations 20 $(SEEDS)
REST := -m "rest or hypothesis" --hypothesis-profile rest --durations 20 $(SEEDS)

BIN     := $(VENV)/bin
CORE    := $(VENV)-core
PEERS   := $(VENV)-bench
QUALITY := $(VENV)-quality
DOCS    := $(VENV)-docs
ENGINES := $(VENV)-engines
NEWEST  := $(VENV)-newest

# The JavaScript of the pages, and what npm installs to check it.
PAGES := $(abspath $(wildcard penstock/pictures/page penstock/workflows/*/page tests/page/unit))
NPM   := tests/page/.npm_cache

DATA  ?= ../shared/data
SPLIT ?= dev

# Keep what is compiled: without it, each process that a test starts compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help demo test test-rest test-all core newest hosts engines lint pyright mypy style page page-checks check house docs pictures bench quality pins format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.runtime ## Run the example: a workflow drawn, and run over real messages
	$(BIN)/python examples/demo.py $(ARGS)

test: $(VENV)/.test ## Run the tests that find faults fast (five minutes on two cores); ARGS="-k retry" goes to pytest
	$(BIN)/pytest $(CORES) $(FAST) $(ARGS)

test-rest: $(VENV)/.test ## Run what `make test` leaves: processes, browsers, the second event loop, every example
	$(BIN)/pytest $(CORES) $(REST) $(ARGS)

test-all: $(VENV)/.test ## Run both, and check the engine's coverage
	@$(MAKE) --no-print-directory test ARGS="--cov --cov-report= --cov-fail-under=0 $(ARGS)"
	@$(MAKE) --no-print-directory test-rest ARGS="--cov --cov-append $(ARGS)"

core: $(CORE)/.core ## Run the tests of a plain install, in an environment without any extra
	$(CORE)/bin/pytest --confcutdir tests/core tests/core

newest: ## Run the core and the frameworks at their newest releases, without our pins; ARGS=tests runs all of `make test`
	rm -rf $(NEWEST)
	@$(MAKE) --no-print-directory $(NEWEST)/.newest
	@echo "Beside the newest releases, the pins are:"
	-@$(NEWEST)/bin/uv pip install --dry-run --python $(NEWEST)/bin/python --requirement requirements/test.txt
	$(NEWEST)/bin/pytest $(CORES) $(FAST) $(or $(ARGS),tests/core tests/hosts tests/workflows/adapters)

hosts: ## Run the adapters in each framework, newest and lowest release; ARGS="langchain --newest" picks
	$(PYTHON) tests/hosts/environments.py $(ARGS)

engines: $(ENGINES)/.engines ## Run rows on Ray, and docs/many-machines.md: Ray, Dask, Spark (needs Java), Polars, datasets
	$(ENGINES)/bin/python -m pytest -W default $(ARGS) tests/workflows/rows tests/docs/test_snippets.py -k "rows or many-machines"

lint: $(VENV)/.test ## Check format, lint, types and layers (about a minute)
	@$(MAKE) --no-print-directory --jobs 2 pyright mypy style page

pyright: export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
pyright: $(VENV)/.test
	$(BIN)/pyright --pythonpath $(BIN)/python

mypy: $(VENV)/.test
	$(BIN)/mypy

style: $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports

page: ## Check the JavaScript of the pages: format, lint, types, unit tests; skipped where npm is missing
	@if command -v npm >/dev/null && command -v node >/dev/null; then $(MAKE) --no-print-directory page-checks; \
	else echo "SKIPPED: the JavaScript of the pages is not checked, because node and npm are not installed" >&2; fi

page-checks: $(NPM)/.installed
	cd tests/page && .npm_cache/node_modules/.bin/biome check $(PAGES)
	$(NPM)/node_modules/.bin/tsc --project tests/page
	node --import ./tests/page/unit/names.js --test --test-reporter=dot tests/page/unit/*.test.js

check: lint core test-all docs newest ## Run all that must hold before a change lands, as .ci/run does

house: $(VENV)/.test ## Show the structure in figures, beside the last recorded ones: lines, names, words, files of a request
	$(BIN)/python benchmarks/house.py $(ARGS)

docs: $(DOCS)/.docs ## Build the documentation as a site, build/site/index.html; a dead link is an error
	$(DOCS)/bin/python docs/build_site.py

pictures: $(VENV)/.test ## Take the pictures of the documentation again; needs Chromium
	$(BIN)/python docs/draw_stream.py
	$(BIN)/python docs/take_pictures.py

bench: $(PEERS)/.bench ## Time the engine against hand-written code and its peers
	$(PEERS)/bin/python benchmarks $(ARGS)

quality: $(QUALITY)/.quality ## Measure the embedded detectors on labelled texts: DATA=DIR, SPLIT=dev or heldout
	$(QUALITY)/bin/python -m benchmarks.quality --data $(DATA) --split $(SPLIT) $(ARGS)

pins: $(VENV)/.made ## Pin the newest releases of all that the other targets install, in requirements/
	@echo uv | $(PIN) - --output-file requirements/uv.txt
	$(PIN) pyproject.toml --extra test --output-file requirements/test.txt
	$(PIN) pyproject.toml --constraint requirements/test.txt --output-file requirements/runtime.txt
	@printf '%s\n' pytest pytest-randomly pytest-timeout | \
	$(PIN) - pyproject.toml --constraint requirements/test.txt --output-file requirements/core.txt
	$(PIN) pyproject.toml --extra docs --output-file requirements/docs.txt
	$(PIN) pyproject.toml --extra bench-peers --output-file requirements/bench.txt
	$(PIN) pyproject.toml --extra quality-peers --output-file requirements/quality.txt
	$(PIN) pyproject.toml --extra engines --output-file requirements/engines.txt

format: $(VENV)/.test ## Format the code and mend what the linter can mend
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	@if [ -e $(NPM)/.installed ]; then cd tests/page && .npm_cache/node_modules/.bin/biome check --write $(PAGES); fi

clean: ## Remove the virtualenvs and everything that was generated
	rm -rf $(VENV) $(CORE) $(PEERS) $(QUALITY) $(DOCS) $(ENGINES) $(NEWEST) .venv-hosts build dist $(NPM) .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(NPM)/.installed: tests/page/package.json tests/page/package-lock.json
	rm -rf $(NPM)
	mkdir $(NPM)
	cp $^ $(NPM)
	cd $(NPM) && npm install --ignore-scripts --no-audit --no-fund # not `ci`: some mirrors lack biome for other systems
	@touch $@

# A stamp says that an installation ended well; one that was broken off is begun again.

%/.made:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Penstock needs Python 3.11 or newer, \
	and $(PYTHON) is older. Name another one: make PYTHON=python3.13 …")'
	$(PYTHON) -m venv --clear $*
	@$(PIP) --requirement requirements/uv.txt || echo "uv cannot be installed here; pip is used instead, which takes longer" >&2
	@touch $@

# Install in seconds with uv, or with pip where uv is missing or fails, as where only pip is told where the index is.
PIP = $*/bin/python -m pip install --quiet --disable-pip-version-check
UV  = $*/bin/uv pip install --quiet --python $*/bin/python
install = { test -x $*/bin/uv && $(UV) $1; } || $(PIP) $1

# One resolution for every Python and system that the markers tell apart; no address of an index goes into the file.
PIN = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make pins"

define environment
%/.$1: requirements/$1.txt pyproject.toml | %/.made
	$$(call install,--requirement $$< --editable .)
	@touch $$@
endef
$(foreach name,runtime test core bench quality engines docs,$(eval $(call environment,$(name))))

%/.newest: pyproject.toml | %/.made
	$(call install,--editable ".[test]")
	@touch $@
