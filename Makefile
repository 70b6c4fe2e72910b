# Everything runs in .venv, made by Python's own tools: `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
DEMO := The river keeps its own time, and so does a sentence that is spoken while it is still being made.

.DEFAULT_GOAL := help
.PHONY: help demo test check voice

help:
	@echo "make demo    speak a sentence into demo.wav"
	@echo "make test    run the tests (PYTEST_ARGS=...)"
	@echo "make check   ruff and mypy"
	@echo "make voice   train the embedded voice again"

demo: $(READY)
	@$(BIN)/ouzel say "$(DEMO)" -o demo.wav --step-stats

test: $(READY)
	@$(BIN)/python -m pytest -q -m "not slow" $(PYTEST_ARGS)

check: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/mypy

voice: $(READY)
	@$(MAKE) -C training PYTHON=$(abspath $(BIN)/python)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)" && $(BIN)/python -m pip install -qq -c constraints.txt -e ".[client,dev]"
	@touch $@
