# Each target sets up what it needs: a .venv with the pinned packages, and a Java for Spark.
SHELL := /bin/bash
PYTHON ?= python3
export PYTHON
# Last, for the etcd that setup puts there where no package brings one.
export PATH := $(PATH):$(CURDIR)/.venv/bin
RUN := .venv/bin/python -m
READY := .venv/.ready

.PHONY: help demo test test-slow check bench pins clean java postgres driver
.DEFAULT_GOAL := help

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: $(READY) java ## Scale a running Spark job over a year of real flights (about 2 minutes)
	@$(RUN) deploy.demo

test: $(READY) java postgres driver ## Run the tests over real etcd, Spark, SQLite and PostgreSQL
	$(RUN) pytest

test-slow: $(READY) java postgres driver ## Run the long tests too
	$(RUN) pytest -m "slow or not slow"

check: $(READY) ## Lint, types and the layering of the packages
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	.venv/bin/lint-imports

bench: $(READY) java ## Measure, each figure beside what it is compared with
	$(RUN) benchmarks.dispatch
	$(RUN) benchmarks.handover
	$(RUN) benchmarks.keys
	$(RUN) benchmarks.planner
	$(RUN) benchmarks.publication
	$(RUN) benchmarks.routing
	$(RUN) benchmarks.scan
	$(RUN) benchmarks.service

pins: $(READY) ## Choose the newest versions of all packages anew, into constraints.txt
	$(RUN) pip --quiet install uv
	.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --extra dev \
		--no-emit-index-url --no-annotate --no-header pyproject.toml --output-file constraints.txt

clean: ## Remove .venv and all caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(READY): constraints.txt pyproject.toml deploy/setup.sh
	@deploy/setup.sh python

java:
	@deploy/setup.sh java

postgres: $(READY)
	@deploy/setup.sh postgres

driver: .venv/jars/.asked

.venv/jars/.asked: $(READY) deploy/setup.sh | java
	@deploy/setup.sh driver
	@[ -n "$$VNODEMAP_POSTGRES_JAR" ] || { mkdir -p $(@D) && touch $@; }
