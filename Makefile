# Everything runs in .venv, made by Python's own tools: `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
DEMO_PORT := 8090
DEMO := The river keeps its own time, and so does a sentence that is spoken while it is still being made.

.DEFAULT_GOAL := help
.PHONY: help demo serve test check voice

help:
	@echo "make demo    start the server, speak a sentence over its WebSocket into demo.wav"
	@echo "make serve   start the server; a browser finds it at http://127.0.0.1:8080"
	@echo "make test    run the tests (PYTEST_ARGS=...)"
	@echo "make check   ruff and mypy"
	@echo "make voice   train the embedded voice again"

demo: $(READY)
	@$(BIN)/ouzel serve --port $(DEMO_PORT) --log-level WARNING & trap "kill $$!; wait" EXIT; \
	$(BIN)/ouzel-client speak "$(DEMO)" --url http://127.0.0.1:$(DEMO_PORT) --wait 120 --save demo.wav --timing

serve: $(READY)
	@$(BIN)/ouzel serve

test: $(READY)
	@$(BIN)/python -m pytest -q -m "not slow" $(PYTEST_ARGS)

check: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/mypy

voice:
	@$(MAKE) -C training

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)" && $(BIN)/python -m pip install -qq -c constraints.txt -e ".[client,dev]"
	@touch $@
