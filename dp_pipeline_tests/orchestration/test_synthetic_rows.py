"""Tables with missing values, whole numbers and constraints, from a file to synthetic rows."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.orchestration.projects import Declaration, Project

PEOPLE: Declaration = {
    "description": "People of one street: sensitive.",
    "population": "street",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "1000"},
    "source": {
        "kind": "csv",
        "path": "people.csv",
        "comment": "#",
        "header": ["age", "job", "sex"],
    },
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
    project.write_rows("people.csv", LINES)
    attributes = PEOPLE["attributes"]
    changed = {**attributes, "age": {**attributes["age"], **age}}
    return project.declare("people", PEOPLE, attributes=changed)


@pytest.fixture
def street(project: Project) -> Project:
    """With its rows read and prepared."""
    project.prepare(declared(project))
    return project


def test_synthetic_rows_miss_values_of_nullable_columns_alone(street: Project):
    """At this ε a count is off by one with a chance below 1e-40."""
    published = street.publish(declared(street), model="privbayes", epsilon="500")
    table = pq.read_table(published.folder / "synthetic.parquet")
    assert table.column_names == ["age", "job", "sex"]
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string"]
    assert table.num_rows == 200
    # Drawn with chances 1/2, 1/4 and 0: without any of 200, a false alarm of 1e-25.
    assert table.column("age").null_count > 0
    assert table.column("job").null_count > 0
    assert table.column("sex").null_count == 0
    assert set(table.column("job").to_pylist()) == {"paid", "none", None}


def test_declaring_integers_later_rebuilds_at_no_cost(street: Project):
    first = street.publish(declared(street), model="privbayes", epsilon="500")
    spec = declared(street, integer="true")
    again = street.publish(spec, model="privbayes", epsilon="500")
    assert (first.state, again.state, again.nano) == ("charged", "replayed", 0)
    assert street.spent(spec) == 500
    kinds = [
        str(pq.read_schema(Path(release.folder) / "synthetic.parquet").field("age").type)
        for release in (first, again)
    ]
    assert kinds == ["double", "int64"]


COUPLES: Declaration = {
    "description": "Who lives with whom: sensitive.",
    "population": "couples",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "9"},
    "source": {"kind": "csv", "path": "couples.csv"},
    "attributes": {
        "age": {"bounds": ["0", "80"], "bins": "4", "integer": "true"},
        "state": {"levels": ["single", "married"]},
        "town": {"levels": ["Graz", "Linz", "Wels"]},
        "land": {"levels": ["Styria", "Upper"]},
    },
    "constraints": {
        "never": {"age": "[0, 20)", "state": "married"},
        "depends": {"town": {"land": {"Graz": "Styria", "Linz": "Upper", "Wels": "Upper"}}},
    },
    "partitions": ["0.5"],
    "models": {"one_shot": {"synthetic_rows": "400"}},
}


LANDS: dict[str, str] = COUPLES["constraints"]["depends"]["town"]["land"]


@pytest.mark.chain
def test_a_release_keeps_constraints_and_its_card_says_them(project: Project):
    lines = [
        f"{n % 80},{'married' if n % 80 >= 20 and n % 3 else 'single'},{town},{LANDS[town]}"
        for n, town in enumerate([*LANDS] * 200)
    ]
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("couples.csv", ["age,state,town,land", *lines, "5,married,Graz,Upper"])
    (outcome,) = project.run(project.declare("couples", COUPLES))
    folder = outcome.folder
    table = pq.read_table(folder / "synthetic.parquet").to_pydict()
    assert len(table["age"]) == 400
    assert not any(
        age is not None and age < 20 and state == "married"
        for age, state in zip(table["age"], table["state"], strict=True)
    )
    pairs = zip(table["town"], table["land"], strict=True)
    assert all(LANDS[t] == land for t, land in pairs if None not in (t, land))
    path = project.home.reports / "couples.cards" / "one_shot.0.5.md"
    card = path.read_text(encoding="utf-8").replace("\\", "")
    text = "Declared of every row: never age [0, 20) with state married; town decides land."
    assert text in " ".join(card.split())
