# Thin words for what README.md says.
.PHONY: demo test lint ui study bench lock

PY := .venv/bin/python
export DAGSTER_HOME ?= $(CURDIR)/.dagster_home
export DAGSTER_DISABLE_TELEMETRY := 1
export GX_ANALYTICS_ENABLED := false

demo: .venv/ready
	.venv/bin/dp-pipeline demo

# Two files at a time; each file by one process, which makes its fixtures once.
test: .venv/ready lint
	$(PY) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

ui: .venv/ready
	mkdir -p $(DAGSTER_HOME)
	test -e $(DAGSTER_HOME)/dagster.yaml || cp dagster.yaml $(DAGSTER_HOME)/dagster.yaml
	.venv/bin/dagster dev --host 127.0.0.1 --workspace workspace.yaml

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
	.venv/bin/dp-pipeline study clustering $(STUDIED:%=--dataset %) --dataset mixture4 --out $(OUT)
	.venv/bin/dp-pipeline study release $(TABLES:%=--dataset %) $(OF_MANY:%=--system %) \
	  --out $(OUT_TABLES)
	.venv/bin/dp-pipeline study anonymity $(ANONYMOUS:%=--dataset %) --out $(OUT_ANONYMOUS)
	$(PY) -m pytest -m study -s dp_pipeline_tests/studies

bench: .venv/ready
	$(PY) benchmarks/kernels.py
	$(PY) benchmarks/clustering.py
	$(PY) benchmarks/release.py
	$(PY) benchmarks/anonymity.py

# uv resolves and installs in seconds; pip does the same where uv cannot be had.
.venv/ready: pyproject.toml constraints.txt
	python3 -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check uv || true
	if $(PY) -m uv --version >/dev/null 2>&1; then \
	  $(PY) -m uv pip install --quiet --python $(PY) --constraint constraints.txt --editable '.[test]'; \
	else \
	  $(PY) -m pip install --quiet --constraint constraints.txt --editable '.[test]'; \
	fi
	touch $@

# The versions that the commands install; run after changing dependencies.
lock: .venv/ready
	$(PY) -m uv pip compile pyproject.toml --extra test --universal --python-version 3.11 \
	  --no-header --no-annotate --quiet --output-file constraints.txt
