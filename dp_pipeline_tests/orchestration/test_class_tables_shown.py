"""A class table through the whole chain, beside centres and a synthetic table."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import dagster as dg
import pytest

from dp_pipeline.cli.released import release_cells
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.models import build_model
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.releases.evaluate import evaluate
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline_tests.orchestration.events import materializations
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, Project

pytestmark = pytest.mark.chain

MODELS: Mapping[str, Mapping[str, str]] = {
    "dp_kjig": {"bits": "2"},
    "independent": {},
    "eug_kmeans": {"k": "3"},
}
Ran = tuple[Project, DatasetSpec]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Three kinds of release of sensitive rows, with a bought evaluation."""
    project = Project(tmp_path_factory.mktemp("classes"))
    changes = {"label": "tenure", "evaluation": {"epsilon": "0.5"}}
    spec = project.declare("homes", HOMES, models=MODELS, **changes)
    project.run(spec)
    return project, spec


def metadata_of(ran: Ran, name: str) -> Mapping[str, Any]:
    project, spec = ran
    partition = None if name == "comparison" else "1"
    return materializations(project, spec)[dg.AssetKey([spec.name, name])][partition][0]


def records(metadata: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [record.data for record in metadata[name].records]


def test_what_is_claimed_stands_beside_what_is_not(ran: Ran) -> None:
    metadata = metadata_of(ran, "dp_kjig")
    claims = records(metadata, "privacy/claims")
    assert [one["promised"] for one in claims] == ["yes", "yes", "yes", "no"]
    numbers = {one["name"]: one["value"] for one in records(metadata, "table/threshold")}
    assert (numbers["k"], numbers["beta"], numbers["labels"]) == ("5", "1/20", "3")
    assert int(numbers["least size"]) == 5 + int(numbers["margin"])
    assert len(records(metadata, "table/bits")) == 2
    assert metadata["dagster/row_count"].value >= 0
    assert "table/cliques" not in metadata
    assert metadata["privacy/epsilon"].value == 1.5
    assert "privacy/exact epsilon" not in metadata


def test_of_sensitive_rows_the_bought_number_alone_is_shown(ran: Ran) -> None:
    evaluation = metadata_of(ran, "evaluation")
    shown = {name for name in evaluation if name.startswith("dp_kjig/")}
    assert shown == {"dp_kjig/auc_class_rate/tenure"}


def test_the_comparison_shows_each_kind_of_release_once(ran: Ran) -> None:
    _, *pictures, _ = metadata_of(ran, "comparison")
    assert pictures == [
        "utility over ε",
        "AVD over ε",
        "AUC over ε",
        "Centres of eug_kmeans at ε=1",
        "Marginals of independent at ε=1",
    ]


def test_the_label_of_the_data_set_is_that_of_the_model_unless_it_names_another(
    project: Project,
) -> None:
    spec = project.declare("homes", HOMES, models=MODELS, label="tenure")
    assert build_model(spec, "dp_kjig") == DpKjig(label=("tenure",), bits=2)
    named = {"dp_kjig": {"label": "rent"}}
    other = project.declare("homes", HOMES, models=named, label="tenure")
    assert build_model(other, "dp_kjig") == DpKjig(label=("rent",))
    none = project.declare("homes", HOMES, models=MODELS)
    with pytest.raises(DeclarationError, match="label: expected one attribute, got none"):
        build_model(none, "dp_kjig")


def test_of_public_rows_the_exact_numbers_are_those_of_the_stored_tables(project: Project) -> None:
    changes = {"models": {"dp_kjig": {"k": "1"}}, "partitions": ["100"], "publish": None}
    spec = project.declare("plants", PLANTS, label="colour", **changes)
    (one,) = project.run(spec)
    assert [row.metric for row in one.quality] == ["auc_class_rate/colour", "withheld"]
    assert release_cells(one, ["auc_class_rate/colour"])[2] == one.quality[0].text
    assert "centres" not in one.tables
    # At this ε all bits are found. Of 3·2 pairs one is tied: two plants have the same bins.
    assert one.quality[0].value == pytest.approx(11 / 12)
    again = ClassTable.from_tables(one.bundle.tables, spec.domain)
    assert again.total.sum() == 5
    assert 0 < again.counts.sum() <= 5


def test_another_k_is_charged_drawn_anew_and_has_its_own_quality(project: Project) -> None:
    changes = {"partitions": ["100"], "publish": None}
    spec = project.declare(
        "plants", PLANTS, label="colour", models={"dp_kjig": {"k": "1"}}, **changes
    )
    (first,) = project.run(spec)
    other = project.declare(
        "plants", PLANTS, label="colour", models={"dp_kjig": {"k": "4"}}, **changes
    )
    published = project.publish(other, model="dp_kjig", epsilon="100")
    assert (published.state, published.nano) == ("charged", 100 * 10**9)
    assert published.bundle.transcript != first.bundle.transcript
    assert published.bundle.tables["threshold"]["k"].tolist() == [4]
    of_it = {"dp_kjig": published.bundle}
    quality = {row.metric: row.value for row in evaluate(other, project.home, of_it)}
    assert quality["withheld"] > 0
    assert project.spent(other) == Fraction(200)
