"""A whole chain over rows with constraints: what is said, what is released, what it is called."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from dp_pipeline_tests.orchestration.projects import Declaration, Project

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
LANDS = {"Graz": "Styria", "Linz": "Upper", "Wels": "Upper"}


@pytest.mark.chain
def test_a_release_keeps_constraints_and_its_card_says_them(tmp_path: Any):
    project = Project(tmp_path)
    towns = [*LANDS]
    lines = [
        f"{n % 80},{'married' if n % 80 >= 20 and n % 3 else 'single'},{town},{LANDS[town]}"
        for n in range(600)
        for town in [towns[n % 3]]
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
