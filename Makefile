# Everything a fresh machine needs, from the environment to the numbers. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help env java demo test test-all test-spark lint format bench docs site clean

help: ## list the targets
	@echo "Flintlog: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
	    printf '  %-10s %s\n' "$$name" "$$text"; done

env: $(STAMP) java ## create the environment in .venv and make sure of Java
	@echo "environment: $(VENV)"

$(STAMP): pyproject.toml
	@python=$$(scripts/python) || exit 1; \
	echo "environment: creating $(VENV) with $$python"; \
	"$$python" -m venv $(VENV)
	@echo "environment: installing flintlog with extras spark and dev (some minutes the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[spark,dev]'
	@$(BIN)/python scripts/installed
	@touch $@

java:
	@scripts/java

demo: env ## write, kill, recover, export and compact logs in .demo on Spark
	@echo "demo logs: .demo"
	@$(BIN)/python -m examples.demo

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup --durations 10

test: env ## run the tests, with samples of the long ones, in two processes
	@echo "tests: two processes, samples of the long ones; what it covered is told at the end"
	@$(PYTEST)

test-all: test ## run what `test` leaves out: every crash image, every fault, long lanes
	@echo "tests: the rest, two processes; what it covered is told at the end"
	@$(PYTEST) --rest

VERSION ?= 4.1 4.2

test-spark: ## run the core of the Spark tests on other versions: make test-spark VERSION=4.1
	@scripts/spark_versions $(VERSION)

lint: $(STAMP) ## check style, format and types
	@echo "lint: ruff check"
	@$(BIN)/ruff check .
	@echo "lint: ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "lint: mypy --strict on src/flintlog"
	@$(BIN)/mypy

format: $(STAMP) ## sort imports and format every file
	@echo "format: ruff, in place"
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

bench: env ## measure against peers in the same run
	@echo "benchmarks: benchmarks/, working files in .bench"
	@$(BIN)/python -m benchmarks

docs: $(STAMP) ## write options, fields, names, findings and figures into docs, draw the byte maps
	@$(BIN)/python -m scripts.pages.reference
	@$(BIN)/python -m scripts.pages.byte_maps
	@$(BIN)/python -m scripts.pages.finding_tables
	@$(BIN)/python -m scripts.pages.rooms
	@$(BIN)/python -m scripts.pages.performance

site: $(STAMP) ## build the pages and the API reference as a site with search, in site/
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site: site/index.html"

clean: ## remove caches, site, demo and benchmark files; the environment stays
	@rm -rf .demo .bench .spark build dist site spark-warehouse metastore_db derby.log
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: caches, .demo and .bench are gone; environment kept: $(VENV)"
