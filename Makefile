# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv/bin/python
COMPILE = .venv/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate $(UPGRADE)
# Minor versions of Airflow that the wheel installs on, and its extras; the extras of this checkout.
MINORS := 3.1 3.2 3.3
EXTRAS := s3 gcs azure postgres slack msk celery
CHECKOUT := s3 postgres slack celery msk lab dev

.DEFAULT_GOAL := help
.PHONY: help setup lock check lab lab-down demo demo-unplanned demo-failback compose-demo test faults bench

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

setup: ## install Java, Python packages and jars, whatever of them is missing
	@$(PYTHON) -m lab.install.setup

lock: ## renew the requirements files from pyproject.toml; versions stay (UPGRADE=--upgrade: the newest)
	@$(VENV) -m pip install --quiet --require-hashes -r requirements-build.txt
	@$(COMPILE) --group build -o requirements-build.txt
	@$(COMPILE) pyproject.toml $(CHECKOUT:%=--extra %) -o requirements.lock
	@$(COMPILE) pyproject.toml --extra s3 --extra postgres --extra slack --extra celery -c requirements.lock -o requirements.txt
	@for minor in $(MINORS); do echo "apache-airflow==$$minor.*" | $(COMPILE) pyproject.toml - $(EXTRAS:%=--extra %) \
		-o requirements-airflow-$$minor.txt || exit 1; done

check: setup ## format, lint, types, layers, requirements, house rules
	@$(VENV) -m tests.check

lab: setup ## start two clusters, MirrorMaker 2 and Airflow on this machine
	@$(VENV) -m lab up

lab-down: ## stop that lab; evidence stays
	@$(VENV) -m lab down

demo: setup ## a planned failover from beginning to end (TAMPER=position|record, APPROVE=ask)
	@$(VENV) -m lab.demo

demo-unplanned: setup ## the source is killed with -9 under load, clients go on without it (TAMPER=position|record, APPROVE=ask)
	@$(VENV) -m lab.demo unplanned

demo-failback: setup ## the source is killed with -9, clients go on without it, it comes back, and they return (TAMPER=position|record, APPROVE=ask)
	@$(VENV) -m lab.demo failback

compose-demo: setup ## the stack in containers: a planned failover, a killed site, and the failback, checked (PROFILE=production: the whole; TAMPER, APPROVE as above)
	@$(VENV) -m lab.demo containers

test: check ## the checks, then every test but the faults
	@$(PYTHON) -m lab.install.setup postgresql jdk
	@$(VENV) -m pytest tests --ignore=tests/faults -n 2

faults: setup ## every fault that the product must survive, and all examples of property tests (SHARD=2/3: the second third)
	@$(PYTHON) -m lab.install.setup postgresql jdk faketime dns
	@$(VENV) -m pytest tests -p tests.support.fault_results --hypothesis-profile=full $(if $(SHARD),--shard=$(SHARD))

bench: setup ## speed beside the peers, and what the recorder takes; every figure beside its bound (ONLY=a,b; SWITCHBACK_BENCH_SCALE=0.1 for a quick look)
	@$(PYTHON) -m lab.install.setup jdk
	@$(VENV) -m tests.benchmarks $(if $(ONLY),--only $(ONLY))
