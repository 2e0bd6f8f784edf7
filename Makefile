# Everything is set up in .venv; remove it with `make clean`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test integrations bench lint format clean

demo: $(READY)
	$(BIN)/python -m zerorag_p2p.testnet.demo $(if $(KEEP),--keep)

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

# LangChain, LlamaIndex, Haystack and MCP are 60 packages more; `make test` skips their tests.
integrations: $(VENV)/.integrations
	$(BIN)/python -m pytest tests/integrations $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say which: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[embed,demo,dev,tui]'
	touch $(READY)

$(VENV)/.integrations: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[integrations]'
	touch $@
