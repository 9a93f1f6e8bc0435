# The two commands of the README. Both set up what is missing; neither needs anything but Python 3.11 to 3.13.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: ladder test install dev check clean

# torch is installed first and alone, by its exact version: so a CPU wheel that the machine offers is taken as it is.
$(BIN)/harness: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 14), f"Python 3.11 to 3.13 is needed, this is {sys.version.split()[0]}; set PYTHON="'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(BIN)/harness
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(BIN)/harness

dev: $(VENV)/.dev

ladder: install
	$(BIN)/harness run experiment=dapo_ladder

test: dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow and not gpu"

check: dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info
