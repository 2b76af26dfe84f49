# What a newcomer needs: `make run`. It makes .venv with the run-time dependencies alone and serves 127.0.0.1:9092
# on the data in ./data; neither Java nor the test dependencies are needed. A second call starts at once.

VENV       ?= .venv
DATA       ?= data
LISTEN     ?= 127.0.0.1:9092
RUN_ARGS   ?=
# Three workers on two cores, as a third of the time goes into waiting for disks, timers and peers; `loadfile` keeps
# the peers that a file starts in one worker (order: tests/schedule.py).
TEST_ARGS  ?= -n 3 --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=
# What the working tree is measured beside.
COMMIT     ?= HEAD
SECONDS    ?= 60
SEED       ?= 0
SIM_ARGS   ?=
# Pipelines: QUICK=1 runs what make test leaves out and takes twelve minutes; without it everything of them runs.
# Faults: QUICK=1 leaves out one process alone, and what takes its time; `make test` has the rest as well, unless
# FAULTS=no says that they are run by themselves.
# Kills: N of them in all.
QUICK      ?=
FAULTS     ?=
N          ?= 1000
FAULT_ARGS ?= -n 2
COMPAT_ARGS ?=
# What QUICK=1 runs over several gateways, too.
QUICK_CLUSTER = --gateways 3 $(addprefix --client ,kcat python_confluent franz_go sarama franz_go_tests)
GROUPS_ARGS ?=
FUZZ_ARGS  ?=
# Mutations: every n-th one, and those of these names.
PART       ?= 1/1
ONLY       ?=
PIPELINE_ARGS ?=
FAULT_TESTS = $(if $(QUICK),-m 'not long' tests/faults/test_mesh_*.py,tests/faults)

# The first of these that is Python 3.11 or newer. (`python3.12` may be a shim without a Python behind it.)
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null)
BIN := $(VENV)/bin

ifdef UV
CREATE  = $(UV) venv --quiet --seed --python $(or $(PYTHON),3.11) $(VENV)
INSTALL = $(UV) pip install --quiet --python $(BIN)/python
else
CREATE  = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

# ::1 as well, where the machine has it and the address was not chosen by hand.
HAS_IPV6 = $(shell $(BIN)/python -c 'import socket; s = socket.socket(socket.AF_INET6); s.bind(("::1", 0)); print(1)' 2>/dev/null)
LISTEN_ARGS = --listen $(LISTEN) $(if $(and $(filter 127.0.0.1:9092,$(LISTEN)),$(HAS_IPV6)),--listen "[::1]:9092")

# Some machines set it; then each process compiles all modules anew, which is a third of a start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench bench-growth bench-check bench-gateways bench-pipelines sim faults alerts kills kills-gateways kills-transactions kills-streams kills-cluster kills-spark kills-natives abuse fuzz mutants groups compat pipelines deploy sbom audit-dependencies site clean

help:
	@echo 'make run     serve Kafka on $(LISTEN), data in ./$(DATA)   (LISTEN=, DATA=, RUN_ARGS=)'
	@echo 'make test    set everything up and run all tests                 (TEST_ARGS=)'
	@echo 'make lint    ruff, types, import layers'
	@echo 'make bench   Apache Kafka and this, side by side                 (BENCH_ARGS="produce-100 latency")'
	@echo 'make bench-growth  ... as partitions, connections, the log and its segments grow, as plots (BENCH_ARGS="--scale 0.1")'
	@echo 'make bench-check  this tree beside a COMMIT, briefly, processor time first   (COMMIT=HEAD, BENCH_ARGS=)'
	@echo 'make bench-gateways  how long partitions are away when one of three gateways is killed (BENCH_ARGS="--rounds 6")'
	@echo 'make sim     simulated clusters under faults, SECONDS long, from SEED on  (SIM_ARGS=)'
	@echo 'make faults  a mesh of processes while links, disks and processes fail    (QUICK=1, FAULT_ARGS=)'
	@echo 'make alerts  a real Prometheus on a mesh while stores, disks and consumers fail'
	@echo 'make kills   N random SIGKILLs of a mesh under load, from SEED on'
	@echo 'make kills-gateways  the same of several gateways that one process keeps running'
	@echo 'make kills-transactions  N random faults of gateways, stores and transactional clients, from SEED on'
	@echo 'make kills-streams  Kafka Streams of exactly_once_v2 through N SIGKILLs (100) of it, gateways and stores, from SEED on'
	@echo 'make kills-cluster  N random faults of three gateways over three members of etcd, on hosts of their own  (as root)'
	@echo 'make kills-spark  Spark reads, writes and streams while gateways are killed, SECONDS (120) long; so, with its driver, in transactions'
	@echo 'make kills-natives  native and Kafka producers write one topic while everything is killed, SECONDS (120) long   (SEED=, NATIVES_ARGS="--spark --drop --c-programs DIR")'
	@echo 'make abuse   all attacks at random beside a good client, SECONDS (3600) long   (SEED=, ABUSE_ARGS="--only poison")'
	@echo 'make fuzz    COUNT (100000) malformed handshakes, SASL messages, tokens, ACL filters, by SEED       (FUZZ_ARGS="--only jwt")'
	@echo 'make mutants  mutations of the source, and the test that notices each  (PART=2/4, ONLY=name)'
	@echo 'make groups  members of four clients in one group under faults, SECONDS (300) long  (SEED=, GROUPS_ARGS=)'
	@echo 'make compat  real clients, scenario by scenario, as a table       (QUICK=1, COMPAT_ARGS="--client kcat")'
	@echo 'make pipelines  the Spark jobs, killed at every step           (QUICK=1, PIPELINE_ARGS=)'
	@echo 'make deploy  build the container image and start it; start what the files in deploy/ describe   (as root)'
	@echo 'make sbom    the wheel and, beside it, its SBOM (CycloneDX), in ./dist'
	@echo 'make audit-dependencies  look the pinned versions up in a list of known vulnerabilities    (AUDIT_ARGS="-s osv")'
	@echo 'make bench-pipelines  the Spark jobs beside plain Spark          (BENCH_ARGS=)'
	@echo 'make site    the documentation as web pages in build/site/html, links checked'
	@echo 'make clean   remove the environment and caches; never ./$(DATA)'

