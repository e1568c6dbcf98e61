# The front door. `make help` prints what there is.
#
#   PYTHON=...   the interpreter to use (default: scripts/find-python)
#   VENV=...     where to install (default: .venv); everything that make installs or builds for Python lives inside
#   ARGS=...     passed on to pytest, the benchmarks, or tickwheel serve
#   JOBS=...     how many processes run the tests (default: 6, as many of them wait); 0 runs them in pytest's own, for a debugger
#   VERSIONS=... the Pythons of test-all, test-part, conformance, bench-pythons and wheels (default: all that are supported)
#   TARGETS=...  the systems that wheels are built for, as Rust names them

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

VENV ?= .venv
ARGS ?=
JOBS ?= 6
VERSIONS ?= 3.11 3.12 3.13 3.14 3.15
TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-apple-darwin
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
KUBECONFORM := github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
CLIENTS := openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@26.6.6 axe-core@4.14.1
BIOME := @biomejs/biome@2.6.8
export CARGO_TERM_PROGRESS_WHEN ?= never

# What goes into the wheel. Folders are listed because of deletions, which change nothing else.
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE \
	$(shell find crates src -not -name '*.so' -not -name '*.pyc' -not -name __pycache__)

.PHONY: release-check test-full test-times test-dates prove-long test-part test-portable targets bench-peers bench-pythons symbols wheels sdist rootfs servers docs docs-serve screens help bench-core conformance prove run pythons test test-all check format lint types fuzz conformance-cache sanitize dev reference lock clean wheel

help:
	@awk -f scripts/help.awk $(firstword $(MAKEFILE_LIST))

# ---- what everything needs -------------------------------------------------------------------------------------------

$(VENV)/.made:
	@python="$${PYTHON:-$$(scripts/find-python)}"; echo "make: $$python -> $(VENV)"; "$$python" -m venv $(VENV)
	@touch $@

# One pin file installed, its stamp left.
$(VENV)/.%: requirements/%.txt $(VENV)/.made
	@echo "make: installing $<"
	@$(PIP) install -r $<
	@touch $@

# What generates a client in TypeScript; without npm its test is skipped.
$(VENV)/.clients: $(VENV)/.made
	@command -v npm >/dev/null && npm install --silent --no-audit --no-fund --no-save --prefix $(VENV)/clients $(CLIENTS)
	@touch $@

# What lints and formats JavaScript; without npm it is left out.
$(VENV)/.biome: $(VENV)/.made
	@command -v npm >/dev/null && npm install --silent --no-audit --no-fund --no-save --prefix $(VENV)/biome $(BIOME)
	@touch $@

$(VENV)/.wheel: $(SOURCES) $(VENV)/.build
	@command -v cargo >/dev/null || { echo "cargo is not installed: install Rust $$(sed -n 's/^rust-version = //p' Cargo.toml) or newer" >&2; exit 1; }
	@echo "make: building the release wheel"
	@rm -rf $(VENV)/dist
	@$(BIN)/maturin build --release --locked --quiet --interpreter $(BIN)/python --target-dir $(VENV)/target --out $(VENV)/dist
	@$(PIP) install --no-deps --force-reinstall $(VENV)/dist/tickwheel-*.whl
	@touch $@

