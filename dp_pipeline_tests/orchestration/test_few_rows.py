"""Few rows, missing values, constraints: the whole chain gives a valid answer, or says why."""

import re
from collections.abc import Mapping

import dagster as dg
import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_pipeline.cli.released import print_result
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.run_result import RunResult
from dp_pipeline_tests.orchestration.events import check_results
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, ROWS, Declaration, Project

pytestmark = pytest.mark.chain

HEADER, *HOMES_ROWS = ROWS["homes"]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_benchmark_with_fewer_rows_than_centres_is_evaluated(rows: int, project: Project):
    spec = project.declare("plants", PLANTS, models={"eug_kmeans": {"k": "3"}, "independent": {}})
    project.write_rows("plants.csv", ROWS["plants"][: 1 + rows])
    clusters, table = project.run(spec, epsilons=["1"])
    exact = {row.metric: row.value for row in clusters.quality}
    assert exact["nicv_floor"] == 0
    assert np.isnan(exact["nicv_ratio"])
    assert [row.metric for row in table.quality] == ["avd_2", "avd_3", "dcr"]
    for release in (clusters, table):
        path = project.home.reports / f"{spec.name}.cards" / f"{release.release.name}.1.md"
        good = path.read_text("utf-8").partition("## How good it is")[2].partition("##")[0]
        assert "Compared with the public rows, without noise." in good
        assert all(f"| {row.text} | {row.reading} |" in good for row in release.quality)
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"base64,[^\"]+", "", page)


DECIMALS = [f'"{at % 8},5","3{at % 10}0,0",renter' for at in range(2000)]
"""Two thousand homes with comma decimals: none of them is a number."""


def test_release_of_rows_that_are_all_invalid_says_so(project: Project, capsys):
    """Two thousand homes, each dropped; the noise reaches half of them once in 10^20 draws."""
    models = {"eug_kmeans": {"k": "3"}, "independent": {}}
    spec = project.declare("homes", HOMES, nominal_rows="2000", models=models)
    project.write_rows("homes.csv", [HEADER, *DECIMALS])
    project.run(spec)
    results = [result for result in check_results(project, spec) if result.check_name == PLAUSIBLE]
    assert [result.passed for result in results] == [False, False]
    assert {result.severity for result in results} == {dg.AssetCheckSeverity.WARN}
    for result in results:
        assert "Few rows: their noisy number is" in result.metadata["What speaks against it"].value
    for name in spec.models:
        path = project.home.reports / f"{spec.name}.cards" / f"{name}.1.md"
        card = path.read_text("utf-8")
        assert "## What speaks against it\n\n- Few rows" in card
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "less than half of the 2,000 that nominal_rows declares" in page
    print_result(RunResult.of(project.request(spec), [()]))
    # By chance, so few rows may be a weak signal too.
    lines = [line for line in capsys.readouterr().out.splitlines() if ": Few rows: " in line]
    assert [line.partition(": Few rows: ")[0] for line in lines] == [
        "warning: eug_kmeans at ε=1", "warning: independent at ε=1",
    ]  # fmt: skip


CLUSTERINGS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
ANY_ROWS: Mapping[str, list[str]] = {
    "nobody": [],
    "everybody in one place": ["3,500,renter"] * 30,
    "everybody outside the box": ["99,-5,owner", "-1e308,1e308,renter"] * 10,
    "one good row": ["NaN,1,owner", "x,y,z", ",,", "2,400,owner", "inf,-inf,renter", "1,NaN,owner"],
}