run: $(VENV)/.run-stamp
	@exec $(BIN)/dafka standalone $(LISTEN_ARGS) --data $(DATA) $(RUN_ARGS)

test: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -m 'not long and not matrix and not deploy and not alerts' $(TEST_ARGS) $(if $(filter no,$(FAULTS)),--ignore-glob='tests/faults/test_mesh_*.py')

lint: $(VENV)/.test-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test-stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test-stamp
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-growth: $(VENV)/.test-stamp
	$(BIN)/python -m tests.bench growth --rounds 1 --plots docs/pictures $(BENCH_ARGS)

bench-check: $(VENV)/.test-stamp
	$(BIN)/python -m tests.bench.check $(COMMIT) $(BENCH_ARGS)

bench-gateways: $(VENV)/.test-stamp
	$(BIN)/python -m tests.bench.takeovers $(BENCH_ARGS)

sim: $(VENV)/.test-stamp
	$(BIN)/python -m tests.sim --seconds $(SECONDS) --seed $(SEED) $(SIM_ARGS)

faults: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -o faulthandler_timeout=900 -o timeout=1800 $(FAULT_ARGS) $(FAULT_TESTS)

alerts: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -m alerts $(ALERT_ARGS) tests/monitoring

kills: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.kills --count $(N) --seed $(SEED)

kills-gateways: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.kill_gateways --count $(N) --seed $(SEED)

kills-transactions: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.kill_transactions --count $(N) --seed $(SEED)

kills-streams: N = 100
kills-streams: $(VENV)/.test-stamp
	$(BIN)/python compat-tests/kill_streams.py --count $(N) --seed $(SEED)

kills-cluster: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.kill_cluster --count $(N) --seed $(SEED)

kills-spark: SECONDS = 120
kills-spark: $(VENV)/.test-stamp
	$(BIN)/python -m tests.spark.kills --seconds $(SECONDS)
	$(BIN)/python -m tests.spark.kills_exactly_once --seconds $(SECONDS) --seed $(SEED)

kills-natives: SECONDS = 120
kills-natives: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.kill_natives --seconds $(SECONDS) --seed $(SEED) $(NATIVES_ARGS)

abuse: SECONDS = 3600
abuse: $(VENV)/.test-stamp
	$(BIN)/python -m tests.faults.abuse --seconds $(SECONDS) --seed $(SEED) $(ABUSE_ARGS)

fuzz: COUNT = 100000
fuzz: $(VENV)/.test-stamp
	$(BIN)/python -m tests.fuzz --count $(COUNT) --seed $(SEED) $(FUZZ_ARGS)

mutants: $(VENV)/.test-stamp
	$(BIN)/python -m tests.mutants --part $(PART) $(addprefix --only ,$(ONLY))

groups: SECONDS = 300
groups: $(VENV)/.test-stamp
	$(BIN)/python compat-tests/groups.py --seconds $(SECONDS) --seed $(SEED) $(GROUPS_ARGS)

compat: $(VENV)/.test-stamp
	$(BIN)/python compat-tests/run.py $(if $(QUICK),--quick) $(COMPAT_ARGS)
	$(if $(QUICK),$(if $(COMPAT_ARGS),,$(BIN)/python compat-tests/run.py --quick $(QUICK_CLUSTER)))

pipelines: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -o faulthandler_timeout=900 -o timeout=1800 $(if $(QUICK),-m 'matrix and not long') $(PIPELINE_ARGS) tests/pipelines

deploy: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -o faulthandler_timeout=900 -o timeout=1800 -n 2 --dist loadfile -m deploy tests/deploy

sbom: $(VENV)/.test-stamp
	.ci/sbom dist build/shipped $(BIN)/python

audit-dependencies: $(VENV)/.test-stamp
	$(BIN)/python .ci/audit_dependencies.py constraints.txt $(AUDIT_ARGS)

bench-pipelines: $(VENV)/.test-stamp
	$(BIN)/python -m tests.bench_pipelines $(BENCH_ARGS)

site: $(VENV)/.test-stamp
	$(BIN)/python -m tests.docs.site

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n '$(or $(PYTHON),$(UV))' || { echo 'Python 3.11 or newer is needed: apt-get install python3 python3-venv'; exit 2; }
	@$(CREATE) || { rm -rf $(VENV); echo 'No environment could be made. On Debian and Ubuntu: apt-get install python3-venv'; exit 2; }

$(VENV)/.run-stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Setting up $(VENV) (once) ...'
	@$(INSTALL) -c constraints.txt -e .
	@touch $@

# The test environment is the run-time one and more, so it satisfies `make run` too.
$(VENV)/.test-stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Setting up $(VENV) with the test dependencies (once) ...'
	@$(INSTALL) -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.run-stamp
