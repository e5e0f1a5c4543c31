# Each target does its own set-up in .venv; after the first time none needs the network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
VENV_BENCH := .venv-bench
PIP_BENCH := $(VENV_BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint benchmarks/constraints.txt
SHARED_DATA := ../shared/data
SUITE := research/results/benchmark_suite

PYTEST := $(BIN)/python -m pytest -q -rs
PYTEST_RESEARCH := $(PYTEST) -c research/pyproject.toml research/src research/tests

# Nothing is compiled at installation: without bytecode each of the processes that the tests start compiles torch again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-research test-browser test-slow browser lint data bench bench-quick results clean

demo: $(VENV)/.cli
	$(BIN)/setwise train credit-default --measure "precision@recall>=0.8" --subject-to "recall[group=SEX]>=0.8" \
	    --out runs/demo --overwrite

# Any of the test targets takes more arguments: make test PYTEST_ARGS="-k auc". Where CI=true is set, a skip fails unless
# tests/allowed_skips.txt has its reason.
test: $(VENV)/.dev
	$(PYTEST) -n 2 --dist worksteal --ignore=tests/browser $(PYTEST_ARGS)

# The research package beside it, set up by its own pyproject.toml.
test-research: $(VENV)/.dev
	$(PYTEST_RESEARCH) -n 2 $(PYTEST_ARGS)

# The report page in the system's Chromium, with screenshots in runs/browser; skipped where there is none.
test-browser: $(VENV)/.dev
	$(PYTEST) tests/browser $(PYTEST_ARGS)

# What takes minutes, with the larger data sets where they are at hand; all of it within an hour on two cores.
test-slow: $(VENV)/.dev data
	$(PYTEST) -n 2 --dist worksteal -m slow --durations=20 $(PYTEST_ARGS)
	$(PYTEST_RESEARCH) -m slow $(PYTEST_ARGS) || [ $$? -eq 5 ]  # 5: PYTEST_ARGS picks none of them

# Debian's Chromium for test-browser, where there is no browser and packages may be installed.
browser:
	tests/browser/install.sh

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

data: $(VENV)/.cli
	@if [ -f $(SHARED_DATA)/unpack.py ]; then $(BIN)/python $(SHARED_DATA)/unpack.py; \
	else echo "make data: $(SHARED_DATA) is not here; tests that need the larger data sets will be skipped"; fi

# Everything beside the peers, in their own environment, about an hour; make bench BENCH_ARGS="--only auc lp" for parts.
bench: $(VENV_BENCH)/.ready
	$(VENV_BENCH)/bin/python benchmarks/run.py $(BENCH_ARGS)

# Without the peers, a minute: fails where a ratio is more than twice its level in benchmarks/levels.json.
bench-quick: $(VENV)/.dev
	$(BIN)/python benchmarks/quick.py

# The page from the stored runs; the runs themselves are `setwise-research benchmark-suite --runs $(SUITE).csv`.
results: $(VENV)/.dev
	$(BIN)/setwise-research benchmark-suite --dry --runs $(SUITE).csv --page docs/research/benchmark-suite.md

clean:
	rm -rf $(VENV) $(VENV_BENCH) runs .pytest_cache research/.pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.build: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables
	touch $@

$(VENV)/.cli: $(VENV)/.build pyproject.toml
	$(PIP) --no-build-isolation --editable ".[cli]"
	touch $@

# The last two are peers that the tests compare with; qpth asks for numpy 1 and does well with 2.
$(VENV)/.dev: $(VENV)/.build pyproject.toml research/pyproject.toml
	$(PIP) --no-build-isolation --editable ".[dev]" --editable ./research
	$(PIP) --no-deps ap_perf qpth
	touch $@

$(VENV_BENCH)/.ready: benchmarks/constraints.txt benchmarks/requirements.txt pyproject.toml research/pyproject.toml
	$(PYTHON) -m venv $(VENV_BENCH)
	$(PIP_BENCH) --requirement benchmarks/requirements.txt
	$(PIP_BENCH) --no-deps qpth libauc ap_perf imbalanced-losses pyepo
	$(PIP_BENCH) --no-build-isolation --editable ".[cli]" --editable ./research
	touch $@