@pytest.mark.parametrize("rows", ANY_ROWS.values(), ids=ANY_ROWS)
def test_every_clustering_releases_centres_of_any_rows(rows: list[str], project: Project):
    models = {name: {"k": "3"} for name in CLUSTERINGS}
    changes = {"evaluation": {"epsilon": "0.5"}, "label": "tenure", "ceiling": {"total": "20"}}
    spec = project.declare("homes", HOMES, models=models, **changes)
    project.write_rows("homes.csv", [HEADER, *rows])
    project.prepare(spec)
    for model in CLUSTERINGS:
        published = project.publish(spec, model=model, epsilon="1")
        assert published.state == "charged"
        assert set(published.bundle.quality) == {"nicv", "f_label", "ari_label"}
        centres = np.stack(list(published.bundle.tables["centres"].values()), axis=1)
        assert centres.shape == (3, 2)
        assert ((centres >= 0) & (centres <= (8, 1000))).all()
    assert project.spent(spec) == spec.cost_of_everything


PEOPLE: Declaration = {
    **HOMES,
    "ceiling": {"total": "1000"},
    "source": {"kind": "csv", "path": "p.csv", "comment": "#", "header": ["age", "job", "sex"]},
    "attributes": {
        "age": {"bounds": ["0", "90"], "edges": ["18"], "nullable": "true", "missing": ["?"]},
        "job": {"levels": ["paid", "none"], "nullable": "true", "aliases": {"Paid.": "paid"}},
        "sex": {"levels": ["f", "m"]},
    },
    "partitions": ["500"],
    "models": {"privbayes": {}},
}
LINES = ("# of one street", *["17, Paid., f", "?, none, m", "64, , f", ", paid, m"] * 50)


def declared(project: Project, **age: str) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("p.csv", LINES)
    attributes = PEOPLE["attributes"]
    changed = {**attributes, "age": {**attributes["age"], **age}}
    return project.declare("people", PEOPLE, attributes=changed)


def test_synthetic_rows_miss_values_of_nullable_columns_alone(project: Project):
    project.prepare(declared(project))
    published = project.publish(declared(project), model="privbayes", epsilon="500")
    table = pq.read_table(published.folder / "synthetic.parquet")
    assert table.column_names == ["age", "job", "sex"]
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string"]
    assert table.num_rows == 200
    # Drawn with chances 1/2, 1/4 and 0: without any of 200, a false alarm of 1e-25.
    assert table.column("age").null_count > 0
    assert table.column("job").null_count > 0
    assert table.column("sex").null_count == 0
    assert set(table.column("job").to_pylist()) == {"paid", "none", None}
    # Integers that are declared later are made of the same answers.
    spec = declared(project, integer="true")
    again = project.publish(spec, model="privbayes", epsilon="500")
    assert (published.state, again.state, again.nano) == ("charged", "replayed", 0)
    assert project.spent(spec) == 500
    ages = pq.read_schema(again.folder / "synthetic.parquet").field("age")
    assert str(ages.type) == "int64"


def test_a_release_keeps_constraints_and_its_card_says_them(project: Project):
    lands = {"owner": "low", "renter": "high", "other": "high"}
    never = {"rooms": "[0, 2)", "tenure": "owner"}
    spec = project.declare(
        "homes",
        HOMES,
        attributes=HOMES["attributes"] | {"land": {"levels": ["low", "high"]}},
        constraints={"never": never, "depends": {"tenure": {"land": lands}}},
        models={"one_shot": {"synthetic_rows": "400"}},
    )
    rows = [f"{2 + n % 6},{n},{tenure},{lands[tenure]}" for n, tenure in enumerate([*lands] * 99)]
    project.write_rows("homes.csv", [f"{HEADER},land", *rows, "1,5,owner,high"] * 2)
    (outcome,) = project.run(spec)
    table = pq.read_table(outcome.folder / "synthetic.parquet").to_pylist()
    assert len(table) == 400
    assert not [row for row in table if row["tenure"] == "owner" and (row["rooms"] or 9) < 2]
    places = [row for row in table if None not in (row["tenure"], row["land"])]
    assert all(lands[row["tenure"]] == row["land"] for row in places)
    card = (project.home.reports / "homes.cards" / "one_shot.1.md").read_text(encoding="utf-8")
    text = "Declared of every row: never rooms [0, 2) with tenure owner; tenure decides land."
    assert text in " ".join(card.replace("\\", "").split())
