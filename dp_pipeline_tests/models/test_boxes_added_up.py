"""Noisy boxes of several windows, added up at no cost: which boxes, which counts, which noise."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.clustering.privtree_kmeans import PrivTreeKMeans
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes, summed_boxes
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.contract import Run, run
from dp_pipeline_tests.populations import TEN_PEOPLE, LoopCounter

PLACES = ("x", "y")
BOX = (Coordinate(0.0, 8.0), Coordinate(-1.0, 1.0))
EPSILON = Fraction(2)
PEOPLE = TEN_PEOPLE * 5
STARTS: dict[str, Any] = {"k": 2, "columns": PLACES, "starts": 1}
MODELS_OF_BOXES: dict[str, Clustering] = {
    "htree_kmeans, planned": HTreeKMeans(**STARTS, plan_from="previous"),
    "htree_kmeans, smoothed": HTreeKMeans(**STARTS, plan_from="previous", smooth="true"),
    "privtree_kmeans": PrivTreeKMeans(**STARTS),
    "eug_kmeans": EugKMeans(**STARTS, nominal_rows=120),
    "dpqt_kmeans": DpqtKMeans(**STARTS, nominal_rows=120),
}


def counted(ran: Run) -> CountedBoxes:
    return ran.released.synopsis.counted


def windows(model: Clustering, seed: int, many: int = 3) -> list[CountedBoxes]:
    """Boxes of windows, each planned from the one before, but for the first, where it can be."""
    matches: list[CountedBoxes] = []
    earlier: Tables | None = None
    for window in range(many + 1):
        noise = SeededNoise(1000 * seed + window)
        planned = earlier if model.plans_from_earlier else None
        ran = run(model, PEOPLE, epsilon=EPSILON, noise=noise, earlier=planned)
        earlier = ran.released.tables()
        matches += [counted(ran)] if window else []
    return matches


def rows_in(boxes: CountedBoxes) -> np.ndarray:
    """How many people are in each box, half-open but for the end of the declared box."""
    inside = np.ones((len(boxes.first), len(PEOPLE)), dtype=bool)
    for axis, whole in enumerate(BOX):
        place = np.array([person[axis] for person in PEOPLE])
        low, high = boxes.lower[:, [axis]], boxes.upper[:, [axis]]
        inside &= (place >= low) & ((place < high) | np.isclose(high, whole.upper))
    return np.asarray(inside.sum(axis=1))


@pytest.mark.chain
@pytest.mark.parametrize("name", MODELS_OF_BOXES)
def test_the_noise_of_a_sum_of_boxes_is_as_stated(name: str) -> None:
    """The mean of squares of 60 sums of three windows, of every common box and of all together, is
    within three standard errors of what is stated (seeded; a false alarm of 3 in 1,000 seeds).
    """
    errors, totals = [], []
    for seed in range(60):
        counts = windows(MODELS_OF_BOXES[name], seed)
        total = summed_boxes(counts)
        assert len(total.first) <= min(len(window.first) for window in counts)
        assert total.variances.sum() == pytest.approx(
            sum(window.variances.sum() for window in counts)
        )
        noise = total.counts - 3 * rows_in(total)
        errors.append(float(np.mean(noise**2 / total.variances)))
        totals.append(float(noise.sum() / total.variances.sum() ** 0.5))
    for stated, seen in ((1.0, errors), (1.0, np.square(totals)), (0.0, totals)):
        assert abs(np.mean(seen) - stated) < 3 * np.std(seen) / len(seen) ** 0.5


def boxes(depths: list[int], bits: list[int], counts: list[float], variance: float) -> CountedBoxes:
    tree = BitTree.over(PLACES, BOX)
    nodes = Prefixes(np.array(depths), np.array(bits))
    return CountedBoxes.of_tree(tree, nodes, BOX, np.array(counts), variance)


def test_boxes_that_one_window_cut_further_are_summed_first() -> None:
    """The first has cut the left half, the second the right one, given in another order."""
    first = boxes([2, 2, 1], [0, 1, 1], [5, -1, 7], 2.0)
    second = boxes([2, 1, 2], [3, 0, 2], [10, 3, 20], 0.5)
    total = summed_boxes([first, second])
    assert total.lower.tolist() == [[0, -1], [4, -1]]
    assert total.upper.tolist() == [[4, 1], [8, 1]]
    assert total.counts.tolist() == [5 - 1 + 3, 7 + 10 + 20]
    assert total.variances.tolist() == [2 + 2 + 0.5, 2 + 0.5 + 0.5]


def test_boxes_that_overlap_are_not_added_up() -> None:
    grids = [
        run(EugKMeans(k=2, columns=PLACES, nominal_rows=rows), PEOPLE, epsilon=EPSILON)
        for rows in (120, 20)
    ]
    sizes = [len(counted(grid).first) for grid in grids]
    assert sizes[0] > sizes[1] > 1
    assert summed_boxes([counted(grid) for grid in grids]) is None


def test_trees_that_counts_or_rows_decide_have_no_count_of_boxes() -> None:
    ran = run(HTreeKMeans(k=2, columns=PLACES, plan_from="previous"), PEOPLE, epsilon=EPSILON)
    assert ran.released.synopsis.counted is None
    model = DpqtKMeans(**STARTS, nominal_rows=120, variant="published")
    curator = curator_over(LoopCounter(PEOPLE), epsilon=EPSILON, benchmark=True)
    released = model.fit(curator, epsilon=EPSILON, rng=np.random.default_rng(1))
    assert released.synopsis.counted is None


def test_boxes_of_a_quadtree_are_those_of_a_halving_tree() -> None:
    """One box of each window, which grew as its noise had it, begins where a common one does."""
    counts = windows(MODELS_OF_BOXES["dpqt_kmeans"], seed=1)
    assert len({len(window.first) for window in counts}) > 1
    total = summed_boxes(counts)
    areas = np.prod(total.upper - total.lower, axis=1)
    assert areas.sum() == pytest.approx(8 * 2)
    for window in counts:
        inside = (window.lower[:, None] >= total.lower) & (window.upper[:, None] <= total.upper)
        assert (inside.all(axis=2).sum(axis=1) == 1).all()
