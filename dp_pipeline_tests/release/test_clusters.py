from __future__ import annotations

import numpy as np

from dp_pipeline.release.clusters import Clusters, Synopsis
from dp_pipeline.spec.encoding import Coordinate

CENTRES = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_centres_alone_are_one_table():
    tables = Clusters(("x", "y"), CENTRES).tables()
    assert list(tables) == ["centres"]
    assert {name: values.tolist() for name, values in tables["centres"].items()} == {
        "x": [1.0, 3.0],
        "y": [2.0, 4.0],
    }


def test_a_synopsis_and_sizes_are_tables_of_their_own():
    box = (Coordinate(0.0, 4.0), Coordinate(0.0, 4.0))
    synopsis = Synopsis.of_grid(np.ones((2, 2)), ("x", "y"), box)
    tables = Clusters(("x", "y"), CENTRES, synopsis, np.array([5.5, -1.0])).tables()
    assert list(tables) == ["centres", "synopsis", "sizes"]
    assert tables["sizes"]["size"].tolist() == [5.5, -1.0]
    assert len(tables["synopsis"]["weight"]) == 4
