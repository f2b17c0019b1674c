# The commands of this project. Each sets up what it needs, in a virtual environment of its own:
#
#   make demo    train small classifiers, eagerly and compiled, compare them, and time calls
#   make test    run the tests                          make test ARGS="-k guards"
#                with every case of those that run a portion   make test WHOLE=1
#   make fuzz    compare compiled and eager functions for many random arguments: EXAMPLES=200 each
#   make fuzz-programs N=1000   compare random programs, compiled and eager   SEED=0 WORKERS=2
#   make docs    a site of the documentation, with the API and a search, in build/site
#   make check   format, lint, types, layers, house rules
#   make stdlib  rewrite functions of the standard library and run its own tests (needs no torch)
#   make auto    whole programs, and the standard library's tests, with the import hook
#   make programs  the programs of examples/programs, eagerly and compiled in every way
#   make faults  kill -9, full disks, corrupt files, signals, forks   make faults ARGS="--part kills"
#   make curves  losses of 50 whole training steps, compiled and eager   make curves ARGS="--only BERT"
#   make models  architectures of public libraries, made tiny   make models ARGS="--torch"
#   make opinfo  PyTorch's op database, compiled and eager   make opinfo ARGS="--ops '^nn'"
#   make bench   run the benchmarks                     make bench ARGS="kernels --quick"
#   make ahead   compile all Triton kernels of tests and benchmarks, without a GPU; none may spill
#   make gpu     tests and benchmarks that need a GPU, on one   make bench-gpu   only the benchmarks
#   make clean   remove the environments and caches
#
#   make test PYTHON=python3.13     with another interpreter: 3.11 or newer
#   make test TORCH=2.11.0          with another PyTorch: 2.11 or newer
#   make test TORCH=newest          with the newest PyTorch that pip can install when it is set up

PYTHON ?= python3
TORCH ?=
WORKERS ?= 2
ARGS ?=
EXAMPLES ?= 200
WHOLE ?= 0
N ?= 1000
SEED ?= 0

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv-$(VERSION)$(if $(TORCH),-torch-$(TORCH))
STDLIB_VENV := .venv-stdlib-$(VERSION)
VENV_PYTHON := $(VENV)/bin/python
PIP := -m pip install -qq --disable-pip-version-check --constraint
PIP_INSTALL := $(PIP) $(if $(TORCH),$(VENV)/)constraints.txt

.PHONY: demo docs test fuzz fuzz-programs check lint types layers rules stdlib programs faults curves models opinfo bench ahead bench-gpu gpu clean setup python

demo: setup
	$(VENV_PYTHON) examples/digits.py $(ARGS)
	$(VENV_PYTHON) examples/speed.py $(ARGS)

test: setup
	JITPKG_TEST_WHOLE=$(WHOLE) $(VENV_PYTHON) -m pytest -q --numprocesses=$(WORKERS) $(ARGS)

fuzz: setup
	JITPKG_TEST_EXAMPLES=$(EXAMPLES) $(VENV_PYTHON) -m pytest -q --numprocesses=$(WORKERS) tests/testing/test_fuzz.py $(ARGS)

fuzz-programs: setup
	$(VENV_PYTHON) -m jitpkg.testing.programs --programs $(N) --seed $(SEED) --workers $(WORKERS) $(ARGS)

docs: setup
	$(VENV_PYTHON) -m sphinx -q -W --keep-going -b html docs build/site $(ARGS)
	@echo "build/site/index.html"

check: lint types layers rules

lint: setup
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: setup
	$(VENV)/bin/mypy

layers: setup
	$(VENV)/bin/lint-imports --no-logo

rules: setup
	$(VENV_PYTHON) -m pytest -q tests/test_house_rules.py

stdlib: $(STDLIB_VENV)/ready
	$(STDLIB_VENV)/bin/python -m tests.stdlib.run $(ARGS)

auto: setup
	$(VENV_PYTHON) -m pytest -q -m slow tests/auto
	$(VENV_PYTHON) -m tests.auto.library $(ARGS)

programs: setup
	$(VENV_PYTHON) -m pytest -q -m "slow or not slow" --numprocesses=$(WORKERS) tests/example_programs $(ARGS)

faults: setup
	$(VENV_PYTHON) -m tests.faults $(ARGS)

curves: setup
	$(VENV_PYTHON) -m tests.curves $(ARGS)

models: setup
	$(VENV_PYTHON) -m tests.architectures.run $(ARGS)

opinfo: setup
	$(VENV_PYTHON) -m tests.opinfo.run --workers $(WORKERS) $(ARGS)

bench: setup
	$(VENV_PYTHON) benchmarks/run.py $(ARGS)

ahead: setup-gpu
	$(VENV_PYTHON) -m tests.codegen.triton.everything $(ARGS)

bench-gpu: setup-gpu
	$(VENV_PYTHON) benchmarks/run.py gpu $(ARGS)

gpu: setup-gpu
	$(VENV_PYTHON) -m pytest -q tests/codegen
	$(VENV_PYTHON) benchmarks/run.py gpu $(ARGS)

clean:
	rm -rf .venv* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(VENV)/ready

setup-gpu: setup
	@$(VENV_PYTHON) -c 'import triton' 2>/dev/null \
	|| $(VENV_PYTHON) $(PIP_INSTALL) --editable '.[triton]'

# Another PyTorch asks for other versions of these; the interpreter of Triton 3.6 takes numpy to 2.3.
IS_NEWEST := $(filter newest,$(TORCH))
OF_TORCH := ^(torch|triton|setuptools|numpy)==

# An environment is ready once all of it is installed; it is made again when what it holds changes.
$(VENV)/ready: pyproject.toml constraints.txt | python
	@echo "Setting up $(VENV); the first time this takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH),@{ grep -Ev '$(OF_TORCH)' constraints.txt; printf '%s\n' $(if $(IS_NEWEST),,'torch==$(TORCH)') 'numpy<2.4'; } > $(VENV)/constraints.txt)
	$(VENV_PYTHON) $(PIP_INSTALL) $(if $(IS_NEWEST),--upgrade torch) --editable '.[cpu,dev,examples,test]'
	@touch $@

$(STDLIB_VENV)/ready: constraints.txt | python
	@echo "Setting up $(STDLIB_VENV)."
	$(PYTHON) -m venv $(STDLIB_VENV)
	$(STDLIB_VENV)/bin/python $(PIP) constraints.txt bytecode
	@touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "$(PYTHON) is not Python 3.11 or newer; choose one with PYTHON=..." >&2; exit 1; }
