# make help lists what there is. Either `make figures` or `make test`, typed first, sets everything up.
PYTHON := $(shell for p in python3 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
READY := .venv/ready
SITE_READY := .venv/ready-site
NO_CHECK := jupyterlab.handlers.announcements.NeverCheckForUpdate
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 600 -n 2 --dist loadscope -o addopts=""
COMPILED := merge_loop unigram adaptbpe pretokens pruning
SMALL := merge_loop or textbook or librarys or their_definition or matches_are or add_up
export PYTHONHASHSEED := 0

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/make \1	\2/p' Makefile

setup: $(READY)  ## make .venv with the tested packages (the others do it by themselves)

figures: $(READY)  ## run every notebook in the quick profile and write figures/ (ONLY=08 for one)
	TOKHELPERS_PROFILE=quick $(BIN)/python tools/run_notebooks.py $(ONLY)

test: $(READY)  ## ruff, pytest, and nbval over all notebooks
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/pytest -n 2 -p no:nbval --ignore tests/browser
	$(BIN)/pytest $(NBVAL) notebooks
	@if ! command -v chromium >/dev/null; then \
		echo "browser tests not run: chromium is not installed (Debian: apt-get install chromium)"; \
	elif ! command -v npm >/dev/null; then \
		echo "browser tests not run: npm is not installed (Debian: apt-get install npm)"; \
	else $(MAKE) test-browser; fi

test-browser: site  ## the built site and JupyterLab in Chromium
	$(BIN)/pytest -n 2 --dist worksteal -p no:nbval tests/browser

screenshot: site  ## the landing page for the README, as site/_static/landing.png
	$(BIN)/python tests/browser/screenshot.py

store: $(READY)  ## run the notebooks and keep their fresh outputs (ONLY=08 for one)
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
	$(BIN)/python benchmarks/counting.py

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
		-k "$(SMALL)" $(addprefix tests/test_,$(COMPILED:=.py))
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

site: $(SITE_READY)  ## build the static site into build/site/html
	$(BIN)/python site/pages.py
	$(BIN)/sphinx-build -q -W --keep-going -c site -d build/site/doctrees build/site/source build/site/html

times: $(READY)  ## run every notebook but the solutions, and keep how long each took
	TOKHELPERS_PROFILE=quick $(BIN)/python tools/run_notebooks.py --times

readme: $(READY)  ## write the README's table of notebooks from data/
	$(BIN)/python site/readme.py

full: $(READY)  ## run every notebook in the full profile: offline, longer
	TOKHELPERS_PROFILE=full $(BIN)/python tools/run_notebooks.py $(ONLY)

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed: neither python3 nor python3.11 is one" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

$(SITE_READY): $(READY) requirements-site.txt site/package-lock.json
	$(BIN)/pip install -q --disable-pip-version-check -c requirements.txt -r requirements-site.txt
	@command -v npm >/dev/null || { echo "npm (Node.js) is needed: it brings Python for the browser" >&2; exit 1; }
	cd site && npm ci --silent --no-audit --no-fund
	touch $(SITE_READY)

.PHONY: help setup figures test test-browser screenshot store lab bench soak coverage dist site times readme full
