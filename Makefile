# Two commands do everything, environment included:   make trot     make test
# Others: make check (the physics alone), make lint (style and types), make slow (the long checks),
# make docs (the pages, into build/docs),
# make coverage (which lines the fast tests run, by module, into build/coverage.txt), make mutants FOLDER=idcontrol/sensing
# (whether the fast tests of a folder notice changed lines), make size (lines of code by folder).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin

# A process that may not keep modules compiled compiles all that it imports, which takes 7 s for what the tests need.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: trot about test check slow coverage mutants lint size docs figures verdicts gallery

trot: $(VENV)/.core
	$(BIN)/idcontrol run trot

# Each worker begins with tests that lie side by side, which share kernels and fixtures; each takes up to 2 GB.
WORKERS ?= $(shell n=$$(env -u OMP_NUM_THREADS nproc); echo $$((n < 4 ? n : 4)))
SPREAD := $(BIN)/pytest -n $(WORKERS) --dist worksteal
FAST := $(SPREAD) -m "not slow and not interpreted"
# Python runs the kernels of these tests: few other tests need them, and compiling would take longer. `make slow` compiles.
INTERPRETED := NUMBA_DISABLE_JIT=1 $(BIN)/pytest -m "interpreted and not slow"
# The tests of some folders ($1). Interpreted tests run beside the others and are reported at the end. Both are background
# jobs, so that SIGTERM ends them at once; `env` lets SIGINT, which the shell makes such jobs ignore, print a summary.
define run
	@log=$$(mktemp); $(INTERPRETED) $(1) > $$log 2>&1 & beside=$$!; env --default-signal=INT $(FAST) $(1) & fast=$$!; \
	  trap 'kill $$fast $$beside 2> /dev/null; rm -f $$log' EXIT; trap 'wait $$fast; exit 130' INT; trap 'exit 143' TERM; \
	  failed=0; wait $$fast || failed=1; wait $$beside || failed=1; cat $$log; exit $$failed
endef

test check coverage: export OPENBLAS_NUM_THREADS = 1
about:
	@echo "make test: installs what tests need, runs the fast tests, and beside them tests whose kernels Python runs;" \
	  "about five minutes on two idle cores the first time, which compiles kernels"

test: about $(VENV)/.dev
	$(call run,tests)

# Physics alone: contact, solvers, models, plants, and the law of the controllers.
PHYSICS := tests/contact tests/solvers tests/models tests/plants tests/controllers/test_inverse.py tests/dynamics
check: $(VENV)/.dev
	@echo "make check: runs the tests of physics alone, about a minute"
	$(call run,$(PHYSICS))

slow: $(VENV)/.dev
	.ci/install $(VENV) --editable '.[film]'
	$(BIN)/pytest -m "slow or interpreted"
	.ci/wheel every

# Kernels are left out: they run compiled, unseen, and tests compare them with references.   make coverage COVER=tests/solvers
COVER ?= tests
coverage: export COVERAGE_FILE = build/coverage.data
coverage: $(VENV)/.dev
	@mkdir -p build
	$(FAST) --cov --cov-report= $(COVER)
	$(BIN)/coverage report --skip-empty --show-missing > build/coverage.txt
	@cut -c 1-100 build/coverage.txt

# The folders are those of [tool.mutants] in pyproject.toml; as many places are changed as PLACES says, drawn by SEED.
FOLDER ?= idcontrol/sensing
PLACES ?= 60
SEED ?= 0
mutants: export OPENBLAS_NUM_THREADS = 1
mutants: $(VENV)/.dev
	.ci/install $(VENV) --editable '.[mutants]'
	$(BIN)/python tests/mutants.py $(FOLDER) --places $(PLACES) --seed $(SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/words

size:
	@.ci/size

docs: $(VENV)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --doctree-dir build/doctrees idcontrol/docs build/docs
	@echo "build/docs/index.html"

# What the pages show of measurements and pictures; on a machine with nothing else to do.
figures: $(VENV)/.dev
	$(BIN)/idcontrol trust --json > idcontrol/docs/data/trust.json
	$(BIN)/idcontrol bench all --json > idcontrol/docs/data/bench.json
	$(BIN)/python idcontrol/docs/pictures.py idcontrol/docs/pictures

# What agrees with the papers: every run that is put beside one, those of before kept; an hour on two cores.
verdicts: $(VENV)/.dev
	@mkdir -p build
	$(BIN)/python -m idcontrol.experiments.papers > build/verdicts.json
	mv build/verdicts.json idcontrol/docs/data/verdicts.json

# A page with a picture of every experiment that draws one, and the film of the README; needs Chromium.
gallery: $(VENV)/.dev
	$(BIN)/python idcontrol/docs/gallery.py

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "idcontrol needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is missing: apt-get install python3-venv, then run this again"; exit 2; }

$(VENV)/.core: pyproject.toml | $(BIN)/pip
	.ci/install $(VENV) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	.ci/install $(VENV) --editable '.[robots,cvx,gpl,mujoco,bullet,viz,gym,dev]'
	@touch $(VENV)/.core $@

$(VENV)/.docs: $(VENV)/.core
	.ci/install $(VENV) --editable '.[docs,mujoco,gym]'
	@touch $@
