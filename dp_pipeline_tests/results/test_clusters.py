import numpy as np

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.results.clusters import Clusters, Synopsis

CENTRES = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_centres_a_synopsis_and_sizes_are_tables():
    assert list(Clusters(("x", "y"), CENTRES).tables()) == ["centres"]
    box = (Coordinate(0.0, 4.0), Coordinate(0.0, 4.0))
    synopsis = Synopsis.of_grid(np.ones((2, 2)), ("x", "y"), box)
    tables = Clusters(("x", "y"), CENTRES, synopsis, np.array([5.5, -1.0])).tables()
    assert list(tables) == ["centres", "synopsis", "sizes"]
    assert np.stack(list(tables["centres"].values()), axis=1).tolist() == CENTRES.tolist()
    assert tables["sizes"]["size"].tolist() == [5.5, -1.0]
    assert len(tables["synopsis"]["weight"]) == 4