wheel: $(VENV)/.wheel ## release: build the release wheel and install it into VENV
	@ls $(VENV)/dist/*.whl

wheels: pythons $(VENV)/.build $(VENV)/.wheels ## release: build and check wheels for Linux and macOS in VENV/wheels (VERSIONS="3.13" TARGETS=...)
	@rm -rf $(VENV)/wheels
	@scripts/wheels $(BIN) $(VENV)/wheels "$(VERSIONS)" "$(TARGETS)"

sdist: $(VENV)/.build $(VENV)/.dev ## release: build the sdist, and test it unpacked, as its users have it
	@rm -rf $(VENV)/sdist
	@$(BIN)/maturin sdist --out $(VENV)/sdist 2>/dev/null
	@scripts/test-sdist $(BIN) $(VENV)/sdist

release-check: pythons $(VENV)/.build $(VENV)/.wheels ## release: do all that the release workflow does, with HEAD and the Pythons here, and publish nothing
	@scripts/release-check $(BIN) $(VENV)/release "$(VERSIONS)"

rootfs: ## release: follow the Containerfile's steps with debootstrap and chroot, and try what they make (as root)
	"$$(scripts/find-python)" -P scripts/rootfs.py build/rootfs

# The release build has none: 0.98 MB instead of 5.56.
symbols: $(VENV)/.wheel ## measure: install the native module with debug symbols into VENV, for gdb, perf and valgrind
	@echo "make: building with symbols"
	@rm -rf $(VENV)/symbols
	@$(BIN)/maturin build --profile symbols --locked --quiet --interpreter $(BIN)/python --target-dir $(VENV)/target --out $(VENV)/symbols
	@$(PIP) install --no-deps --force-reinstall $(VENV)/symbols/tickwheel-*.whl
	@rm $(VENV)/.wheel  # whatever needs the release wheel installs it again

# ---- use -------------------------------------------------------------------------------------------------------------

run: $(VENV)/.service $(VENV)/.wheel ## first: set everything up and serve (ARGS="--port 8000")
	@exec $(BIN)/tickwheel serve $(ARGS)

# ---- check -----------------------------------------------------------------------------------------------------------

# pytest comes last, so that its summary closes the output. -P and the empty PYTHONPATH keep the source tree out:
# what is tested is the installed wheel. The files run as they are named, the largest shared (tests/support/spread_files.py):
# the plugin would have those of few tests last, and one process would wait for the simulated days.
PYTEST := env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE $(BIN)/python -P -m pytest
# A test of the quick set uses at most 5 seconds of CPU, on a machine that may be half as fast as a quiet one.
CPU_LIMIT := 10
SHARED_OUT := -n $(JOBS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.tests ## first: run the quick tests, in five minutes, against the installed release wheel (ARGS="-k timer")
	@cargo test --quiet --locked --package tickwheel-core
	@$(PYTEST) --quick --cpu-limit=$(CPU_LIMIT) $(SHARED_OUT) $(ARGS)

test-full: $(VENV)/.tests ## first: run all tests, in half an hour
	@cargo test --quiet --locked --package tickwheel-core
	@$(PYTEST) --cpu $(SHARED_OUT) $(ARGS)

test-times: $(VENV)/.tests ## test: run all tests and list again in tests/full_only.txt which are not quick
	@rm -f $(VENV)/times.jsonl
	@$(PYTEST) --cpu-log=$(VENV)/times.jsonl $(SHARED_OUT) $(ARGS)
	@$(BIN)/python -P scripts/quick_set.py $(VENV)/times.jsonl

test-dates: $(VENV)/.tests ## test: run the tests that read the time of day at eleven instants that break programs, in six minutes
	@env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE $(BIN)/python tests/prove/dates.py $(ARGS)

# What tests need. Each process would compile the test files for itself on a fresh clone, so one does it before.
.PHONY: $(VENV)/.tests
$(VENV)/.tests: $(VENV)/.service $(VENV)/.dev $(VENV)/.bench $(VENV)/.wheel
	@$(MAKE) --no-print-directory $(VENV)/.clients || echo "make: no npm or no registry of its packages here, so no client in TypeScript is tested" >&2
	@$(MAKE) --no-print-directory $(VENV)/bin/kubeconform || echo "make: no Go or no proxy of its modules here, so kubeconform does not check the manifests" >&2
	@[ -e $@ ] || { $(PYTEST) --quick --collect-only -qq >/dev/null && touch $@; }

servers: ## test: install the servers and the browser that tests start (apt or brew); starts no system service
	@scripts/servers

# Those that the system lacks are unpacked where Debian's packages can be had. One that is missing then is in the table; it
# fails test-all, but not test-part, which CI runs everywhere.
pythons:
	@for version in $(VERSIONS); do \
	    scripts/find-python $$version >/dev/null 2>&1 || scripts/fetch-pythons $$version || \
	        echo "make: no Python $$version here, so nothing is tested on it"; \
	done

test-all: pythons ## test: run all tests on every supported Python, with a table at the end; fails where one is missing
	@table=; failed=0; \
	for version in $(VERSIONS); do \
	    python=$$(scripts/find-python $$version 2>/dev/null) || { table+="$$version  missing, so not tested"$$'\n'; failed=1; continue; }; \
	    echo "make: Python $$version"; mkdir -p .venv-$$version; \
	    PYTHON="$$python" $(MAKE) --no-print-directory test-full VENV=.venv-$$version 2>&1 | tee .venv-$$version/test.log || failed=1; \
	    table+="$$version  $$(scripts/summary-of .venv-$$version/test.log)"$$'\n'; \
	done; \
	printf '\n%s' "$$table"; exit $$failed

# What depends most on the interpreter, on a build that takes seconds; the pinned files serve as constraints only.
PART := tests/aio tests/core tests/drivers
PART_NEEDS := anyio cronsim hypothesis pytest pytest-timeout pytest-xdist trio tzdata uvloop

test-part: pythons $(VENV)/.build ## test: run tests/aio, core and drivers on every Python that is here, on a quick build (VERSIONS="3.14 3.15")
	@table=; failed=0; \
	for version in $(VERSIONS); do \
	    scripts/find-python $$version >/dev/null 2>&1 || { table+="$$version  missing, so not tested"$$'\n'; continue; }; \
	    echo "make: Python $$version"; venv=.venv-part-$$version; \
	    [ -x $$venv/bin/python ] || "$$(scripts/find-python $$version)" -m venv $$venv; \
	    { $$venv/bin/python -m pip --disable-pip-version-check --quiet install $(PART_NEEDS) -c requirements/dev.txt \
	        -c requirements/service.txt && scripts/quick-build $(BIN) $$venv && env -u PYTHONPATH $$venv/bin/python -P \
	        -m pytest -q -n $(JOBS) --dist loadfile -p no:cacheprovider $(PART) $(ARGS); } 2>&1 | tee $$venv/test.log || failed=1; \
	    table+="$$version  $$(scripts/summary-of $$venv/test.log)"$$'\n'; \
	done; \
	printf '\n%s' "$$table"; exit $$failed

# On a native module without what Linux alone has, tickwheel is shown a standard library without what the system lacks:
# before anything imports it, so without its plugin for pytest.
PORTABLE := tests/drivers tests/aio tests/scheduler/stores/test_memory.py tests/scheduler/stores/test_sqlite.py \
	tests/scheduler/stores/test_sqlite_file.py tests/scheduler/stores/test_sqlite_gone.py \
	tests/scheduler/stores/test_sqlite_processes.py tests/scheduler/stores/test_sqlite_channels.py \
	tests/scheduler/test_firing.py tests/scheduler/test_stopping.py \
	tests/scheduler/targets/test_processes.py tests/service/test_serve.py tests/service/test_pull.py
# What takes long and says nothing about the system.
PORTABLE_LESS := not random and not thousand and not cpython

test-portable: $(VENV)/.build $(VENV)/.service $(VENV)/.dev ## test: run a good part as on macOS and on Windows: what replaces Linux's own calls there
	@rm -rf $(VENV)-portable; "$$(realpath $(BIN)/python)" -m venv $(VENV)-portable
	@echo "$$(realpath $(VENV))"/lib/python3.*/site-packages >"$$(echo $(VENV)-portable/lib/python3.*/site-packages)/borrowed.pth"
	@TICKWHEEL_PORTABLE=1 scripts/quick-build $(BIN) $(VENV)-portable
	@failed=0; for system in macos windows; do \
	    echo "make: as on $$system"; env -u PYTHONPATH $(VENV)-portable/bin/python -P -m pytest -q -n $(JOBS) \
	        --dist loadfile -p no:cacheprovider -p no:tickwheel --as $$system -k "$(PORTABLE_LESS)" $(PORTABLE) $(ARGS) || failed=1; \
	done; exit $$failed

