# The first use installs everything into $(VENV): pinned dependencies and, for `run`, the model.
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
PYTHON ?= python3
BIN := $(VENV)/bin

# Keep bytecode, whatever the shell sets. Otherwise every process compiles torch's modules again.
export PYTHONDONTWRITEBYTECODE :=

# One worker per core and one more, because some wait for servers and processes. Each has one thread.
# At most 8, because each holds its own models. Tests of one file stay together, because they share
# fixtures; slow tests go to any free worker.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(WORKERS) --maxprocesses 8

.PHONY: run test test-lowest test-newest test-slow test-ranks test-notebooks test-browser test-frameworks test-vllm test-gpu extras lint types types-examples check schema picture docs bench clean

run: $(VENV)/.installed
	$(BIN)/collab run coding --task humaneval/12

test: $(VENV)/.installed
	$(PYTEST) --dist loadfile

# The same tests with the lowest versions that pyproject.toml allows.
test-lowest:
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

# The same tests with the newest versions that pip finds. Users without the constraints get these.
test-newest:
	$(MAKE) test VENV=.venv-newest CONSTRAINTS=/dev/null

test-slow: $(VENV)/.installed
	$(PYTEST) --dist worksteal -m slow

# These name their folders, because collecting every test takes longer than some of them.
test-ranks: $(VENV)/.installed
	$(PYTEST) --dist loadfile -m ranks tests/trainers/ranks tests/docs/test_ranks_page.py

test-notebooks: $(VENV)/.extra-notebooks
	$(BIN)/pytest -m notebooks tests/docs/test_notebooks.py

test-browser: $(VENV)/.extra-browser
	[ -n "$(CHROMIUM)" ] || command -v chromium > /dev/null \
		|| { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| { echo 'test-browser needs chromium: install it, or name one with CHROMIUM=PATH' >&2; exit 2; }
	$(BIN)/pytest -m browser tests/report tests/view

test-frameworks: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check 'openai-agents>=0.24,<0.25' 'langchain-openai>=1.7,<1.8'
	$(BIN)/pytest tests/serving/test_frameworks.py

# 3.5 GB, outside the clone, so that other clones can use it too.
COLLAB_VLLM_ENV ?= $(HOME)/.cache/collab/vllm-env
VLLM_INSTALLED := $(COLLAB_VLLM_ENV)/.installed-$(shell cksum requirements-vllm.txt | cut -d' ' -f1)

# Two at a time, because starting an engine, on one thread, takes most of a test.
test-vllm: $(VLLM_INSTALLED)
	PYTHONPATH=$(CURDIR) $(COLLAB_VLLM_ENV)/bin/python -m pytest -W ignore --numprocesses 2 --dist loadfile -m vllm tests/with_vllm

test-gpu: $(VENV)/.installed
	$(BIN)/pytest -W default -m gpu -rs tests/with_gpu

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

types-examples: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check basedpyright
	$(BIN)/basedpyright --pythonpath $(BIN)/python --level error examples
	$(BIN)/pytest tests/docs/test_types_of_pages.py

check: lint types test

schema: $(VENV)/.installed
	for part in recipe team task reward trainer; do \
		$(BIN)/collab schema $$part > docs/schema/$$part.json || exit 1; done

picture: $(VENV)/.installed
	$(BIN)/python docs/picture.py
	$(BIN)/python docs/figure.py

docs: $(VENV)/.extra-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/.installed
	for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark || exit 1; done

clean:
	rm -rf $(VENV) .venv-lowest .venv-newest dist build site

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@echo 'installing collab and its libraries into $(VENV), once'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[dev]'
	touch $@

# What notebooks, documentation and browser need, at once: pip must not change .venv beside tests.
extras: $(VENV)/.extra-notebooks $(VENV)/.extra-docs $(VENV)/.extra-browser

$(VENV)/.extra-%: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	touch $@

$(VLLM_INSTALLED):
	$(PYTHON) -m venv $(COLLAB_VLLM_ENV)
	$(COLLAB_VLLM_ENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements-vllm.txt
	touch $@
