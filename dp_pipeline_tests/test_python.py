"""`import dp_pipeline as dp`: its names, and what docs/python.md shows."""

import os
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import dp_pipeline as dp
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline_tests.config.declarations import declaration, written
from dp_pipeline_tests.test_architecture import HEAVY, run_code

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("DP_PIPELINE_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_to_import_the_package_alone_imports_nothing_heavy():
    code = "import sys, dp_pipeline; dir(dp_pipeline); print(*sys.modules)"
    imported = set(run_code(code).stdout.split())
    assert "dp_pipeline" in imported
    ours = {"dp_pipeline.commands", "dp_pipeline.estimators"}
    assert not imported & (HEAVY | {"numpy", "pydantic", "pyarrow"} | ours)


def test_every_name_is_seen_and_can_be_had():
    assert set(dp.__all__) <= set(dir(dp))
    for name in dp.__all__:
        assert callable(getattr(dp, name)), name
    with pytest.raises(AttributeError, match="has no attribute 'publish_all'"):
        _ = dp.publish_all  # type: ignore[attr-defined]


def kmeans() -> dp.PrivateKMeans:
    return dp.PrivateKMeans(2, epsilon=1, bounds=(0, 10)).fit([[1.0], [9.0]] * 50)


PATH_CALLS: dict[str, Callable[[Any], object]] = {
    "load_dataset": dp.load_dataset,
    "open_release": dp.open_release,
    "save": lambda path: kmeans().save(path),
    "load": dp.PrivateKMeans.load,
}


@pytest.mark.parametrize("value", [None, 7, 1.5, b"x", ["x"], "\0.yaml", Path("\ud800")])
@pytest.mark.parametrize("call", PATH_CALLS)
def test_value_that_is_no_path_is_refused_in_one_line(call: str, value: object):
    with pytest.raises(DeclarationError, match=r"\A(dataset|folder|path): expected a path.*\Z"):
        PATH_CALLS[call](value)


def test_a_plan_says_what_is_asked_and_charges_nothing(home: Path):
    planned = dp.plan("census", models=["independent"], epsilons=[0.5, Fraction(1)])
    assert [(release.model, release.epsilon, release.cost) for release in planned.releases] == [
        ("independent", Fraction(1, 2), Fraction("0.55")),
        ("independent", Fraction(1), Fraction("1.05")),
    ]
    assert (planned.total_cost, planned.remaining, planned.fits) == (Fraction("1.6"), 10, True)
    assert repr(planned) == (
        "Plan of census\n"
        "  model        ε    state  cost\n"
        "  independent  0.5  new    0.55\n"
        "  independent  1    new    1.05\n"
        "requested 1.6, left 10"
    )
    assert not (home / "home" / "released").exists()


@pytest.mark.usefixtures("home")
def test_an_own_file_is_loaded_or_its_mistake_named(tmp_path: Path):
    ceiling, models = "ceiling: {total: 1.25, per_month: 1}", "models: {dpqt_kmeans: {k: 2}}"
    partitions = "partitions: [0.5, 0.75]"
    file = written(tmp_path, declaration(ceiling=ceiling, models=models, partitions=partitions))
    spec = dp.load_dataset(file)
    assert spec == dp.load_dataset(str(file))
    assert repr(spec) == (
        "Data set toy: x, age, colour; release of population people, protects at most 3 rows of a "
        "person, column person; models dpqt_kmeans at ε = 0.5, 0.75"
    )
    assert not dp.plan(spec).fits
    assert dp.plan(spec, epsilons=["0.75"]).fits


@pytest.mark.usefixtures("home")
def test_a_file_with_the_name_of_another_data_set_is_refused(tmp_path: Path):
    file = written(tmp_path, declaration(name="name: census"), name="census")
    with pytest.raises(DeclarationError, match="needs a name of its own"):
        dp.load_dataset(file)


NO_LISTS = product(("models", "epsilons"), (None, 1.5, "independent", b"x"))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("must be one of", {"models": ["nobody"]}),
        ("must be one of 0.1, 0.5, 1, not 0.3", {"epsilons": [0.3]}),
        ("--window: the data set has no `windows`", {"windows": "2026-W01"}),
        *((f"{name}: expected a list, got ", {name: value}) for name, value in NO_LISTS),
    ],
)
def test_what_is_not_declared_is_refused(words: str, options: dict[str, Any]):
    with pytest.raises(DeclarationError, match=words):
        dp.plan("census", **options)


def test_the_page_has_blocks_of_each_way():
    assert sum("dp.run(" in block for block in BLOCKS) == 1
    assert sum("import polars" in block for block in BLOCKS) == 1


@pytest.mark.usefixtures("home")
@pytest.mark.filterwarnings("ignore::dp_pipeline.estimators.WeakSignal")
def test_the_blocks_of_the_page_run_one_after_the_other(capsys: pytest.CaptureFixture[str]):
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if "polars" not in block and "dp.run(" not in block:
            exec(block, names)
    assert names["table"].dtypes.astype(str).tolist() == ["category", "Int8", "int64"]
    shown = capsys.readouterr().out
    assert "fitted: ε=0.666666666 (rounded down from 0.6666666666666666), protects one row" in shown
    assert "requested 0.55, left 10" in shown


def test_the_block_with_polars_runs_where_it_is_installed():
    pytest.importorskip("polars", reason="polars is not installed: it is in the extra test")
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if any(words in block for words in ("polars", "people =", "import pandas", "import dp_")):
            exec(block, names)
    assert type(names["again"].sample(1)).__module__.startswith("polars")


@pytest.mark.chain
def test_a_run_releases_and_a_run_again_is_replayed(home: Path, monkeypatch, capsys):
    monkeypatch.chdir(home)
    # A run names it, and makes files private, for the rest of its process.
    monkeypatch.setenv("DAGSTER_HOME", str(home / "dagster"))
    mask = os.umask(0o077)
    steps: list[str] = []
    names: dict[str, Any] = {"dp": dp, "census": dp.load_dataset("census")}
    try:
        exec(next(block for block in BLOCKS if "dp.run(" in block), names)
        assert capsys.readouterr().out.startswith("independent 1/2 charged 11/20")
        options = {"models": ["independent"], "epsilons": ["0.5"], "on_step": steps.append}
        again = dp.run(names["census"], **options)
    finally:
        os.umask(mask)
    first, released = names["finished"], names["release"]
    assert released.table.columns.tolist() == list(names["census"].domain.names)
    assert "charged by this run: 0.55; report: " in repr(first)
    assert [(release.state, release.cost) for release in again] == [("replayed", 0)]
    assert repr(again[0]) == "independent at ε=0.5: replayed, cost 0"
    assert again[0].table.equals(released.table)
    assert (again.charged, steps, capsys.readouterr().out) == (0, [], "")
