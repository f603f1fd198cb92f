# Everything a person types. Set-up is part of every target that needs it, inside the repository, and done once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.installed
PACKAGES := model_builds/triton_models/builds/packages
PUBLIC := build/public
REHEARSE := $(STAMPS)/rehearsal $(STAMPS)/triton node_modules/.package-lock.json
DAYS ?= 100
STARTER := model_builds/triton_models/cli/starter/files
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Each module is compiled when it is first imported: most of those that are installed never are.
export PIP_COMPILE := 0
# Hundreds of short processes import the same modules: without bytecode, each compiles them.
unexport PYTHONDONTWRITEBYTECODE
# A lock names every package with its hashes: nothing is built, or taken from anywhere else.
HASHED := --quiet --require-hashes --only-binary=:all:
# Workers and the order of the files are those of tests/conftest.py.
PYTEST := pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help synth test test-all later fuzz lint lock docs bench rehearse rehearse-all setup clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

synth: $(STAMPS)/synth node_modules/.package-lock.json ## Synthesise the stacks as a pull request does: no account, no network
	npx --no-install cdk synth --quiet --context 'stage=*'

test: setup ## Run every test but the long stories; one of them stays
	$(PYTEST) -m "not story"

test-all: setup ## Run every test
	$(PYTEST)

later: setup $(STAMPS)/later.so ## Run `make test` on a clock that is DAYS ahead, by default 100
	LD_PRELOAD=$(CURDIR)/$(STAMPS)/later.so FLEET_DAYS_LATER=$(DAYS) $(PYTEST) -m "not story"

fuzz: setup $(PUBLIC)/.ready ## Try thousands of arguments, archives, model directories against the real Triton, requests, files of others
	FLEET_FUZZ=1 pytest tests/triton_models/test_publish_faults.py tests/triton_models/test_promote.py $$(grep -rl --include='test_*.py' @given tests)
	FLEET_FUZZ=1 FLEET_PUBLIC=$(PUBLIC) pytest tests/triton_models/test_known_directories.py tests/models/test_public_files.py
	FLEET_SCALE=200 pytest tests/rehearsal/test_instance_groups.py tests/rehearsal/test_bad_requests.py

lint: setup $(STAMPS)/dev ## ruff, mypy strict, the direction of the imports, the words, the workflows' schema
	ruff check .
	ruff format --check .
	mypy
	mypy app.py docs/generate embedded-aws/moto_tests.py
	lint-imports
	cd embedded-aws && lint-imports
	codespell --dictionary - --dictionary docs/words.txt
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml $(STARTER)/.github/workflows/*.yml
	check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

lock: $(STAMPS)/dev ## Write the locks again, from requirements*.txt and the packages of builds
	locks/write

rehearse: $(REHEARSE) ## Deploy, build, publish, serve and verify on this machine
	fleet rehearse

rehearse-all: $(REHEARSE) $(STAMPS)/rehearsal-all ## The same with every model, the heavy ones too
	fleet rehearse --all

docs: setup ## Build the site in build/site/html: the written pages, and the reference from the code
	python -m docs.generate
	zensical build --strict --clean --config-file build/site/mkdocs.yml
	@echo "The site is build/site/html/index.html. Its search needs a server: python3 -m http.server --directory build/site/html"

bench: setup ## Measure, as ratios within one run; BENCH=--short takes a minute and shows only that it runs
	python -m benchmarks $(BENCH)

setup: $(REHEARSE) $(STAMPS)/sdk $(STAMPS)/docs ## Install what every command needs

clean: ## Remove what set-up and builds made
	rm -rf $(VENV) .venv-triton node_modules cdk.out build dist embedded-aws/build *.egg-info embedded-aws/*.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' \
	  || { echo "Triton Fleet needs Python 3.10 to 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "First use: this installs up to 2.9 GB of packages inside the repository, which takes a few minutes."
	$(PYTHON) -m venv $(VENV)

# With dependencies, so that they come first: aws-cdk-lib has to overwrite a module that one of them brings as well.
$(STAMPS)/synth: locks/requirements.txt pyproject.toml embedded-aws/pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	pip install $(HASHED) -r locks/requirements.txt
	rm -rf *.egg-info embedded-aws/*.egg-info # which `pip wheel` leaves, and Python would read instead of what is installed
	pip install --quiet --no-deps --no-index --no-build-isolation -e . -e ./embedded-aws
	@touch $@

$(STAMPS)/rehearsal: locks/requirements-rehearsal.txt $(wildcard $(PACKAGES)/locks/torch-*.txt) $(STAMPS)/synth
	python -m triton_models.builds.locked torch
	pip install $(HASHED) --no-deps -r locks/requirements-rehearsal.txt
	@touch $@

$(STAMPS)/rehearsal-all: $(PACKAGES)/locks/dali.txt $(STAMPS)/rehearsal
	python -m triton_models.builds.locked dali
	@touch $@

$(STAMPS)/sdk: locks/requirements-sdk.txt | $(STAMPS)/synth
	pip install $(HASHED) --no-deps -r locks/requirements-sdk.txt
	@touch $@

$(STAMPS)/dev: locks/requirements-dev.txt $(STAMPS)/synth
	pip install $(HASHED) --no-deps -r locks/requirements-dev.txt
	@touch $@

$(STAMPS)/docs: locks/requirements-docs.txt $(STAMPS)/synth
	pip install $(HASHED) --no-deps -r locks/requirements-docs.txt
	@touch $@

$(STAMPS)/triton: locks/requirements-triton.txt rehearsal/triton_rehearsal/triton/command.py | $(STAMPS)/synth
	$(BIN)/python -m venv .venv-triton
	.venv-triton/bin/pip install $(HASHED) --no-deps -r locks/requirements-triton.txt
	python -m triton_rehearsal.triton.command
	@touch $@

$(STAMPS)/later.so: tests/later.c | $(STAMPS)/synth
	cc -shared -fPIC -O2 -o $@ $< -ldl
	@touch $@

$(PUBLIC)/.ready: locks/requirements-public.txt | $(STAMPS)/synth
	rm -rf $(PUBLIC)
	pip download $(HASHED) --no-deps --dest $(PUBLIC) -r locks/requirements-public.txt
	@touch $@

node_modules/.package-lock.json: package-lock.json package.json | $(STAMPS)/synth
	npm ci --silent
	@touch $@
