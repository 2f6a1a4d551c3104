"""What Dagster and a plan show of released tables: cliques, cells, noise, ε per step, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.models.tables.base import BYTES_A_CELL
from dp_pipeline.orchestration.metadata import record_table
from dp_pipeline.releases import report
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import release_results
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.orchestration.events import materializations
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, Project

pytestmark = pytest.mark.chain

MODELS: Mapping[str, Mapping[str, str]] = {
    "priview": {"synthetic_rows": "20"},
    "independent": {},
    "eug_kmeans": {"k": "3"},
}
Ran = tuple[Project, DatasetSpec]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two models of tables and one of centres, run once at one ε with a bought evaluation."""
    project = Project(tmp_path_factory.mktemp("tables"))
    spec = project.declare("homes", HOMES, models=MODELS, evaluation={"epsilon": "0.5"})
    project.run(spec)
    return project, spec


def metadata_of(ran: Ran, name: str) -> Mapping[str, Any]:
    project, spec = ran
    partition = None if name == "comparison" else "1"
    return materializations(project, spec)[dg.AssetKey([spec.name, name])][partition][0]


def records(metadata: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [record.data for record in metadata[name].records]


def test_metadata_of_a_table_name_its_cliques_and_their_cells(ran: Ran) -> None:
    metadata = metadata_of(ran, "priview")
    assert records(metadata, "table/model graph") == [
        {"attributes": "rooms, rent, tenure", "cells": 24, "parent": -1, "separator": ""}
    ]
    assert metadata["table/cliques"].value == 1
    assert metadata["table/cells of all cliques"].value == 24
    assert metadata["table/cells of the largest clique"].value == 24
    assert metadata["table/largest clique"].value == "rooms, rent, tenure"
    assert metadata["dagster/row_count"].value == 20
    assert metadata_of(ran, "eug_kmeans")["dagster/row_count"].value == 3
    several = metadata_of(ran, "independent")
    assert several["table/cliques"].value == 3
    assert several["table/cells of all cliques"].value == 4 + 2 + 3
    assert several["table/largest clique"].value == "rooms"


def test_the_page_of_a_table_shows_its_first_synthetic_rows(ran: Ran) -> None:
    project, spec = ran
    shown = records(metadata_of(ran, "priview"), "table/first synthetic rows")
    assert len(shown) == 10
    (bundle,) = [
        one.bundle
        for one in release_results(project.request(spec))
        if one.bundle.model == "priview"
    ]
    released = bundle.tables["synthetic"]
    assert [row["tenure"] for row in shown] == released["tenure"][:10].tolist()
    assert [row["rent"] for row in shown] == pytest.approx(released["rent"][:10], rel=1e-3)
    assert "table/first synthetic rows" not in metadata_of(ran, "eug_kmeans")


def test_how_many_rows_were_read_is_shown_of_public_rows_alone(project: Project, ran: Ran) -> None:
    spec = project.declare("plants", PLANTS)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    public, sensitive = materializations(project, spec), materializations(*ran)
    for stage in ("ingested", "normalized"):
        (shown,) = public[dg.AssetKey(["plants", stage])][None]
        assert shown["dagster/row_count"].value == 5
        (hidden,) = sensitive[dg.AssetKey(["homes", stage])][None]
        assert "dagster/row_count" not in hidden


def test_a_preview_says_gaps_and_dates_as_texts() -> None:
    table = {
        "day": np.array(["2026-01-05", "NaT"], dtype="datetime64[D]"),
        "job": np.array(["a", None], dtype=object),
    }
    told = [record.data for record in record_table(table).records]
    assert told == [{"day": "2026-01-05", "job": "a"}, {"day": "", "job": ""}]


def test_metadata_of_a_table_name_the_noise_of_every_marginal(ran: Ran) -> None:
    (one,) = records(metadata_of(ran, "priview"), "table/noise")
    assert (one["marginal"], one["cells"]) == ("rooms, rent, tenure", 24)
    assert one["deviation"] == pytest.approx(sqrt(variance(Fraction(1))), rel=1e-3)
    three = records(metadata_of(ran, "independent"), "table/noise")
    assert [(line["marginal"], line["cells"]) for line in three] == [
        ("rooms", 4),
        ("rent", 2),
        ("tenure", 3),
    ]


def test_metadata_of_a_table_say_what_each_step_cost(ran: Ran) -> None:
    assert records(metadata_of(ran, "priview"), "privacy/steps") == [
        {"step": "tables of several attributes", "charges": 1, "ε": "1", "share": "66.7%"},
        {"step": "evaluation", "charges": 3, "ε": "0.5", "share": "33.3%"},
    ]
    steps = records(metadata_of(ran, "independent"), "privacy/steps")
    assert [(line["step"], line["charges"], line["ε"]) for line in steps] == [
        ("one-way marginals", 3, "1"),
        ("evaluation", 3, "0.5"),
    ]


def test_metadata_of_centres_name_no_cliques(ran: Ran) -> None:
    metadata = metadata_of(ran, "eug_kmeans")
    assert not [name for name in metadata if name.startswith("table/") or name == "privacy/steps"]


def test_the_comparison_shows_distances_marginals_and_the_cliques_of_several_attributes(
    ran: Ran,
) -> None:
    _, *pictures, _ = metadata_of(ran, "comparison")
    assert pictures == [
        "utility over ε",
        "AVD over ε",
        "Centres of eug_kmeans at ε=1",
        "Marginals of 2 models at ε=1",
        "Cliques of priview at ε=1",
    ]


def test_a_table_that_was_stored_before_there_were_cliques_is_still_shown(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, spec = ran
    old = {"synthetic", "marginals"}

    def without_cliques(*words: Any, **expected: Any) -> Any:
        bundle = original(*words, **expected)
        kept = {name: one for name, one in bundle.tables.items() if name in old}
        return replace(bundle, tables=kept or bundle.tables)

    original = report.pointed_bundle
    monkeypatch.setattr(report, "pointed_bundle", without_cliques)
    evaluated = read_document(project.home.internal / spec.name / "evaluation" / "1.json")
    compared = report.compare(spec, project.home, {"1": evaluated})
    assert compared.pictures[-1].caption == "Marginals of 2 models at ε=1"


def test_a_plan_foretells_cells_and_memory_of_tables_alone(project: Project) -> None:
    spec = project.declare("homes", HOMES, models=MODELS)
    planned = {one.model: one for one in plan_run(project.request(spec)).releases}
    cells = {name: one.cells for name, one in planned.items()}
    assert cells == {"priview": 24, "independent": 9, "eug_kmeans": None}
    assert planned["independent"].megabytes == 9 * BYTES_A_CELL / 1e6
    assert planned["eug_kmeans"].megabytes is None


def test_a_printed_plan_has_sizes_where_there_are_tables(project: Project) -> None:
    project.declare("homes", HOMES, models=MODELS)
    lines = [line.split() for line in project.cli_here("plan", "homes").out.splitlines()]
    assert ["priview", "1", "new", "1", "0.851", "24", "0.00115"] in lines
    assert ["eug_kmeans", "1", "new", "1", "0.851", "–", "–"] in lines
    project.declare("homes", HOMES, models={"eug_kmeans": {"k": "3"}})
    assert "cells" not in project.cli_here("plan", "homes").out
