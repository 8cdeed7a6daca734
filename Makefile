# Two commands are enough: make demo, make test. Both set up .venv the first time. Nothing here needs Docker or root.
# PYTHON=/path/to/python3.13 chooses the interpreter; the default is the newest on PATH. ARGS=... goes to the command.

RUN := .venv/bin/python

TESTS := $(RUN) -m pytest -p rerunfailures
PYTEST = $(TESTS) -n 4 --dist loadfile --no-loadscope-reorder  # they mostly wait; long files are not the last

.DEFAULT_GOAL := help
-include labs/*/targets.mk
.NOTPARALLEL:
.PHONY: help demo up test test-core test-slow histories mutants test-browser lint coverage format \
	requirements readme show docs docker-test kubernetes-test clean setup-loadtest setup-dev

# "##1" marks what a new user needs, "##2" what else there is to try, "##3" what maintainers use.
HELP = sed -n "s/^\([a-z-]*\):.*$(1) \(.*\)/\1|\2/p" $(MAKEFILE_LIST) | while IFS="|" read -r name text; do printf "  make %-13s %s\n" "$$name" "$$text"; done

help:
	@echo "First:"; $(call HELP,##1)
	@echo "Then:"; $(call HELP,##2)
	@echo "For maintainers:"; $(call HELP,##3)

demo: setup-loadtest ##1 Sell without and with locks, compare (ARGS=--all: all)
	@$(RUN) -m loadtest demo $(ARGS)

up: setup-loadtest ##1 Run the sale with board and Locust's page, until Ctrl-C
	@$(RUN) -m loadtest up $(ARGS)

test: lint ##3 Run the checks and the quick tests (pages need Chromium)
	@$(PYTEST) $(ARGS)

test-core: setup-dev ##3 Run the tests of the core alone
	@$(PYTEST) tests $(ARGS)

test-slow: setup-dev ##3 Run the other tests, which take an hour
	@$(PYTEST) -m slow $(ARGS)

histories: setup-dev ##3 Try every history of small worlds of the lock's core
	@$(RUN) -m tests.lock.core.histories $(ARGS)

mutants: setup-dev ##3 Take out lines one by one: which does no test miss?
	@$(RUN) -m scripts.mutants $(or $(ARGS),lock/core)

test-browser: setup-dev ##3 Test the pages alone, in a browser (needs Chromium)
	@$(RUN) scripts/chromium.py
	@$(RUN) -m pytest -m browser $(ARGS)

lint: setup-dev ##3 Run the checks alone: ruff, mypy and oxlint
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@.venv/bin/oxlint --deny-warnings $(wildcard app labs loadtest)

coverage: setup-dev ##3 Measure what the tests reach: build/coverage/html
	@mkdir -p build/coverage && $(RUN) -m coverage erase
	@COVERAGE_CORE=ctrace $(RUN) -m coverage run -m pytest -n 4 --dist loadfile --timeout 600 -m "not long" $(ARGS)
	@$(RUN) -m coverage combine --quiet
	@$(RUN) -m coverage html --quiet
	@echo "Covered: $$($(RUN) -m coverage report --format=total) % of lines and branches"

format: setup-dev ##3 Format the code and fix what ruff can fix
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

readme: setup-dev ##3 Run the demo and write the outputs that README.md shows
	@$(RUN) scripts/readme.py $(ARGS)

docs: setup-dev ##3 Build the documents as a site: site/docs/index.html
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet

show: setup-dev ## Take pictures of the pages (needs Chromium)
	@$(RUN) -m scripts.screenshots

docker-test: ##3 Try the Compose stack: up, buy from each shop, down
	@scripts/docker_test.sh

kubernetes-test: setup-dev ##3 Check deploy/kubernetes; try it on a cluster (docs/deploy.md)
	@$(TESTS) -q tests/repository/test_deploy.py
	@$(RUN) deploy/kubernetes_test.py $(ARGS)

requirements: ##3 Pin the newest versions of all dependencies (needs uv)
	@command -v uv > /dev/null || { echo "make requirements needs uv: pip install uv" >&2; exit 1; }
	@scripts/pin_requirements.sh

clean: ##3 Remove what the other commands made, except reports/
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis build mutants ./*.egg-info
	find app deploy $(wildcard labs) lock loadtest tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# The newest Python on PATH that can make a .venv, or the one that PYTHON= names.
PYTHONS = $${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3.10 python3}
export PYTHON

setup-loadtest setup-dev: setup-%:
	@for python in $(PYTHONS); do \
	  "$$python" -c "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))" 2> /dev/null && exec "$$python" scripts/set_up.py $*; \
	done; \
	echo "set-up: Python 3.10 or newer with venv (apt install python3-venv) is needed. Name one: make demo PYTHON=/path/to/python3.13 (or use docker compose up)" >&2; exit 1
