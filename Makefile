# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Each sets up its own private environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
DOCS := .venv-docs
REACH := .venv-reach
MCP_SUITE := .mcp-suite
PIP := $(BIN)/pip --disable-pip-version-check -q
# Words for `make bench`: questions to ask instead of all, and options.
QUESTIONS ?=
# Two cores are the least a machine has, and most of a test is waiting for real servers: two for each core.
WORKERS ?= 4

# The real AI tools, for `make test-tools`.
REAL_TOOLS := .tools

.PHONY: help demo test test-tools test-reach chromium test-image lint generate bench docs setup clean

help:
	@echo "make demo      show Maestro at work: one session, three terminals"
	@echo "make test      set everything up and run every check and test"
	@echo "make test-tools  install the six real AI tools and try each through Maestro (no account needed)"
	@echo "make test-reach  run the adapters and servers against the frameworks they are for (installs them)"
	@echo "make test-image  carry out the Dockerfile without Docker, as root on a Debian, and call what is in the images"
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

# Compiled before, once: tests start thousands of processes, and count the files that some of them open.
test: setup lint
	$(BIN)/python -m compileall -q -j 2 maestro_state workers cli tests
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

# Over a gigabyte, so not a part of `make test`: into a folder of their own, asked by nobody but this.
$(REAL_TOOLS)/.installed: tests/real_tools/package.json
	mkdir -p $(REAL_TOOLS)
	cp tests/real_tools/package.json $(REAL_TOOLS)/package.json
	npm install --prefix $(REAL_TOOLS) --no-audit --no-fund --silent
	$(PYTHON) -m venv $(REAL_TOOLS)/llm
	$(REAL_TOOLS)/llm/bin/pip --disable-pip-version-check -q install llm==0.36
	@touch $@

test-tools: setup $(REAL_TOOLS)/.installed
	PATH="$(CURDIR)/$(REAL_TOOLS)/node_modules/.bin:$(CURDIR)/$(REAL_TOOLS)/llm/bin:$$PATH" $(BIN)/python -m tests.real_tools.matrix --write
	$(PIP) install -c tests/constraints.txt -c tests/reach/constraints.txt -e ".[mcp]"
	PATH="$(CURDIR)/$(REAL_TOOLS)/node_modules/.bin:$$PATH" $(BIN)/python -m tests.real_tools.agents
	PATH="$(CURDIR)/$(REAL_TOOLS)/node_modules/.bin:$(CURDIR)/$(REAL_TOOLS)/llm/bin:$$PATH" $(BIN)/python -m tests.real_tools.sitting

# The frameworks bring a hundred packages: into an environment of their own, which `make test` does without.
$(REACH)/.installed: pyproject.toml tests/constraints.txt tests/reach/constraints.txt
	$(PYTHON) -m venv $(REACH)
	$(REACH)/bin/pip --disable-pip-version-check -q install -c tests/constraints.txt -c tests/reach/constraints.txt \
		-e ".[dev,reach]"
	@touch $@

# The frameworks' own tests are in their source distributions alone; nothing of them is kept here.
$(REACH)/suites/.fetched: $(REACH)/.installed
	@$(REACH)/bin/pip --disable-pip-version-check -q download --no-deps --no-binary langgraph,openai-agents,claude-agent-sdk \
		-c tests/constraints.txt -c tests/reach/constraints.txt -d $(REACH)/suites langgraph openai-agents claude-agent-sdk \
		&& touch $@ || echo "the frameworks' own tests could not be fetched, and are skipped"

# The page is tested in the system's Chromium: brought where that can be done, and said where it cannot.
chromium:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium >/dev/null 2>&1; } \
		|| echo "no chromium, and none to be had without root: tests of the page are skipped (apt-get install chromium)"

# The protocol's own suite comes from npm: brought where that is, and said where it is not.
$(MCP_SUITE)/.installed: tests/reach/mcp_suite/package.json
	mkdir -p $(MCP_SUITE)
	cp tests/reach/mcp_suite/package.json $(MCP_SUITE)/package.json
	npm install --prefix $(MCP_SUITE) --no-audit --no-fund --silent --ignore-scripts
	@touch $@

.PHONY: mcp-suite
mcp-suite:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(MCP_SUITE)/.installed; \
		else echo "no npm: the suite of MCP is skipped"; fi

# The page apart: what drives the browser keeps an event loop of its own running, which no awaited test may meet.
test-reach: $(REACH)/.installed $(REACH)/suites/.fetched chromium mcp-suite
	$(REACH)/bin/pytest -n $(WORKERS) --dist loadgroup -o filterwarnings=default tests/reach --ignore-glob='*/test_page_*'
	$(REACH)/bin/pytest -n 2 --dist loadfile -o filterwarnings=default tests/reach/test_page_*.py

# As root on a Debian: what cannot be tried where there is no Docker engine is tried without one.
test-image: setup
	$(BIN)/python -m tests.real_image.build

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
	rm -rf $(VENV) $(BENCH) $(DOCS) $(REACH) $(MCP_SUITE) $(REAL_TOOLS) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
