# `make run`, `make check` and `make test`: each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
RUN ?= runs/binary-mnist

.PHONY: run check test docs results certificates paper paper-tables pbgnet bench peers recipes priors sceptic modules growth directions scaling reading kernel tables tuning mutants faults inverses dist release clean

run: .venv/core
	$(BIN)/pacbayes train --dataset binary-mnist --fallback digits --basis eigen --prior-smooth 2 --out $(RUN)/network
	$(BIN)/pacbayes certify $(RUN)/network --priors 128
	$(BIN)/pacbayes train --dataset binary-mnist --fallback digits --network kernel --out $(RUN)/kernel
	$(BIN)/pacbayes certify $(RUN)/kernel --priors 256
	$(BIN)/pacbayes report $(RUN)/kernel --out $(RUN)/report.html
	@$(BIN)/python examples/three_certificates.py $(RUN)/network $(RUN)/kernel
	@echo "For pacbayes on your path: source $(BIN)/activate"

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile
	$(MAKE) docs
	ATEN_CPU_CAPABILITY=avx2 $(BIN)/pytest --quiet tests/engine -k "not neon and not sanitizers"  # its other build

# Before every commit: linters, the mathematics, each seam, and one run of each command, in a minute and a half.
CHECKED := bounds losses features networks certificates verify cli/test_tour.py test_architecture.py test_flow.py \
	test_formats.py test_gate.py test_inverses.py test_moved.py test_size.py
check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not slow" $(addprefix tests/,$(CHECKED))

# Pages and API reference in build/docs/index.html; notebooks are executed, warnings are errors.
docs: .venv/installed
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs build/docs

# The paper's network by this library's recipe, and results/table.md. A checkout has the results but not
# the weights, so a folder without a prior is made anew; one that was begun here is resumed.
define result
	[ -e results/$(1)/prior.safetensors ] || rm -rf results/$(1)
	$(BIN)/pacbayes train $(2) --out results/$(1)
	$(BIN)/pacbayes certify results/$(1)
endef

DEEP := --widths 100,100,100

results: .venv/installed
	$(call result,fast-relu,--activation relu $(DEEP))
	$(call result,fast-sigmoid,--activation sigmoid $(DEEP))
	$(call result,fast-sign,--activation sign $(DEEP))
	$(BIN)/python results/table.py

certificates: .venv/installed
	$(BIN)/python results/certificates/make.py
	$(BIN)/pacbayes plot results/certificates/binary-one --out docs/training.png

# The paper's runs, hours of them, and what is there of them as tables and figures.
REPRODUCE := $(BIN)/pacbayes reproduce
GRIDS := mlp,optim-lambda-sign,fix-lambda-sign,pbg,reinforce-relu
paper: .venv/installed
	$(REPRODUCE) table1 --out results/paper
	$(REPRODUCE) grid --columns $(GRIDS) --out results/paper
	$(MAKE) paper-tables

paper-tables: .venv/installed
	$(REPRODUCE) table1 --out results/paper --as-is --format markdown > results/paper/table1.md
	$(REPRODUCE) table2 --out results/paper --as-is --format markdown > results/paper/table2.md
	$(REPRODUCE) grid --columns $(GRIDS) --out results/paper --as-is --format markdown > results/paper/grid.md
	$(REPRODUCE) figures --out results/paper --as-is
	$(BIN)/python benchmarks/optim_lambda.py

# About ten minutes on an idle machine; rows that say busy have no number.
SOME := --only step --only certificate
bench: .venv/installed
	$(BIN)/pacbayes bench --out benchmarks/results.md
	$(BIN)/pacbayes bench $(SOME) --threads 2 --out benchmarks/results-2-threads.md
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
		$(BIN)/pacbayes bench $(SOME) --out benchmarks/results-avx2.md

# Other packages that bench compares with, without torchvision, which they require but do not use here.
peers: .venv/installed
	$(BIN)/pip install --quiet --no-deps bayesian-torch==0.5.0 blitz-bayesian-pytorch==0.2.8 torchbnn==1.2

# Networks that are not dense: an hour or two; names of rows choose among them.
modules: .venv/installed
	$(BIN)/python results/certificates/modules.py

priors: .venv/installed
	$(BIN)/python benchmarks/priors.py

growth: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/growth.py

directions: .venv/installed
	$(BIN)/python benchmarks/directions.py

# The size of what `verify` alone needs, beside that of everything.
sceptic: .venv/installed
	$(BIN)/python benchmarks/sceptic.py

# A thousand simulated workers on the store of runs.
scaling: .venv/installed
	PYTHONPATH=tests $(BIN)/python benchmarks/scaling.py

# Kernel networks on images, one after the other: a quarter of an hour.
kernel: .venv/installed
	$(BIN)/python benchmarks/kernel.py

reading: .venv/installed
	$(BIN)/python benchmarks/reading.py

recipes: .venv/installed
	$(BIN)/python benchmarks/recipes.py

# PBGNet with other batches and schedules than the paper's table has: hours; it can be resumed.
pbgnet: .venv/installed
	$(BIN)/python benchmarks/pbgnet.py

tables: .venv/installed
	$(BIN)/python benchmarks/tables.py

tuning: .venv/installed
	$(BIN)/python benchmarks/tuning.py

# What was run before is in benchmarks/mutants.jsonl; only what has changed since is run again.
mutants: .venv/installed
	$(BIN)/python tests/gate.py --summary benchmarks/mutants.md

# Kills, failing calls, concurrent processes and damaged files; it continues what was stopped.
faults: .venv/installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m faults --summary benchmarks/faults.md

# 200,000 random cases against Arb: an hour; it continues what was stopped.
inverses: .venv/installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m inverses --summary benchmarks/inverses.md

# The wheel and the source distribution, in dist.
dist: .venv/installed
	$(BIN)/python -m build

# The same two files, each tried in an empty environment, the sdist without a compiler: ten minutes.
release: .venv/installed
	$(BIN)/python tests/release.py

# `make run` needs no more than the package; the rest needs the tools and extras as well.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c tests/constraints.txt -e
BUILT_FROM := pyproject.toml tests/constraints.txt src/build_engine.py $(wildcard src/pacbayes/engine/c/*)

.venv/core: $(BUILT_FROM)
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[plots]'
	touch $@

.venv/installed: $(BUILT_FROM)
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[dev]'
	touch .venv/core $@

clean:
	rm -rf .venv