targets: ## test: let the compiler check the native module for other systems (TARGETS=...)
	@scripts/check-targets $(if $(filter command line,$(origin TARGETS)),$(TARGETS))

check: lint types test ## first: everything that CI checks

format: $(VENV)/.dev ## first: write Python, Rust and JavaScript in their form
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	cargo fmt --all
	@$(MAKE) --no-print-directory $(VENV)/.biome || echo "make: no npm or no registry of its packages here, so JavaScript is left as it is" >&2
	@if [ -e $(VENV)/.biome ]; then $(VENV)/biome/node_modules/.bin/biome check --write; fi

lint: $(VENV)/.dev ## first: check form and style of Python, Rust and JavaScript, and the English
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python -P scripts/prose.py
	$(BIN)/python -P scripts/english.py
	cargo fmt --all --check
	PYO3_PYTHON=$(abspath $(BIN)/python) cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@$(MAKE) --no-print-directory $(VENV)/bin/actionlint || echo "make: no Go or no proxy of its modules here, so the workflows are not linted" >&2
	@$(MAKE) --no-print-directory $(VENV)/.biome || echo "make: no npm or no registry of its packages here, so JavaScript is not linted" >&2
	@if [ -e $(VENV)/.biome ]; then echo biome; $(VENV)/biome/node_modules/.bin/biome check; fi
	@if [ -x $(BIN)/actionlint ] && [ -d .github ]; then echo actionlint; $(BIN)/actionlint; fi

