# Every command prepares .venv first if it has to: `make PYTHON=/path/to/python` chooses the interpreter.
# Only relative paths, so that the tree may lie anywhere.
SHELL := /bin/sh
PY := .venv/bin/python
# A line with $$(MAKE) would run under `make -n` too.
SELF := $(MAKE)
EXTRAS := dev,sketches,stores,frames,spark,kafka,plot,cli
# tests/conftest.py has the number of workers, and what each takes.
PYTEST := $(PY) -m pytest --numprocesses=auto --dist=loadscope --no-loadscope-reorder
# What runs compiled code with every index checked.
KERNEL_TESTS := tests/kernels tests/engine tests/frames tests/conformance

# Without bytecode each of the many processes of the tests would compile every module again: 0.5 s of CPU each.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH PYTHONSAFEPATH VIRTUAL_ENV

# $(call check,what,command): a title above the output, and what failed as the last line.
check = @printf '\n--- %s\n' '$(1)'; $(2) || { printf '\nFAILED: %s\n' '$(1)' >&2; exit 1; }

.PHONY: help demo test test-all test-part test-bounds test-cluster test-versions test-ui mutants bench bench-spark bench-stream wheel docs pictures lint format clean venv
.NOTPARALLEL:

help: ## show this list
	@printf 'usage: make <target>\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' Makefile | while read -r target text; do \
		printf '  %-13s %s\n' "$$target" "$$text"; done

demo: venv ## the ideas at work, in a minute or two, at the end on Spark
	@$(PY) -m examples.demo

# The type checker keeps one core busy for a minute: the tests start beside it.
test: venv ## every check and the tests; this is what must pass
	@$(SELF) --no-print-directory lint & lint=$$!; \
	$(PYTEST) -m 'not all_compiled and not cluster'; tests=$$?; \
	wait $$lint || { printf '\nFAILED: lint, see above\n' >&2; exit 1; }; \
	[ $$tests -eq 0 ] || { printf '\nFAILED: pytest\n' >&2; exit 1; }

test-cluster: venv ## Spark on a cluster on this machine: batches and streams in spite of faults, spark-submit, shipping
	$(call check,pytest (cluster),$(PY) -m pytest -m cluster tests/spark/cluster)

test-versions: venv ## a small test with each version of Spark that is supported, in build/versions: ARGS=4.0 for one
	@$(PY) -m tools.spark_versions $(ARGS)

# In parts, each with new processes: one that has compiled its share of a quarter of the combinations has 2.6 GB.
PARTS := 1/4 2/4 3/4 4/4
test-all: venv $(if $(filter 1/%,$(PARTS)),lint test-cluster) ## the same, with every compiled combination and more random examples, in four parts: PARTS=2/4 for one
	@failed=; for part in $(PARTS); do for tests in test-part test-bounds; do \
		$(SELF) --no-print-directory $$tests PART=$$part || failed="$$failed $$tests $$part"; done; done; \
	[ -z "$$failed" ] || { printf '\nFAILED:%s\n' "$$failed" >&2; exit 1; }

test-part:
	$(call check,pytest (all): part $(PART),SASH_HYPOTHESIS=thorough $(PYTEST) --part=$(PART) -m 'not cluster')

test-bounds:
	$(call check,pytest (bounds checks): part $(PART),SASH_HYPOTHESIS=checked NUMBA_BOUNDSCHECK=1 $(PYTEST) --part=$(PART) -m 'not spark and not all_compiled and not cluster' $(KERNEL_TESTS))

test-ui: venv ## the tests of the live page alone, in chromium
	$(call check,pytest (browser),$(PY) -m pytest -m browser tests/cli/page)

mutants: venv ## tests of the tests: with one line changed, tests/behaviour must fail: ARGS="watermark --jobs 4"
	$(call check,mutants,$(PY) -m tests.behaviour.mutants $(ARGS))

bench: EXTRAS := dev,sketches,stores,frames,spark,kafka,plot,cli,bench
bench: venv ## the benchmarks: ARGS="..." is passed on
	@$(PY) -m benchmarks $(ARGS)

bench-spark: EXTRAS := dev,sketches,stores,frames,spark,kafka,plot,cli,bench
bench-spark: venv ## the benchmark of Spark, batch: ARGS=--quick for a small one
	@$(PY) -m benchmarks.spark_batch $(ARGS)

bench-stream: EXTRAS := dev,sketches,stores,frames,spark,kafka,plot,cli,bench
bench-stream: venv ## the benchmarks of Spark, streams, also beside Flink: ARGS=--quick for small ones
	@$(PY) -m benchmarks.spark_stream $(ARGS)
	@$(PY) -m benchmarks.flink_stream $(ARGS)

wheel: venv ## a wheel for this platform in dist, with the common kernels compiled
	@rm -rf build/kernels
	$(call check,kernels,$(PY) -m tools.package_kernels build/kernels)
	$(call check,wheel,HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .)

lint: venv ## format, lint, types and import direction, without changing a file
	$(call check,ruff format,$(PY) -m ruff format --check .)
	$(call check,ruff check,$(PY) -m ruff check .)
	$(call check,mypy,$(PY) -m mypy)
	$(call check,import direction,$(PY) .venv/bin/lint-imports --no-logo --cache-dir .import_linter_cache)

docs: EXTRAS := dev,sketches,stores,frames,spark,kafka,plot,cli,docs
docs: venv ## the documentation as a site, in build/site
	$(call check,docs,NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict)

pictures: venv ## draw the pictures of README.md and docs again, from docs/performance.md and generated data
	@$(PY) -m tools.pictures

format: venv ## format the code, fix what the linter can fix, and write generated pages
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .
	@$(PY) -m tools.catalogue_table
	@$(PY) -m tools.reference
	@$(PY) -m tools.performance_summary

clean: ## remove .venv, caches and builds
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@sh tools/venv.sh '$(EXTRAS)'
