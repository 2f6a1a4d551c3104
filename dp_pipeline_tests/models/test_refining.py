"""Releases that build on others: refined, beside public rows, and boxes of windows added up."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, ModelFit, guarantee_of
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.clustering.privtree_kmeans import PrivTreeKMeans
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.results.accountant import LINF, NOISY_MAX
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes, summed_boxes
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import LargeAnswers, Run, privacy_loss, run
from dp_pipeline_tests.models.tables import (
    DELTA,
    counter_of,
    dependent_rows,
    domain_of,
    every_delta,
)
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter

TABLES: dict[str, tuple[Model, Domain]] = {
    "independent": (Independent(), TOWN),
    "independent, equal": (Independent(shares="equal"), TOWN),
    "priview": (PriView(), TOWN),
    "one_shot, one clique": (OneShot(), TOWN),
    "one_shot, packed": (OneShot(clique_cells=16), TOWN),
    "one_shot, groups": (OneShot(clique_cells=1 << 10), domain_of((4,) * 8)),
    "one_shot, missing values": (OneShot(), domain_of((4,) * 8, nullable=True)),
}
every_model = pytest.mark.parametrize("name", TABLES)
FIRST, SECOND, THIRD = Fraction(1, 2), Fraction(1), Fraction(2)


def rows_of(name: str, *, without: int = 0) -> Any:
    """The rows of its table, but for the last some."""
    domain = TABLES[name][1]
    if domain is TOWN:
        return LoopCounter(TEN_PEOPLE[: len(TEN_PEOPLE) - without], domain)
    rows = dependent_rows((4,) * 8, 20_000)
    return counter_of(domain, rows[: len(rows) - without])


def fitted(model, counter, domain, epsilon, noise, *, delta=None, **options):
    recorder, guarantee = RecordingNoise(noise), guarantee_of(model, epsilon, delta, domain=domain)
    spec = DatasetSpec.of_domain("rows", domain, purpose="release")
    fit, rng = ModelFit(spec, model, guarantee, **options), np.random.default_rng(7)
    done = fit.fit_model(counter, Transcript(), recorder, epsilon=epsilon, rng=rng)
    return Run(done.released, tuple(recorder.draws), done.spends, guarantee.currency), done


def in_steps(name, counter, noise, *, levels=(FIRST, SECOND), delta=None, model=None) -> list[Run]:
    """A release at the first level, refined to each that follows."""
    model, domain = model or TABLES[name][0], TABLES[name][1]
    coarse, runs, how = None, list[Run](), {"delta": delta}
    for epsilon, source in zip(levels, noise, strict=True):
        run, coarse = fitted(model, counter, domain, epsilon, source, refines=coarse, **how)
        runs.append(run)
    return runs


def measured(one: Run) -> dict[tuple[str, ...], Any]:
    return {table.attributes: table for table in one.released.measured}


def test_every_model_that_refines_is_tested() -> None:
    assert {type(model) for model, _ in TABLES.values()} == {
        model for model in MODELS.values() if model.refines
    }


@pytest.mark.chain
@every_model
@every_delta
def test_all_steps_together_cost_what_the_last_one_costs_alone(name, delta):
    noise = [SeededNoise(seed) for seed in range(3)]
    levels = (FIRST, SECOND, THIRD)
    runs = in_steps(name, rows_of(name), noise, levels=levels, delta=delta)
    model, domain = TABLES[name]
    guarantee = guarantee_of(model, THIRD, delta, domain=domain)
    assert sum(spend.epsilon for run in runs for spend in run.spends) == guarantee.amount


def losses(name: str, noise: Callable[[], list[NoiseSource]]) -> list[Any]:
    """What the last person loses in each of two steps."""
    pairs = zip(*(in_steps(name, rows_of(name, without=k), noise()) for k in (0, 1)), strict=True)
    return [privacy_loss(*pair) for pair in pairs]


@every_model
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_person_loses_no_more_than_the_second_costs(name: str, seed: int) -> None:
    """Exact, along any answers: what refinement adds is read off its two scales."""
    assert sum(losses(name, lambda: [ForcedNoise(seed), ForcedNoise(seed + 9)])) <= SECOND


@pytest.mark.parametrize("name", ["independent", "priview"])
def test_a_person_uses_all_of_it(name: str) -> None:
    assert losses(name, lambda: [LargeAnswers(), LargeAnswers()]) == [FIRST, SECOND - FIRST]


@pytest.mark.parametrize("name", ["independent", "independent, equal", "priview"])
def test_the_second_has_the_noise_of_its_epsilon(name: str) -> None:
    *_, refined = in_steps(name, rows_of(name), [SeededNoise(1), SeededNoise(2)])
    (alone,) = in_steps(name, rows_of(name), [SeededNoise(3)], levels=[SECOND])
    scales = [{n: table.scale for n, table in measured(run).items()} for run in (refined, alone)]
    assert scales[0] == scales[1]


@every_delta
@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("one_shot")])
def test_one_shot_measures_the_same_tables_with_less_noise(name, delta):
    first, second = in_steps(name, rows_of(name), [SeededNoise(1), SeededNoise(2)], delta=delta)
    before, after = measured(first), measured(second)
    assert list(before) == list(after)
    assert all(after[name].variance < before[name].variance / 1.9 for name in before)
    assert not {NOISY_MAX, LINF} & {spend.mechanism for spend in second.spends}
    assert dict(first.released.groupings) == dict(second.released.groupings)


@pytest.mark.chain
def test_rounds_that_end_with_the_amount_are_not_refined() -> None:
    rounds = OneShot(quality="best_plus", clique_cells=1 << 10)
    noise, name = [SeededNoise(1), SeededNoise(2)], "one_shot, groups"
    with pytest.raises(DeclarationError, match="OneShot refines releases of quality `best`, not"):
        in_steps(name, rows_of(name), noise, delta=DELTA, model=rounds)


SIZES = (4,) * 8
DOMAIN = domain_of(SIZES)
NAMES = DOMAIN.names
MODEL = OneShot(clique_cells=1 << 10, prior="others")


def public(rows: np.ndarray) -> PublicTable:
    columns = dict(zip(NAMES, rows.T, strict=True))
    return PublicTable(columns, dict.fromkeys(NAMES, 4))


def fit_with_public(rows, others, *, epsilon="1", noise=None, delta=None) -> Run:
    counter, source = counter_of(DOMAIN, rows), noise or SeededNoise(3)
    how = {"delta": delta, "public": others}
    return fitted(MODEL, counter, DOMAIN, Fraction(epsilon), source, **how)[0]


def distance(rows: np.ndarray, run: Run) -> float:
    codes, distances = run.released.codes, []
    for i, j in combinations(range(len(SIZES)), 2):
        shares = [
            np.bincount(table[:, i] * 4 + table[:, j], minlength=16) / max(1, len(table))
            for table in (rows, codes)
        ]
        distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(distances))


OURS, OTHERS = dependent_rows(SIZES, 1_000, seed=1), dependent_rows(SIZES, 20_000, seed=2)


@every_delta
def test_all_is_spent_on_marginals_and_nothing_on_finding_tables(delta: Fraction | None) -> None:
    run = fit_with_public(OURS, public(OTHERS), delta=delta)
    words = [spend.what for spend in run.spends]
    assert all(what.startswith(("marginal", "number of rows")) for what in words)
    assert not {NOISY_MAX, LINF} & {spend.mechanism for spend in run.spends}
    measured = {", ".join(table.attributes) for table in run.released.measured if table.attributes}
    requested = {
        word.split(" of ")[1].removesuffix(", refined") for word in words if "margi" in word
    }
    assert measured == requested, "public tables are not said to be measured"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_beside_public_rows_a_person_loses_at_most_epsilon(seed: int) -> None:
    """Exact, along any answers: what public rows decide is the same without her."""
    runs = [
        fit_with_public(rows, public(OTHERS), noise=ForcedNoise(seed)) for rows in (OURS, OURS[1:])
    ]
    assert privacy_loss(*runs) <= 1


@pytest.mark.chain
def test_few_rows_are_known_better_beside_public_ones() -> None:
    """Seeded: .24 in place of .41 at ε = 0.2."""
    distances = [
        [
            distance(OURS, fit_with_public(OURS, rows, epsilon="0.2", noise=SeededNoise(seed)))
            for seed in range(4)
        ]
        for rows in (None, public(OTHERS))
    ]
    assert sum(distances[1]) < 0.7 * sum(distances[0])


def test_public_rows_of_other_persons_are_not_believed() -> None:
    """Of many rows: the tables of the others are measured, and what was noisy is kept."""
    ours, others = dependent_rows(SIZES, 30_000, seed=1), OTHERS.copy()
    others[:, 0] = 3 - others[:, 0]
    others[:, 4] = np.where(others[:, 4] == 0, 0, 3 - others[:, 4])
    alone, together = (
        distance(ours, fit_with_public(ours, public_rows)) for public_rows in (None, public(others))
    )
    assert together < 2 * alone


def test_shares_are_positive_and_have_the_margins_asked_for() -> None:
    table = public(OTHERS)
    pair = table.shares(("x0", "x1"))
    assert pair.shape == (4, 4)
    assert pair.min() > 0
    margins = {"x0": np.array([0.1, 0.2, 0.3, 0.4]), "x1": np.full(4, 0.25)}
    moved = table.shares_with_margins(("x0", "x1"), margins)
    assert moved.sum(axis=1) == pytest.approx(margins["x0"], abs=1e-3)
    assert moved.sum(axis=0) == pytest.approx(margins["x1"], abs=1e-3)
    odds = [cells[0, 0] * cells[1, 1] / (cells[0, 1] * cells[1, 0]) for cells in (pair, moved)]
    assert odds[0] == pytest.approx(odds[1])


@pytest.mark.parametrize("other", [{"plan_from": "previous"}, {"quality": "best_plus"}])
def test_tables_are_chosen_by_one_thing(other: dict[str, str]) -> None:
    with pytest.raises(DeclarationError, match="OneShot chooses tables by the public rows of"):
        OneShot(prior="others", **other).check(DOMAIN)  # type: ignore[arg-type]


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