# From the proxy of Go's modules; PyPI's package of the name would fetch a binary from elsewhere.
$(VENV)/bin/actionlint: $(VENV)/.made
	@command -v go >/dev/null && GOBIN=$(abspath $(BIN)) go install $(ACTIONLINT)
	@touch $@

# It reads the schemas that kubernetes-validate has.
$(VENV)/bin/kubeconform: $(VENV)/.made
	@command -v go >/dev/null && GOBIN=$(abspath $(BIN)) go install $(KUBECONFORM)
	@touch $@

types: $(VENV)/.service $(VENV)/.dev $(VENV)/.bench $(VENV)/.wheel ## first: check the types, and the stubs against the built module
	$(BIN)/mypy
	$(BIN)/mypy --strict benchmarks
	$(BIN)/mypy --strict tests/types
	$(BIN)/pyright --pythonpath $(BIN)/python
	MYPYPATH=tests/prove $(BIN)/mypy --strict -p simulation
	$(BIN)/python -P -m mypy.stubtest tickwheel._core --mypy-config-file pyproject.toml

# Days of several nodes from seeds, kill -9, power cuts, zombies, clock steps, every store call failed, real cron lines.
prove: $(VENV)/.service $(VENV)/.dev $(VENV)/.wheel ## first: prove in short that the scheduler loses nothing (20 minutes; ARGS="--only Redis failover")
	$(BIN)/python tests/prove/prove.py --short $(ARGS)

prove-long: $(VENV)/.service $(VENV)/.dev $(VENV)/.wheel ## test: prove it at length (hours; ARGS="--seeds 2000")
	$(BIN)/python tests/prove/prove.py $(ARGS)

fuzz: $(VENV)/.service $(VENV)/.dev $(VENV)/.wheel ## test: ten million random operations against the model
	$(BIN)/python -P -m tickwheel.testing.fuzz $(ARGS)

# Under valgrind every access to freed memory is seen; PYTHONMALLOC=malloc lets it see single objects. Not for undefined
# values, which CPython's integers report by the dozen, nor for the tests that measure memory.
sanitize: $(VENV)/.service $(VENV)/.dev symbols ## test: run the tests of the native engine under valgrind
	PYTHONMALLOC=malloc valgrind --quiet --error-exitcode=9 --leak-check=no --undef-value-errors=no \
	    --suppressions=scripts/valgrind.supp $(BIN)/python -P -m pytest -p no:cacheprovider \
	    tests/core tests/timers/test_native_engine.py tests/aio tests/cache \
	    --ignore tests/core/test_endurance.py --ignore tests/aio/test_conformance.py $(ARGS)

# CPython's tests are where its interpreter ships them (Debian's does not), the libraries' in their sdists.
conformance: pythons ## test: run other people's tests on asyncio's loop and on ours; a table at the end (ARGS="--only tornado")
	@benches=; \
	for version in $(VERSIONS); do \
	    python=$$(scripts/find-python $$version) || continue; \
	    newest=.venv-$$version; benches="$$benches $$newest/bin/python"; \
	    PYTHON="$$python" $(MAKE) --no-print-directory VENV=$$newest $$newest/.conformance $$newest/.wheel; \
	done; \
	$(MAKE) --no-print-directory VENV=$$newest $$newest/.suites; \
	env -u PYTHONPATH $$newest/bin/python tests/conformance/run.py --sources $$newest/suites $$benches $(ARGS)

$(VENV)/.suites: $(VENV)/.conformance
	@rm -rf $(VENV)/suites && mkdir -p $(VENV)/suites
	@$(PIP) download --no-deps --no-binary :all: --dest $(VENV)/suites -c requirements/conformance.txt aiohttp anyio
	@for sdist in $(VENV)/suites/*.tar.gz; do tar -xf $$sdist -C $(VENV)/suites; done
	@touch $@

conformance-cache: $(VENV)/.dev $(VENV)/.wheel ## test: run cachetools' whole suite with our classes
	@rm -rf $(VENV)/cachetools && mkdir -p $(VENV)/cachetools
	@$(PIP) download --no-deps --no-binary :all: --dest $(VENV)/cachetools cachetools==8.0.0
	@tar -xf $(VENV)/cachetools/cachetools-8.0.0.tar.gz -C $(VENV)/cachetools
	$(BIN)/python -P scripts/cachetools-tests $(VENV)/cachetools/cachetools-8.0.0

# ---- measure ---------------------------------------------------------------------------------------------------------

bench-core: ## measure: measure the core alone, without Python
	cargo bench --quiet --locked --package tickwheel-core

bench-%: $(VENV)/.service $(VENV)/.bench $(VENV)/.wheel ## measure: measure: timers, aio, cache, durable, http, lab, observe, page or scale
	$(BIN)/python -m benchmarks $* --json bench-$*.json $(ARGS)

bench-page: $(VENV)/.dev

# The programs in Go, Rust, Java and JavaScript are built in target/peers; without its toolchain a peer is left out.
bench-peers: $(VENV)/.wheel ## measure: measure timers of Go, tokio, Netty, Kafka and Node beside ours, on one core (ARGS="--reps 5")
	$(BIN)/python -m benchmarks peers --json bench-peers.json $(ARGS)

# Ratios to the same Python's asyncio; the nanoseconds of two Pythons are comparable on a quiet machine only.
bench-pythons: pythons ## measure: measure timers on every supported Python and print one table (ARGS="--reps 3")
	@files=; for version in $(VERSIONS); do \
	    python=$$(scripts/find-python $$version 2>/dev/null) || { echo "make: no Python $$version here, so it is not measured"; continue; }; \
	    venv=.venv-$$version; files="$$files $$venv/bench-timers.json"; \
	    PYTHON="$$python" $(MAKE) --no-print-directory VENV=$$venv $$venv/.bench $$venv/.wheel; \
	    $$venv/bin/python -m benchmarks timers --work call_later+cancel --work reschedule --work set+fire --pending 100000 \
	        --subject tickwheel --subject asyncio --json $$venv/bench-timers.json $(ARGS); \
	done; "$$(scripts/find-python)" -m benchmarks.pythons $$files

# ---- work ------------------------------------------------------------------------------------------------------------

dev: ## first: set up .venv-dev with an editable install
	@$(MAKE) --no-print-directory VENV=.venv-dev .venv-dev/.build .venv-dev/.service .venv-dev/.dev .venv-dev/.bench
	VIRTUAL_ENV=$(abspath .venv-dev) .venv-dev/bin/maturin develop --release --locked --quiet

screens: $(VENV)/.service $(VENV)/.dev $(VENV)/.wheel ## write: take the screenshots of the page again (needs chromium, chromium-driver and PostgreSQL)
	TICKWHEEL_SCREENS=write $(BIN)/python -P -m pytest tests/service/page/test_screens.py -q $(ARGS)

docs: $(VENV)/.service $(VENV)/.docs $(VENV)/.wheel ## write: build the documentation site into build/site/VERSION, warnings as errors
	$(BIN)/python -P scripts/docs_site.py $(ARGS)

docs-serve: ## first: build the documentation site and serve it on the loopback (ARGS="--port 8001")
	@$(MAKE) --no-print-directory docs ARGS="--serve $(ARGS)"

reference: $(VENV)/.service $(VENV)/.wheel ## write: write the pages that are made from the code (names, HTTP API, metrics) into build/reference
	@mkdir -p build/reference
	@for page in reference api metrics; do $(BIN)/python -P scripts/$$page.py > build/reference/$$page.md; done; ls build/reference/*.md

lock: $(VENV)/.made ## release: pin the newest versions (requirements/*.txt)
	@$(PIP) install uv
	@cd requirements; rm -f *.txt; \
	compile="../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links"; \
	export UV_CUSTOM_COMPILE_COMMAND="make lock"; \
	$$compile build.in -o build.txt; \
	$$compile pythons.in -o pythons.txt; \
	$$compile wheels.in -o wheels.txt; \
	$$compile ../pyproject.toml --extra service -o service.txt; \
	$$compile dev.in -o dev.txt; \
	$$compile --generate-hashes ../pyproject.toml image.in --extra service --extra postgres-binary --extra redis --extra amqp \
	    --extra nats --extra kafka --extra client --extra otel -o image.txt; \
	$$compile bench.in -o bench.txt; \
	$$compile docs.in -o docs.txt; \
	$$compile conformance.in -o conformance.txt

clean: ## release: remove what make has built and installed
	rm -rf .venv .venv-3.* .venv-part-* .venv*-portable .pythons .rust target build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
