# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Each sets up its own private environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
DOCS := .venv-docs
REACH := .venv-reach
PIP := $(BIN)/pip --disable-pip-version-check -q
# Words for `make bench`: questions to ask instead of all, and options.
QUESTIONS ?=
# Two cores are the least a machine has; more workers than cores make real servers wait for each other.
WORKERS ?= 2

# The real AI tools, for `make test-tools`.
TOOLS := .tools

.PHONY: help demo test test-tools test-reach lint generate bench docs setup clean

help:
	@echo "make demo      show Maestro at work: one session, three terminals"
	@echo "make test      set everything up and run every check and test"
	@echo "make test-tools  install the six real AI tools and try each through Maestro (no account needed)"
	@echo "make test-reach  run the adapters and servers against the frameworks they are for (installs them)"
	@echo "make lint      ruff, mypy, import rules, generated code"
	@echo "make generate  write the generated code and documents anew"
	@echo "make bench     measure Maestro beside the limit and its peers"
	@echo "make docs      build the documentation as a site, into site/"

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c tests/constraints.txt -e .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed tests/constraints.txt
	$(PIP) install -c tests/constraints.txt -e ".[dev]"
	@touch $@

setup: $(VENV)/.developing

demo: $(VENV)/.installed
	@$(BIN)/python -m maestro_cli.demo

test: setup lint
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

# Over a gigabyte, so not a part of `make test`: into a folder of their own, asked by nobody but this.
$(TOOLS)/.installed: tests/real_tools/package.json
	mkdir -p $(TOOLS)
	cp tests/real_tools/package.json $(TOOLS)/package.json
	npm install --prefix $(TOOLS) --no-audit --no-fund --silent
	$(PYTHON) -m venv $(TOOLS)/llm
	$(TOOLS)/llm/bin/pip --disable-pip-version-check -q install llm==0.36
	@touch $@

test-tools: setup $(TOOLS)/.installed
	PATH="$(CURDIR)/$(TOOLS)/node_modules/.bin:$(CURDIR)/$(TOOLS)/llm/bin:$$PATH" $(BIN)/python -m tests.real_tools.matrix --write
	$(PIP) install -c tests/constraints.txt -c tests/reach/constraints.txt -e ".[mcp]"
	PATH="$(CURDIR)/$(TOOLS)/node_modules/.bin:$$PATH" $(BIN)/python -m tests.real_tools.agents

# The frameworks bring a hundred packages: into an environment of their own, which `make test` does without.
$(REACH)/.installed: pyproject.toml tests/constraints.txt tests/reach/constraints.txt
	$(PYTHON) -m venv $(REACH)
	$(REACH)/bin/pip --disable-pip-version-check -q install -c tests/constraints.txt -c tests/reach/constraints.txt \
		-e ".[dev,reach]"
	@touch $@

test-reach: $(REACH)/.installed
	$(REACH)/bin/pytest -n $(WORKERS) --dist loadgroup -o filterwarnings=default tests/reach

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.unasync --check
	$(BIN)/python -m tools.facade --check
	$(BIN)/python -m tools.documents --check

generate: setup
	$(BIN)/python -m tools.unasync
	$(BIN)/python -m tools.facade
	$(BIN)/python -m tools.documents

# The peers bring a hundred packages: into an environment of their own, which nothing else sees.
$(BENCH)/.installed: pyproject.toml benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip --disable-pip-version-check -q install -c benchmarks/constraints.txt -e ".[bench]"
	@touch $@

bench: $(BENCH)/.installed
	@$(BENCH)/bin/python -m benchmarks $(QUESTIONS)

# The site's generator is nothing that Maestro needs: into an environment of its own.
$(DOCS)/.installed: pyproject.toml docs/constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip --disable-pip-version-check -q install -c docs/constraints.txt -e ".[docs]"
	@touch $@

docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	$(DOCS)/bin/python -m tools.site site
	@echo "site/index.html"

clean:
	rm -rf $(VENV) $(BENCH) $(DOCS) $(REACH) $(TOOLS) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
