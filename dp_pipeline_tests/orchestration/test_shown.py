"""What Dagster, a plan and a printed result show of released tables, classes and centres."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.cli.released import print_result, release_cells
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.models import build_model
from dp_pipeline.models.tables.base import BYTES_A_CELL
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.orchestration.metadata import MAX_COLUMNS, number, quality_metadata, record_table
from dp_pipeline.releases.evaluate import evaluate
from dp_pipeline.releases.replay import pointer_path
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import RunResult, release_results
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.text import LONGEST_QUESTION
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.orchestration import events, streams
from dp_pipeline_tests.orchestration.events import materializations, metadata_of, records
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, Project
from dp_pipeline_tests.orchestration.streams import run_weeks, stream

MODELS: Mapping[str, Mapping[str, str]] = {
    "priview": {"synthetic_rows": "20"},
    "independent": {},
    "eug_kmeans": {"k": "3"},
    "dp_kjig": {"bits": "2"},
}
ANONYMOUS = {"methods": {"kjig": {}}, "attributes": "rooms rent", "partitions": ["2"]}
ROWS = [f"{n % 7 + 1},{100 + n % 9 * 90},{'owner' if n % 3 else 'renter'}" for n in range(40)]
Ran = tuple[Project, DatasetSpec]
Values = list[tuple[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every kind of table of sensitive rows, with a bought evaluation, comparisons and budget."""
    project = Project(tmp_path_factory.mktemp("shown"))
    limits = {"evaluation": {"epsilon": "0.5"}, "ceiling": {"total": "10", "per_month": "9"}}
    tables = {"models": MODELS, "k_anonymity": ANONYMOUS, "allow_not_dp": "true"}
    spec = project.declare("homes", HOMES, label="tenure", **limits, **tables)
    project.write_rows("homes.csv", ["rooms,rent,tenure", *ROWS])
    project.run(spec)
    anonymous = ("k_anonymous/kjig", "k_anonymous/evaluation")
    assert project.launch(spec, *anonymous, partition="2").success
    assert project.launch(spec, "k_anonymous/comparison", "budget").success
    return project, spec


@pytest.fixture(scope="module")
def values(ran: Ran) -> Values:
    """Every value that the chain has written, and all checks."""
    written = [
        (str(key), metadata)
        for key, partitions in materializations(*ran).items()
        for entries in partitions.values()
        for metadata in entries
    ]
    checked = [(f"{c.asset_key}: {c.check_name}", c.metadata) for c in events.check_results(*ran)]
    return [(f"{of}: {name}", v) for of, values in written + checked for name, v in values.items()]


def of_kind(values: Values, kind: type) -> dict[str, Any]:
    return {name: value for name, value in values if isinstance(value, kind)}


def digits(value: float) -> int:
    mantissa = repr(float(value)).partition("e")[0]
    return len(mantissa.replace("-", "").replace(".", "").strip("0"))


def test_what_is_shown_is_narrow_short_and_small(values: Values):
    tables = of_kind(values, dg.TableMetadataValue)
    assert len(tables) > 10
    for name, table in tables.items():
        names = {column.name for column in table.schema.columns}
        assert 1 <= len(table.schema.columns) <= MAX_COLUMNS, name
        assert all(set(record.data) <= names for record in table.records), name
    floats = of_kind(values, dg.FloatMetadataValue)
    assert len(floats) > 5
    assert {name: entry.value for name, entry in floats.items() if digits(entry.value) > 4} == {}
    for name, table in of_kind(values, dg.TableMetadataValue).items():
        cells = [cell for record in table.records for cell in record.data.values()]
        assert [c for c in cells if isinstance(c, float) and digits(c) > 4] == [], name
    assert [digits(entry) for entry in (0.1833, 1 / 3, 1235000.0, 1e-9, 0.5)] == [4, 16, 4, 1, 1]
    texts = of_kind(values, dg.MarkdownMetadataValue).values()
    pictures = [text.value for text in texts if "base64" in (text.value or "")]
    assert len(pictures) > 3
    # 200 kB of a map, in base64.
    assert max(map(len, pictures)) < 200_000 * 4 / 3 + 100


def test_charge_is_shown_with_its_cost_first_and_in_words(values: Values):
    tables = [value for name, value in values if name.endswith("privacy/mechanisms")]
    assert len(tables) == len(MODELS)
    for table in tables:
        names = [column.name for column in table.schema.columns]
        assert names[:3] == ["question", "ε", "mechanism"]
    questions = [record.data["question"] for table in tables for record in table.records]
    assert "clipped squared distance to 3 released centres" in questions
    assert [value for value in questions if "shift" in value or len(value) > LONGEST_QUESTION] == []


