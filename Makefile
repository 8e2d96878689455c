# The commands of this project; CI runs the same ones (.ci/run).
# Needs python3 and make. Everything else goes into .venv, from the lock files in requirements/.

PYTHON ?= python3
UV ?= uv
ARGS ?=
python = .venv/bin/python

.PHONY: up setup setup-dev test lint format real containers containers-smoke web web-build browser soak bench dist image deb lock clean

up: setup  ## sets up, then starts Shoal; more flags: make up ARGS="--listen 127.0.0.1:0"
	@exec .venv/bin/shoal up $(ARGS)

setup:
	@$(PYTHON) scripts/bootstrap.py runtime

setup-dev:
	@$(PYTHON) scripts/bootstrap.py dev

# The order of the files is that of tests/conftest.py. Every process imports all tests: bytecode is kept for the next.
test: export PYTHONDONTWRITEBYTECODE =
test: setup-dev
	$(python) -m pytest -q -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: setup-dev
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

format: setup-dev
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

# Exit code 5 of pytest: nothing has this mark.
real: setup-dev  ## with programs of the outside world, as far as this machine has them
	@$(python) -m tests.real.building capi cel clientgo clusterctl controllerruntime-builder.test controllerruntime-client.test controllerruntime-controller.test controllerruntime-webhook.test e2e.test etcd flux helm3 helm4 karpenter kind kube-apiserver kube-controller-manager kube-scheduler kubectl nats-server
	@$(python) -m pytest -q -m real -n 3 --dist loadfile $(ARGS) || { code=$$?; test $$code = 5 && echo "NOT RUN: real tests (none yet)"; }

containers: setup-dev  ## with an engine, kind and images that are made here; the first time builds for half an hour or more
	@$(python) -m tests.real.containers $(python) -m pytest -q -m containers $(ARGS)

containers-smoke: setup-dev  ## the part of it that CI runs, when everything is built
	@$(python) -m tests.real.containers --built $(python) -m pytest -q -m "containers and smoke" $(ARGS)

web: setup-dev  ## the dashboard's tests, and whether the committed bundle is what web/ makes
	@$(python) scripts/web.py check

web-build: setup-dev  ## writes src/shoal/dashboard/static anew; needs node
	@$(python) scripts/web.py build

browser: setup-dev  ## the dashboard in Chromium, where there is one; SHOAL_SCREENSHOTS=docs/images keeps its pictures
	@$(python) -m pytest -q -s -m browser tests/browser $(ARGS)

soak: setup-dev
	@$(python) -m pytest -q -m soak $(ARGS) || { code=$$?; test $$code = 5 && echo "NOT RUN: soak tests (none yet)"; }

bench: setup-dev
	$(python) -m bench $(ARGS)

dist: setup-dev  ## source archive, wheel and their sums in dist/; needs no compiler and no node
	@$(python) scripts/dist.py

image: setup-dev  ## by docker, podman or buildah; ENGINE, BASE, TAG and PLATFORM choose
	@$(python) -m scripts.image $(foreach name,ENGINE BASE TAG PLATFORM,$(flag))

deb: setup-dev  ## a Debian package in dist/; DEBIAN=13 and ARCHITECTURE=arm64 choose the release and the machine
	@$(python) -m scripts.deb $(foreach name,DEBIAN ARCHITECTURE,$(flag))

flag = $(if $($(name)),--$(shell echo $(name) | tr A-Z a-z)=$($(name)))

lock:  ## writes requirements/*.txt anew from pyproject.toml; needs uv
	$(UV) pip compile pyproject.toml $(lock_flags) -o requirements/runtime.txt
	$(UV) pip compile pyproject.toml $(lock_flags) -o requirements/dev.txt --group dev -c requirements/runtime.txt

lock_flags = --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
