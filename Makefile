# Two commands: `make run` and `make test`. Each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
RUN ?= runs/binary-mnist-relu

.PHONY: run test results bench clean

run: .venv/installed
	$(BIN)/pacbayes train --dataset binary-mnist --fallback digits --out $(RUN)
	$(BIN)/pacbayes certify $(RUN)

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest
	ATEN_CPU_CAPABILITY=avx2 $(BIN)/pytest --quiet tests/test_engine.py tests/native  # its other build

# Everything the README's table and picture say, from nothing; finished runs are kept.
FAST := relu sigmoid sign
PAPER := fix-lambda optim-lambda
results: .venv/installed
	for a in $(FAST); do \
	  $(BIN)/pacbayes train --activation $$a --out results/fast-$$a && \
	  $(BIN)/pacbayes certify results/fast-$$a || exit 1; done
	for o in $(PAPER); do \
	  $(BIN)/pacbayes train --protocol paper --objective $$o --samples 10 \
	    --out results/paper-$$o-relu && \
	  $(BIN)/pacbayes certify results/paper-$$o-relu || exit 1; done
	$(BIN)/pacbayes train --protocol paper --objective optim-lambda --samples 10 \
	  --lambda-rate 0.01 --out results/paper-optim-lambda-relu-rate-0.01
	$(BIN)/pacbayes certify results/paper-optim-lambda-relu-rate-0.01
	$(BIN)/pacbayes plot results/fast-relu --out docs/training.png
	$(BIN)/python results/table.py

bench: .venv/installed
	$(BIN)/python benchmarks/step.py

.venv/installed: pyproject.toml constraints.txt hatch_build.py $(wildcard src/pacbayes/native/*.[ch])
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv
