# make serve   install into .venv and serve on http://127.0.0.1:8081
# make test    install into .venv and run every check and test
# make cluster run a broker, three nodes and a load balancer on this machine
# make help    list the other targets

# The virtual environment is made with the first of these that is Python 3.11 or newer.
PYTHONS = python3.11 python3.12 python3.13 python3.14 python3
VENV    = .venv
BIN     = $(VENV)/bin
JS      = tests/clients/js
UI      = registry/ui
LINT    = tests/console/lint

# Settings of the server; its defaults apply where they are empty. ARGS takes any further flags.
LISTEN  ?=
DATA    ?=
ARGS    ?=
# "make lock" upgrades all versions; UPGRADE= keeps those that still fit.
UPGRADE ?= --upgrade
# For "make cluster": number of nodes, kind of election, port of the load balancer (a free one if empty).
NODES    ?= 3
ELECTION ?= kafka
PORT     ?=
# For "make soak": rounds of faults, minutes of load without faults, simulated histories.
ROUNDS  ?= 20
MINUTES ?= 60
HISTORIES ?= 5000
# For "make simulate": K/N if N machines share the histories of a commit; all of them if empty.
PART    ?=
# For "make bench-ab": the revision that this tree is compared with.
REV     ?=
# Arguments for pytest, such as TESTS="tests/unit -x".
TESTS   ?=
# For "make test" and "make coverage": groups of tests/__main__.py; all of them if empty.
GROUP   ?=
# The tests of "make coverage", if neither GROUP nor TESTS is given.
COVERED  = tests/unit tests/contract tests/api
COVERING = pytest -q --hypothesis-profile few
# For "make release": publish nothing; the prefix of images and chart (ghcr.io/owner); the repository's address.
DRY_RUN     ?=
IMAGES      ?=
PROJECT_URL ?=
# Older Kafka releases, and the tests that "make test-ages" runs on each.
AGES    ?= 2.8.2 3.3.2 3.9.1
AGED    = tests/contract/log/test_log.py $(wildcard tests/contract/log/test_kafka_*.py) tests/contract/election \
          $(addprefix tests/faults/test_faults.py::test_,$(AGED_FAULTS))
AGED_FAULTS = a_killed_primary_is_replaced_and_fails_no_write_of_the_others \
          a_primary_frozen_longer_than_its_session_writes_nothing_when_it_is_thawed \
          a_broker_that_is_stopped_and_started_again_loses_nothing rounds_of_chance

PIP     = $(BIN)/python -m pip --quiet --disable-pip-version-check
FLAGS   = $(if $(LISTEN),--listen "$(LISTEN)") $(if $(DATA),--data "$(DATA)") $(ARGS)
UV      = $(BIN)/uv
# All who use uv use the same one.
INSTALL_UV = $(PIP) install --no-compile --require-hashes --no-deps -r requirements-uv.txt
LOCK    = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --no-header --no-emit-index-url --no-emit-find-links

.DELETE_ON_ERROR:
.PHONY: help serve console console-if-possible screenshots cluster test test-long test-ages lint ruff prepared unit
.PHONY: docs site
.PHONY: bench bench-ab bench-report bench-start bench-lists bench-growth bench-hostile soak lock clean tools java
.PHONY: bench-contract bench-census bench-pyspark pyspark-archive
.PHONY: kerberos kerberos-client node-and-npm
.PHONY: coverage sabotage simulate scripts workflows release release-login system-packages

help:
	@echo 'make serve [LISTEN=HOST:PORT] [DATA=DIR] [ARGS="--readers 4"]  set up and serve'
	@echo 'make console                                             bundle the libraries of the console'
	@echo 'make cluster [NODES=3] [ELECTION=kafka] [PORT=8081] [ARGS="--log-format json"]  run a cluster on this machine'
	@echo 'make test [TESTS="tests/unit -x"] [AGAIN=3]              set up, check and test; AGAIN: second tries'
	@echo 'make test-long                                           run the long tests'
	@echo 'make test-ages [AGES="2.8.2 3.9.1"]                      run tests of the log and of faults on older brokers'
	@echo 'make lint                                                run ruff and mypy, and for the console eslint and tsc'
	@echo 'make coverage [TESTS="tests/unit" | GROUP="computing clusters"]  show which branches the tests take'
	@echo 'make sabotage [ARGS=--outdated]                          break guarantees one by one, show which tests notice'
	@echo 'make simulate [MINUTES=60 PART=1/20]                     inject random faults into a simulated cluster'
	@echo 'make workflows                                           check .github/workflows'
	@echo 'make pyspark-archive                                     pack registrar.spark into one file, in dist/'
	@echo 'make release DRY_RUN=1                                   build all files of a release into dist/'
	@echo 'make bench                                               measure (needs wrk and nginx)'
	@echo 'make bench-ab [REV=v1.0] [ARGS="--rounds 7"]             compare what requests cost with another revision'
	@echo 'make bench-contract [ARGS="--runs 5"]                    measure what others measure, and a herd of clients'
	@echo 'make bench-report [ARGS="--only load,cluster"]           measure, and write the figures into bench/*.md'
	@echo 'make bench-pyspark [ARGS="--memory"]                     measure how fast PySpark reads messages'
	@echo 'make bench-start [ARGS="--spark"]                        measure start times, with and without snapshots'
	@echo 'make bench-census [ARGS="--messages 10000000 --workers 2"]  measure how fast a census counts'
	@echo 'make bench-growth [ARGS="--schemas 100000,1000000"]      measure how cost grows with the number of schemas'
	@echo 'make bench-hostile [ARGS="--seconds 5"]                  measure memory and latency under hostile clients'
	@echo 'make soak [ROUNDS=20 MINUTES=60]                         inject random faults, then run load without faults'
	@echo 'make docs                                                rewrite the generated parts of the docs'
	@echo 'make screenshots                                         take the pictures of the console in the docs again'
	@echo 'make site                                                build the docs as a website, in site/'
	@echo 'make lock                                                upgrade the pinned requirements'
	@echo 'make clean                                               remove everything installed and built'

serve: $(VENV)/run.stamp console-if-possible
	@exec $(BIN)/registrar serve $(FLAGS)

# The console's libraries, in one file that browsers load. Without npm the registry serves everything but the console.
console: $(UI)/static/vendor.js

console-if-possible:
	@$(MAKE) --silent node-and-npm 2>/dev/null && $(MAKE) --silent console || \
	  echo 'The console at /ui is not built: that needs Node 18 or newer with npm, then "make console"'

# What brings the broker is installed only if the broker is not in the cache.
cluster: java $(VENV)/run.stamp console-if-possible
	@$(BIN)/python -m deploy.local.jars --cached "$(ELECTION)" || \
	  { echo 'Installing what brings the broker (PySpark, 430 MB, once)'; \
	  $(PIP) install --require-hashes --no-deps -r requirements-spark.txt; }
	@exec $(BIN)/python -m deploy.local.cluster --nodes "$(NODES)" --election "$(ELECTION)" \
	  $(if $(PORT),--port "$(PORT)") $(if $(DATA),--data "$(DATA)") -- $(ARGS)

# mypy is one of the tests (tests/test_types.py), so that it runs while others wait.
test: tools ruff scripts $(if $(strip $(TESTS)),lint) unit

lint: ruff scripts
	$(BIN)/mypy

# The console's scripts: a linter, and their types as JSDoc says them.
scripts: console $(LINT)/node_modules/.stamp
	@$(LINT)/node_modules/.bin/eslint --config $(LINT)/eslint.config.mjs $(UI)/static $(UI)/bundle tests/console
	@$(LINT)/node_modules/.bin/tsc --project $(LINT)

ruff: $(VENV)/dev.stamp
	$(BIN)/ruff check

# What pip and npm install, and the console made of it. "make --jobs 3 prepared" does it at the same time.
prepared: console $(VENV)/dev.stamp $(JS)/node_modules/.stamp

unit: tools prepared
	@$(BIN)/python -m deploy.local.jars
	@$(BIN)/python -m tests.clients.java_client
	$(BIN)/python -m tests $(if $(GROUP),--group $(GROUP)) $(TESTS)

# Long tests: whole Spark clusters, longer versions of the faults in "make test", and the console over a cluster.
test-long: tools kerberos console $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m long $(TESTS)
ifeq ($(strip $(TESTS)),)
	$(BIN)/python -m pytest tests/console --console-nodes 3
	$(BIN)/python -m pytest tests/faults/test_faults.py -k chance --fault-rounds 5
	$(MAKE) test-ages
endif

# The log's contract, its fencing, the elections and faults under load, on older brokers.
test-ages: tools $(VENV)/dev.stamp
	@for version in $(AGES); do echo "Kafka $$version"; \
	  KAFKA_VERSION=$$version $(BIN)/python -m pytest $(AGED) --fault-rounds 1 || exit 1; done

# Which lines and branches the tests take, in all processes that they start: printed, and in .cache/coverage/html. The
# floor, fail_under in pyproject.toml, counts for the tests of COVERED, and so for all.
coverage: tools prepared
	@$(BIN)/python -m deploy.local.jars
	@rm -rf .cache/coverage
	$(BIN)/python -m coverage run -m $(if $(GROUP),tests --group $(GROUP),$(COVERING) $(or $(TESTS),$(COVERED)))
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage html --quiet --fail-under=0
	$(BIN)/python -m coverage report $(if $(GROUP)$(TESTS),--fail-under=0)

# Break one guarantee after another (tests/sabotage), and see which test notices.
sabotage: $(VENV)/dev.stamp
	$(BIN)/python -m tests.sabotage $(ARGS)

# Simulated histories, the same ones on every machine that has this commit.
simulate: $(VENV)/dev.stamp
	$(BIN)/python -m tests.simulation --minutes $(MINUTES) --seed-of HEAD $(if $(PART),--part $(PART))

