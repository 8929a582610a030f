# Each target sets up what it needs: `make run` and `make test` work in a fresh clone.

.DEFAULT_GOAL := help
.PHONY: help run test check bench crash fuzz interop clean
B := .venv/bin
export PROMPT
N ?= 200

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

run: ## set up, and run the main job with the embedded model (PROMPT="…" asks something else)
	@scripts/setup run
	@scripts/first-run

test: ## set up, and run the test suite
	@scripts/setup test
	$(B)/python -m pytest -q -n auto

check: ## everything that continuous integration checks
	@scripts/setup test
	$(B)/ruff check
	$(B)/ruff format --check
	$(B)/mypy
	$(B)/lint-imports
	$(B)/deptry .
	$(B)/vulture
	$(B)/coverage erase
	$(B)/python -m pytest -q -n auto --cov --cov-report=term

bench: ## measure; the results are discussed in docs/benchmarks.md
	@scripts/setup test
	$(B)/python bench/run.py

crash: ## kill servers at random moments and look whether what was answered survives (N=200 times, SEED=…)
	@scripts/setup test
	$(B)/python tests/ollie/crash.py $(N) $(SEED)

interop: ## test other people's 9P clients, Linux in a virtual machine among them
	@scripts/setup interop
	$(B)/python -m pytest -q tests/interop/test_*.py tests/interop/linux_v9fs.py

fuzz: N = 100000
fuzz: ## feed a server with bytes made to break it (N=100000 inputs)
	@scripts/setup test
	$(B)/python tests/fuzz/session.py -runs=$(N)

clean: ## remove what the other targets made in this folder
	rm -rf .venv build .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