def test_table_is_cut_or_transposed_and_no_number_is_text():
    wide = {str(n): np.arange(3) for n in range(6)}
    assert [column.name for column in record_table(wide).schema.columns] == list("01234")
    transposed = record_table({name: values[:1] for name, values in wide.items()})
    assert [record.data for record in transposed.records][5] == {"name": "5", "value": "0"}
    (record,) = record_table({"x": np.array([np.nan]), "y": np.array([1 / 3])}).records
    assert record.data == {"x": "nan", "y": 0.3333}
    assert number(float("inf")).value == "not a number"
    assert number(1234567.0).value == 1235000.0
    table = {
        "day": np.array(["2026-01-05", "NaT"], dtype="datetime64[D]"),
        "job": np.array(["a", None], dtype=object),
    }
    lines = [record.data for record in record_table(table).records]
    assert lines == [{"day": "2026-01-05", "job": "a"}, {"day": "", "job": ""}]
    row = QualityRow("one_shot", Fraction(1), "avd_2", 0.0123, None, "share", error=0.004)
    metadata = quality_metadata([row, replace(row, metric="dcr", error=None)])
    assert metadata["one_shot/avd_2"].value == 0.0123
    expected = "0.012 ± 0.004 of a sample of 1,000,000 rows"
    assert metadata["one_shot/avd_2/sample"].value == expected
    assert len(metadata) == 3


def test_table_shows_its_cliques_and_its_first_rows(ran: Ran):
    metadata = metadata_of(*ran, "priview", "1")
    clique = {"attributes": "rooms, rent, tenure", "cells": 24, "parent": -1, "separator": ""}
    assert records(metadata, "table/model graph") == [clique]
    counts = ("table/cliques", "table/cells of all cliques", "table/cells of the largest clique")
    assert [metadata[name].value for name in counts] == [1, 24, 24]
    assert metadata["table/largest clique"].value == "rooms, rent, tenure"
    assert metadata["dagster/row_count"].value == 20
    several = metadata_of(*ran, "independent", "1")
    assert [several[name].value for name in counts[:2]] == [3, 4 + 2 + 3]
    assert several["table/largest clique"].value == "rooms"
    centres = metadata_of(*ran, "eug_kmeans", "1")
    assert centres["dagster/row_count"].value == 3
    assert not [name for name in centres if name.startswith("table/") or name == "privacy/steps"]
    project, spec = ran
    metadata = metadata_of(project, spec, "priview", "1")
    records_shown = records(metadata, "table/first synthetic rows")
    assert len(records_shown) == 10
    results = release_results(project.request(spec))
    (bundle,) = [result.bundle for result in results if result.bundle.model == "priview"]
    released = bundle.tables["synthetic"]
    assert [row["tenure"] for row in records_shown] == released["tenure"][:10].tolist()
    assert [row["rent"] for row in records_shown] == pytest.approx(released["rent"][:10], rel=1e-3)


def test_number_of_rows_is_shown_of_public_rows_alone(project: Project, ran: Ran):
    spec = project.declare("plants", PLANTS)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    for stage in ("ingested", "normalized"):
        assert metadata_of(project, spec, stage)["dagster/row_count"].value == 5
        assert "dagster/row_count" not in metadata_of(*ran, stage)


def test_table_names_the_noise_and_cost_of_each_step(ran: Ran):
    (record,) = records(metadata_of(*ran, "priview", "1"), "table/noise")
    assert (record["marginal"], record["cells"]) == ("rooms, rent, tenure", 24)
    assert record["deviation"] == pytest.approx(sqrt(variance(Fraction(1))), rel=1e-3)
    three = records(metadata_of(*ran, "independent", "1"), "table/noise")
    expected = [("rooms", 4), ("rent", 2), ("tenure", 3)]
    assert [(line["marginal"], line["cells"]) for line in three] == expected
    assert records(metadata_of(*ran, "priview", "1"), "privacy/steps") == [
        {"step": "tables of several attributes", "charges": 1, "ε": "1", "share": "66.7%"},
        {"step": "evaluation", "charges": 3, "ε": "0.5", "share": "33.3%"},
    ]
    steps = records(metadata_of(*ran, "independent", "1"), "privacy/steps")
    expected = [("one-way marginals", 3, "1"), ("evaluation", 3, "0.5")]
    assert [(line["step"], line["charges"], line["ε"]) for line in steps] == expected


def test_comparison_shows_each_kind_of_release_once(ran: Ran):
    _, *pictures, _ = metadata_of(*ran, "comparison")
    assert pictures == [
        *("utility over ε", "AVD over ε", "AUC over ε", "Centres of eug_kmeans at ε=1"),
        *("Marginals of 2 models at ε=1", "Cliques of priview at ε=1"),
    ]