# Random faults on a real cluster, simulated histories, and load without faults: nothing lost, no false alarm.
soak: tools $(VENV)/dev.stamp
	$(BIN)/python -m tests.simulation --rounds $(HISTORIES)
	$(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/faults -m "" \
	  --fault-rounds $(ROUNDS) --fault-minutes $(MINUTES) $(TESTS)

bench: $(VENV)/dev.stamp java
	@for tool in wrk nginx; do command -v $$tool >/dev/null || \
	  { echo "make bench needs $$tool: install the package $$tool (apt-get install $$tool)"; exit 1; }; done
	$(BIN)/python bench/load.py $(ARGS)
	@echo; echo 'Schemas of each type, and other requests during endless comparisons'
	$(BIN)/python bench/formats.py --cluster
	@echo; echo 'Folding a log into an empty store: one process, two, and from Kafka'
	$(BIN)/python bench/fold.py --records 300000 --cores 1
	$(BIN)/python bench/fold.py --records 1000000
	$(BIN)/python bench/fold.py --records 1300000 --kafka
	@echo; echo 'A cluster of three nodes on one broker'
	$(BIN)/python bench/cluster.py

# What the field measures of registries, and a herd of clients: writes bench/CONTRACT.md and its histograms.
bench-contract: $(VENV)/dev.stamp java
	$(BIN)/python bench/contract.py $(ARGS)

# This tree and another revision in turns: CPU, system calls, page writes, calls of a request. Fails if a count has
# risen; ARGS="--fail-above 10" also if CPU has, by more than 10 per cent.
bench-ab: $(VENV)/dev.stamp
	@command -v wrk >/dev/null || \
	  { echo 'make bench-ab needs wrk: install the package wrk (apt-get install wrk)'; exit 1; }
	@$(BIN)/python bench/ab.py $(if $(REV),--revision "$(REV)") $(ARGS)

# All benchmarks, in a calm hour: some 25 minutes. Writes their output with machine, date and commit into
# bench/RESULTS.md and bench/GROWTH.md.
bench-report: $(VENV)/dev.stamp java
	$(BIN)/python bench/report.py $(ARGS)

# Start times by number of schemas, printed as a table and drawn as bench/start.svg.
bench-start: $(VENV)/dev.stamp java
	$(BIN)/python bench/start.py $(ARGS)

# Requests, starts, memory and builds by number of schemas, versions of a subject and subjects of an id, drawn as
# bench/growth-….svg. Fails if something grows faster than the work it does.
bench-growth: $(VENV)/dev.stamp java
	$(BIN)/python bench/growth.py --spark $(ARGS)

# Messages that a census counts in a second, by Spark on this machine.
bench-census: $(VENV)/dev.stamp java
	$(BIN)/python -m bench.census $(ARGS)

# Long lists, and what they cost other clients.
bench-lists: $(VENV)/dev.stamp
	$(BIN)/python bench/lists.py $(ARGS)

# Hostile clients, one kind at a time: memory before, at its peak and after, and how long other clients wait.
bench-hostile: $(VENV)/dev.stamp
	$(BIN)/python bench/hostile.py $(ARGS)

# The system packages that the tests need, on Debian and Ubuntu; with LONG=1, those of the long tests too.
system-packages:
	@LONG=$(LONG) bash .ci/packages

# The programs that the tests need besides Python. The message for a missing one names the package.
tools: java node-and-npm
	@command -v curl >/dev/null || \
	  { echo 'make test needs curl: install the package curl (apt-get install curl)'; exit 1; }
	@for browser in chromium-headless-shell chromium chromium-browser google-chrome; do \
	  command -v $$browser >/dev/null && exit; done; \
	  echo 'make test needs Chromium: install the package chromium (apt-get install chromium)'; exit 1
	@command -v promtool >/dev/null || \
	  { echo 'make test needs promtool: it is in the package prometheus, whose server need not run' \
	  '(apt-get install prometheus)'; exit 1; }
	@for tool in git openssl nginx haproxy; do PATH="$$PATH:/usr/sbin" command -v $$tool >/dev/null || \
	  { echo "make test needs $$tool: install the package $$tool (apt-get install $$tool)"; exit 1; }; done

node-and-npm:
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null || \
	  { echo 'make test needs Node 18 or newer: install the package nodejs (apt-get install nodejs npm)'; exit 1; }
	@command -v npm >/dev/null || \
	  { echo 'make test needs npm: install the package npm (apt-get install npm)'; exit 1; }

# The test of logins with Kerberos. Its Python package is compiled, so it is not among the pinned requirements.
kerberos: $(VENV)/dev.stamp
	@PATH="$$PATH:/usr/sbin"; command -v krb5kdc >/dev/null && command -v kadmin.local >/dev/null || \
	  { echo 'make test-long needs a Kerberos KDC: install the packages krb5-kdc and krb5-admin-server' \
	  '(apt-get install krb5-kdc krb5-admin-server)'; exit 1; }
	@$(BIN)/python -c 'import gssapi' 2>/dev/null || \
	  { echo 'make test-long needs the Python package gssapi: apt-get install gcc libkrb5-dev,' \
	  'then $(PIP) install "gssapi>=1.9"'; exit 1; }

kerberos-client: $(VENV)/dev.stamp
	@$(PIP) install "gssapi>=1.9"

java:
	@java --version 2>/dev/null | { read -r _ version _; test "$${version%%.*}" -ge 17 2>/dev/null; } || \
	  { echo 'make test and make cluster need Java 17 or newer:' \
	  'install the package default-jre-headless (apt-get install default-jre-headless)'; exit 1; }

# registrar.spark in one file for spark-submit --py-files, with all of the project that it imports.
pyspark-archive: $(VENV)/run.stamp
	@mkdir -p dist
	$(BIN)/python -m snapshots.spark.shipping --library dist/registrar-spark.zip

# Messages a second that PySpark reads from Kafka, with Spark's bare from_avro and with from_registry.
bench-pyspark: $(VENV)/dev.stamp java
	$(BIN)/python bench/messages.py $(ARGS)

# A stamp is older than its lock file if the lock has changed since it was installed.
$(VENV)/bin/python:
	@for python in $(PYTHONS); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  $$python -c 'import venv, ensurepip' 2>/dev/null || { bare=$$python; continue; }; \
	  echo "Making $(VENV) with $$($$python --version)"; \
	  exec $$python -m venv $(VENV); \
	done; \
	if [ -n "$$bare" ]; then \
	  echo "$$bare makes no virtual environments: install the package python3-venv (apt-get install python3-venv)"; \
	else \
	  echo 'Python 3.11 or newer is needed, and none of these is it: $(PYTHONS)'; \
	fi; exit 1

$(VENV)/run.stamp: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo 'Installing the requirements of the server'
	@$(PIP) install --require-hashes --only-binary :all: --no-deps -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# Most modules of these 9,000 are never imported, so that compiling all of them ahead only takes time. uv takes a third
# of pip's time, but does not read pip's settings, such as those of a mirror; if it fails, pip installs them.
$(VENV)/dev.stamp: requirements-dev.txt requirements-uv.txt $(VENV)/run.stamp
	@echo 'Installing the requirements of the tests'
	@$(INSTALL_UV)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements-dev.txt || \
	  $(PIP) install --no-compile --require-hashes --no-deps -r requirements-dev.txt
	@touch $@

$(JS)/node_modules/.stamp: $(JS)/package.json $(JS)/package-lock.json | tools
	@echo 'Installing the JavaScript clients'
	@npm ci --prefix $(JS) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(LINT)/node_modules/.stamp: $(LINT)/package.json $(LINT)/package-lock.json | node-and-npm
	@echo 'Installing what checks the scripts of the console'
	@npm ci --prefix $(LINT) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(UI)/node_modules/.stamp: $(UI)/package.json $(UI)/package-lock.json | node-and-npm
	@echo 'Installing the libraries of the console'
	@npm ci --prefix $(UI) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(UI)/static/vendor.js: $(UI)/node_modules/.stamp $(wildcard $(UI)/bundle/*)
	@node $(UI)/bundle/build.mjs

# The docs as a website, in site/. MkDocs would warn of its next major version, which pyproject.toml excludes.
site: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

# The files of .github against their schemas and the rules of this project; and with actionlint, where Go can build it.
workflows: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q tests/process/deploy/test_workflows.py
	@if command -v go >/dev/null; then \
	  GOBIN="$(CURDIR)/.cache/bin" go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 && \
	  .cache/bin/actionlint; else echo 'Not checked with actionlint: that needs Go'; fi

# A release: every file into dist/, the same bytes from the same commit, then published unless DRY_RUN is set. A dry run
# says what is left out, and what this machine lacks for it (docs/releases.md).
release: console $(VENV)/dev.stamp
	@IMAGES="$(IMAGES)" PROJECT_URL="$(PROJECT_URL)" PATH="$$PATH:$(CURDIR)/$(BIN)" \
	  $(BIN)/python -m deploy.release $(if $(DRY_RUN),--dry-run)

# Before "make release" publishes: the programs log in at the registry. uv is installed with what the tests need.
release-login: $(VENV)/dev.stamp
	@printf %s "$$REGISTRY_PASSWORD" | docker login "$(REGISTRY)" --username "$$REGISTRY_USER" --password-stdin
	@printf %s "$$REGISTRY_PASSWORD" | helm registry login "$(REGISTRY)" --username "$$REGISTRY_USER" --password-stdin

docs: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q tests/test_docs.py --rewrite -k 'setting or picture or error_codes or metrics'

# The pictures of the console in the docs. Fonts differ between machines, so they are only taken on demand.
screenshots: console $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -m long tests/console/test_pictures.py --rewrite

lock: $(VENV)/dev.stamp
	$(LOCK) $(UPGRADE) --group build -o requirements.txt pyproject.toml
	$(LOCK) $(UPGRADE) --group dev --constraint requirements.txt -o requirements-dev.txt pyproject.toml
	$(LOCK) $(UPGRADE) --group install -o requirements-uv.txt
	$(LOCK) $(UPGRADE) --extra spark --constraint requirements-dev.txt -o requirements-spark.txt pyproject.toml
	$(LOCK) $(UPGRADE) --extra otel --constraint requirements-dev.txt -o requirements-otel.txt pyproject.toml

clean:
	rm -rf $(VENV) $(JS)/node_modules $(UI)/node_modules $(UI)/static/vendor* .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis *.egg-info build dist
