# Everything runs in .venv, made by Python's own tools: `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp for each set of what is installed: the lean core speaks, the language model needs vLLM.
SPEECH := $(VENV)/speech
LANGUAGE := $(VENV)/language
DEVELOPMENT := $(VENV)/development
DEMO_PORT := 8090
DEMO_URL := http://127.0.0.1:$(DEMO_PORT)
DEMO := The river keeps its own time, and so does a sentence that is spoken while it is still being made.
QUESTION := What is the capital of France?
SERVE_DEMO := $(BIN)/ouzel serve --port $(DEMO_PORT) --log-level WARNING
SPEAK_DEMO := $(BIN)/ouzel-client speak "$(DEMO)" --url $(DEMO_URL) --wait 120 --save demo.wav --timing

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo demo-speech serve test check voice

help:
	@echo "make demo         start the server, speak a sentence over its WebSocket into demo.wav, and an answer of the"
	@echo "                  language model into answer.wav"
	@echo "make demo-speech  the first half of it, without a language model and what that needs"
	@echo "make serve        start the server; a browser finds it at http://127.0.0.1:8080"
	@echo "make test         run the tests (PYTEST_ARGS=...)"
	@echo "make check        ruff and mypy"
	@echo "make voice        train the embedded voice again"

# Uncompiled, the model is there in seconds.
demo: $(LANGUAGE)
	@$(BIN)/ouzel pull smollm2
	@$(SERVE_DEMO) --llm smollm2 --set llm.eager=true & trap "kill $$!; wait" EXIT; $(SPEAK_DEMO) && \
	$(BIN)/ouzel-client ask "$(QUESTION)" --temperature 0 --url $(DEMO_URL) --wait 300 --save answer.wav

demo-speech: $(SPEECH)
	@$(SERVE_DEMO) --no-llm & trap "kill $$!; wait" EXIT; $(SPEAK_DEMO)

serve: $(LANGUAGE)
	@$(BIN)/ouzel pull smollm2
	@$(BIN)/ouzel serve

test: $(DEVELOPMENT) $(LANGUAGE)
	@$(BIN)/ouzel pull smollm2
	@$(BIN)/python -m pytest -q -m "not slow" $(PYTEST_ARGS)

check: $(DEVELOPMENT)
	@$(BIN)/ruff check
	@$(BIN)/mypy

voice:
	@$(MAKE) -C training

$(SPEECH): EXTRAS := client
$(LANGUAGE): EXTRAS := client,llm
$(DEVELOPMENT): EXTRAS := client,dev
$(SPEECH) $(LANGUAGE) $(DEVELOPMENT): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)" && $(BIN)/python -m pip install -qq -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@