def test_plan_foretells_cells_and_memory_of_tables_alone(project: Project):
    models = {name: MODELS[name] for name in ("priview", "independent", "eug_kmeans")}
    spec = project.declare("homes", HOMES, models=models)
    planned = {release.model: release for release in plan_run(project.request(spec)).releases}
    cells = {name: release.cells for name, release in planned.items()}
    assert cells == {"priview": 32, "independent": 10, "eug_kmeans": None}
    assert planned["independent"].megabytes == 10 * BYTES_A_CELL / 1e6
    assert planned["eug_kmeans"].megabytes is None
    lines = [line.split() for line in project.cli_here("plan", "homes").out.splitlines()]
    assert ["priview", "1", "new", "1", "0.851", "32", "0.00154"] in lines
    assert ["eug_kmeans", "1", "new", "1", "0.851", "–", "–"] in lines
    project.declare("homes", HOMES, models={"eug_kmeans": {"k": "3"}})
    assert "cells" not in project.cli_here("plan", "homes").out


def test_class_table_shows_its_claims_and_bought_number(ran: Ran):
    metadata = metadata_of(*ran, "dp_kjig", "1")
    claims = records(metadata, "privacy/claims")
    assert [claim["promised"] for claim in claims] == ["yes", "yes", "yes", "no"]
    numbers = {record["name"]: record["value"] for record in records(metadata, "table/threshold")}
    assert (numbers["k"], numbers["beta"], numbers["labels"]) == ("5", "1/20", "3")
    assert int(numbers["least size"]) == 5 + int(numbers["margin"])
    assert len(records(metadata, "table/bits")) == 2
    assert metadata["dagster/row_count"].value >= 0
    assert "table/cliques" not in metadata
    assert metadata["privacy/epsilon"].value == 1.5
    assert "privacy/exact epsilon" not in metadata
    names = {name for name in metadata_of(*ran, "evaluation", "1") if name.startswith("dp_kjig/")}
    assert names == {"dp_kjig/auc_class_rate/tenure"}


def test_label_of_the_data_set_is_the_models_default(project: Project):
    models = {"dp_kjig": MODELS["dp_kjig"]}
    spec = project.declare("homes", HOMES, models=models, label="tenure")
    assert build_model(spec, "dp_kjig") == DpKjig(label=("tenure",), bits=2)
    named = {"dp_kjig": {"label": "rent"}}
    other = project.declare("homes", HOMES, models=named, label="tenure")
    assert build_model(other, "dp_kjig") == DpKjig(label=("rent",))


def plants_by_k(project: Project, k: str) -> DatasetSpec:
    changes = {"partitions": ["100"], "publish": None, "label": "colour"}
    return project.declare("plants", PLANTS, models={"dp_kjig": {"k": k}}, **changes)


def test_class_table_has_exact_numbers_and_a_charge_for_each_k(project: Project):
    spec = plants_by_k(project, "1")
    (first,) = project.run(spec)
    assert [row.metric for row in first.quality] == ["auc_class_rate/colour", "withheld"]
    assert release_cells(first, ["auc_class_rate/colour"])[2] == first.quality[0].text
    assert "centres" not in first.tables
    # At this ε all bits are found. Of 3·2 pairs one is tied: two plants have the same bins.
    assert first.quality[0].value == pytest.approx(11 / 12)
    again = ClassTable.from_tables(first.bundle.tables, spec.domain)
    assert again.total.sum() == 5
    assert 0 < again.counts.sum() <= 5
    other = plants_by_k(project, "4")
    published = project.publish(other, model="dp_kjig", epsilon="100")
    assert (published.state, published.nano) == ("charged", 100 * 10**9)
    assert published.bundle.transcript != first.bundle.transcript
    assert published.bundle.tables["threshold"]["k"].tolist() == [4]
    bundles = {"dp_kjig": published.bundle}
    quality = {row.metric: row.value for row in evaluate(other, project.home, bundles)}
    assert quality["withheld"] > 0
    assert project.spent(other) == Fraction(200)


def test_centres_of_newest_window_at_largest_epsilon_are_printed(
    project: Project, capsys: pytest.CaptureFixture[str]
):
    models = {"independent": {}, "eug_kmeans": {"k": "2"}, "htree_kmeans": {"k": "2"}}
    clusterings = [{"model": "eug_kmeans", "epsilon": "0.1"}, streams.TREES]
    spec = stream(project, models=models, publish=clusterings)
    run_weeks(project, spec, *streams.WEEKS[:2])
    options = streams.all_windows(streams.week_options(project, spec, *streams.WEEKS[:2]))
    print_result(RunResult.of(options, [spec.partition_keys] * 2))
    printed = capsys.readouterr().out
    assert "Centres of htree_kmeans at ε=0.5, 2026-W02" in printed
    assert printed.count("Centres of ") == 1
    pointer_path(options.releases[-1]).unlink()
    missing = r"the file .*0\.5\.json must name the stored release, but it is missing: make"
    with pytest.raises(NotPrepared, match=missing):
        RunResult.of(options, [spec.partition_keys] * 2)
