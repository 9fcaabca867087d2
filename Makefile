# Every command a person or CI needs. Each target sets up what it needs; nothing is installed outside .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo demo-dag test check format bench docs clean

setup: $(BIN)/.ready

$(BIN)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orchestra needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@$(BIN)/python -m compileall -q src  # some machines write no bytecode by themselves; without it every start is slower
	@touch $@

demo: setup
	@$(BIN)/python examples/demo.py

demo-dag: setup
	@$(BIN)/python examples/demo_dag.py

test: setup
	@$(BIN)/python -m pytest

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy src tests examples/demo.py examples/demo_dag.py docs/generate.py benchmarks
	@$(BIN)/python -m pytest tests/architecture

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup
	@$(BIN)/python benchmarks/run.py

docs: setup
	@$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
