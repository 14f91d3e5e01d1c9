# Two commands: `make run` and `make test`. Each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
RUN ?= runs/binary-mnist-relu

.PHONY: run test clean

run: .venv/installed
	$(BIN)/pacbayes train --dataset binary-mnist --fallback digits --out $(RUN)
	$(BIN)/pacbayes certify $(RUN)

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv
