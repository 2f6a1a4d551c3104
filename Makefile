# Thin words for what README.md says.
.PHONY: demo test test-chain test-ui test-stack test-resolutions lint types contracts docs ui study bench bench-parts lock

PY := .venv/bin/python
export DAGSTER_HOME ?= $(CURDIR)/.dagster_home
export DAGSTER_DISABLE_TELEMETRY := 1
export GX_ANALYTICS_ENABLED := false
# Else every process of the tests compiles all libraries again, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

demo: .venv/ready
	.venv/bin/dp-pipeline demo

# Two files at a time; each file by one process, which makes its fixtures once, and so are the folders
# that dp_pipeline_tests/conftest.py names. The longest first, in its order: else one process works
# alone at the end.
test: .venv/ready lint
	$(PY) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# What takes seconds each: whole chains of a data set, in Dagster and by commands in processes of their
# own; many fits, large tables.
test-chain: .venv/ready
	$(PY) -m pytest -m 'chain and not stack' --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# In a Chromium that is installed already; PICTURES=docs/images renews those of the README.
test-ui: .venv/ready_ui
	DP_PIPELINE_PICTURES=$(PICTURES) $(PY) -m pytest -m ui dp_pipeline_tests/ui

# Dagster's own processes, started, killed and started again; many processes at once on one ledger.
test-stack: .venv/ready
	$(PY) -m pytest -m stack dp_pipeline_tests

# The bounds of versions in pyproject.toml hold: the lowest and the newest that they allow, each in an
# environment of its own, without constraints.txt. Every test is collected; then a release from the
# command line to its report, Dagster's definitions, the ledger, Great Expectations and readers, frames
# in the estimators, and pictures. Ten minutes each on two idle cores: not a part of `make test`.
RESOLVED := build/resolutions
RESOLUTION_TESTS := $(addprefix dp_pipeline_tests/,test_cli.py test_data_cli.py \
  orchestration/test_asset_pages.py ledger raw/test_expectations.py raw/test_sources.py \
  raw/test_sql_source.py estimators reporting/test_charts.py)
RESOLUTIONS := test-lowest-direct test-highest
.PHONY: $(RESOLUTIONS)
test-resolutions: $(RESOLUTIONS)

$(RESOLUTIONS): test-%: .venv/ready
	rm -rf $(RESOLVED)/$*
	python3 -m venv $(RESOLVED)/$*
	$(PY) -m uv pip install --quiet --python $(RESOLVED)/$*/bin/python --resolution $* --editable '.[test]'
	$(PY) -m uv pip check --python $(RESOLVED)/$*/bin/python
	$(RESOLVED)/$*/bin/python -m pytest --collect-only --quiet -p no:cacheprovider > $(RESOLVED)/$*.log \
	  || { tail -n 40 $(RESOLVED)/$*.log; exit 1; }
	$(RESOLVED)/$*/bin/python -m pytest -p no:cacheprovider $(RESOLUTION_TESTS)

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 --output-sync types contracts

# Each takes most of a core.
types: .venv/ready
	.venv/bin/mypy

contracts: .venv/ready
	.venv/bin/lint-imports --no-cache

# The pages in docs/ as a site, build/docs/html, with the reference of Python names from docstrings. A
# link to nowhere fails, and so does whatever a page would load from another host.
SITE := build/docs
docs: $(SITE)/ready
	$(SITE)/venv/bin/python -m sphinx --fail-on-warning --keep-going --quiet --conf-dir docs \
	  --doctree-dir $(SITE)/doctrees . $(SITE)/html
	@echo "$(SITE)/html/index.html"

$(SITE)/ready: .venv/ready pyproject.toml constraints.txt
	python3 -m venv --clear $(SITE)/venv
	$(call install,docs,$(SITE)/venv/bin/python)
	touch $@

ui: .venv/ready
	.venv/bin/dp-pipeline ui

# The real data sets where there is a data folder, those after their pattern elsewhere. A folder
# keeps the cells of one version of the code: name others with OUT=, OUT_TABLES= and OUT_ANONYMOUS=.
OUT ?= data/study_clustering
OUT_TABLES ?= data/study_release
OUT_ANONYMOUS ?= data/study_anonymity
ANONYMOUS := wdbc $(if $(DP_PIPELINE_DATA),breast_cancer_wisconsin adult_2000)
STUDIED := $(if $(DP_PIPELINE_DATA),birch3 checkin_events unbalance,birch3_like unbalance_like)
TABLES := $(if $(DP_PIPELINE_DATA),nltcs nltcs_replace adult adult_replace,tic_like)
# Of 86 attributes aim_like takes minutes a table, and threshold_filter none.
OF_MANY := $(if $(DP_PIPELINE_DATA),,independent jtree privbayes privhd mst_delta one_shot)
study: .venv/ready
	$(PY) -m benchmarks.papers clustering $(STUDIED:%=--dataset %) --dataset mixture4 --out $(OUT)
	$(PY) -m benchmarks.papers release $(TABLES:%=--dataset %) $(OF_MANY:%=--system %) \
	  --out $(OUT_TABLES)
	$(PY) -m benchmarks.papers anonymity $(ANONYMOUS:%=--dataset %) --out $(OUT_ANONYMOUS)
	STUDY_CLUSTERING=$(OUT) STUDY_RELEASE=$(OUT_TABLES) STUDY_ANONYMITY=$(OUT_ANONYMOUS) \
	  $(PY) -m pytest -m study -s dp_pipeline_tests/studies dp_pipeline_tests/models

# Every target of scale as a ratio in one run, into docs/scaling.md: 5 minutes on two idle cores, and 20
# with MANY=100000000, which is what the targets are about. `bench-parts` says more of each.
bench: .venv/ready
	$(PY) benchmarks/targets.py $(if $(MANY),--many $(MANY)) --write

bench-parts: .venv/ready
	$(PY) benchmarks/kernels.py
	$(PY) benchmarks/evaluation.py
	$(PY) benchmarks/scale.py
	$(PY) benchmarks/clustering.py
	$(PY) benchmarks/ledger.py
	$(PY) benchmarks/release.py
	$(PY) benchmarks/anonymity.py

# Extra, and the Python whose environment gets it. uv resolves and installs in seconds; pip does the
# same where uv cannot be had.
define install
if $(PY) -m uv --version >/dev/null 2>&1; then \
  $(PY) -m uv pip install --quiet --python $(2) --constraint constraints.txt --editable '.[$(1)]'; \
else \
  $(2) -m pip install --quiet --constraint constraints.txt --editable '.[$(1)]'; \
fi
endef

.venv/ready: pyproject.toml constraints.txt
	@echo "Installing the packages that constraints.txt names into .venv, once: a minute or two, five where uv cannot be had."
	python3 -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check uv || true
	$(call install,test,$(PY))
	touch $@

.venv/ready_ui: .venv/ready
	$(call install,ui,$(PY))
	touch $@

# Dask and Spark, 500 MB, an S3 server and `dg`: without them their tests are skipped.
.venv/ready_engines: .venv/ready
	$(call install,dask,$(PY))
	$(call install,spark,$(PY))
	$(call install,s3,$(PY))
	$(call install,dg,$(PY))
	touch $@

# The versions that the commands install, and those of the image by the digests of their files, with
# what builds ours; run after changing dependencies.
lock: .venv/ready
	$(PY) -m uv pip compile pyproject.toml --extra test --extra ui --extra docs --extra dask --extra spark --extra s3 --extra dg --universal --python-version 3.11 \
	  --no-header --no-annotate --quiet --output-file constraints.txt
	echo hatchling | $(PY) -m uv pip compile pyproject.toml - --extra postgresql --constraint constraints.txt --universal \
	  --python-version 3.11 --generate-hashes --no-strip-extras --no-header --no-annotate --quiet --output-file deploy/requirements.txt
