# Every target makes .venv and installs on its own when something it needs has changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= demo

.PHONY: demo test unit instruction-sets lint format docs bench clean

demo: $(STAMP)
	$(BIN)/knnlm demo --out $(OUT)

# One BLAS thread in each of two workers: more threads than cores only spin.
PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/pytest -n 2 --dist worksteal

test: $(STAMP)
	$(PYTEST) $(ARGS)

# Without the tests that train, build, run commands or kill processes: under a minute.
unit: $(STAMP)
	$(PYTEST) -m "not pipeline" $(ARGS)

# The numeric tests once more, with libraries held to AVX2; x86 only. Both runs try every precision of exact search.
NARROW := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 FAISS_SIMD_LEVEL=AVX2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
NUMERIC := tests/search tests/components tests/evaluation

instruction-sets: $(STAMP)
	$(NARROW) $(PYTEST) -m "not pipeline" $(NUMERIC)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("knnlm needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

# Ours beside its rivals and the machine's limits, and growth with size; resumes. ARGS=--quick takes a few minutes.
bench: $(STAMP)
	$(BIN)/python benchmarks/run.py $(ARGS)

# README.md and docs/why.md: sentences from docs/templates, numbers from records. The explorer's findings: docs/why.md.
docs: $(STAMP)
	$(BIN)/python docs/write.py
	$(BIN)/python docs/findings_page.py

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
