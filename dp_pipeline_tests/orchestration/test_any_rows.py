"""Whatever the rows of sensitive data are, every clustering model gives centres in the box."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline_tests.orchestration.projects import HOMES, Project

pytestmark = pytest.mark.chain

CLUSTERINGS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]

ROWS: Mapping[str, list[str]] = {
    "nobody": [],
    "a constant column": [f"4,{rent},owner" for rent in range(0, 1000, 50)],
    "everybody in one place": ["3,500,renter"] * 30,
    "everybody outside the box": ["99,-5,owner", "-1e308,1e308,renter"] * 10,
    "no numbers": ["NaN,1,owner", "1,nan,owner", ",,", "inf,-inf,renter", "three,many,owner"] * 5,
    "one good row among bad ones": ["x,y,z", "2,400,owner", "NaN,inf,"],
}


@pytest.mark.parametrize("rows", ROWS)
def test_every_clustering_releases_centres_in_the_box(rows: str, project: Project):
    spec = project.declare(
        "homes",
        HOMES,
        models={name: {"k": "3"} for name in CLUSTERINGS},
        evaluation={"epsilon": "0.5"},
        label="tenure",
        ceiling={"total": "20"},
    )
    project.write_rows("homes.csv", ["rooms,rent,tenure", *ROWS[rows]])
    project.prepare(spec)
    for model in CLUSTERINGS:
        one = project.publish(spec, model=model, epsilon="1")
        assert one.state == "charged"
        assert set(one.bundle.quality) == {"nicv", "f_label", "ari_label"}
        for name, column in one.bundle.tables["centres"].items():
            (interval,) = spec.domain.box((name,))
            assert len(column) == 3
            assert ((column >= interval.lower) & (column <= interval.upper)).all()
            assert np.isfinite(column).all()
    assert project.spent(spec) == spec.cost_of_everything
