# Everything is set up in $(VENV) on first use: pinned dependencies and, for `run`, the model.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: run test test-slow lint types check schema bench clean

run: $(VENV)/.installed
	$(BIN)/collab run coding --task humaneval/12

test: $(VENV)/.installed
	$(BIN)/pytest

test-slow: $(VENV)/.installed
	$(BIN)/pytest -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

check: lint types test

schema: $(VENV)/.installed
	for part in recipe team task reward trainer; do \
		$(BIN)/collab schema $$part > docs/schema/$$part.json || exit 1; done

bench: $(VENV)/.installed
	for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark || exit 1; done

clean:
	rm -rf $(VENV) dist build

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
