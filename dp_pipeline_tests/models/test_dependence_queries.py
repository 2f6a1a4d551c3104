"""The scores and pairs of one_shot: without what noise puts there, and as a plan foresees them."""

import tracemalloc
from fractions import Fraction
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.one_shot.plan import Plan
from dp_pipeline.models.tables.one_shot.scores import DependenceQueries, noisy_mean_dependence
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.tables import counter_of, dependent_rows, domain_of, every_delta

SIZES = (4, 7, 3, 12, 5)


def asking(codes, epsilon, *, seed=0, delta=None, sizes=SIZES, workload="") -> DependenceQueries:
    """After one-way marginals for a fifth of the amount."""
    domain, currency = domain_of(sizes), Currency(delta)
    accountant = Accountant(currency.amount_of(Fraction(epsilon)), currency)
    given = {"domain": domain, "accountant": accountant, "noise": SeededNoise(seed)}
    curator = curator_over(counter_of(domain, codes), **given)
    round_ = OneShot(workload=workload)._start(curator)
    stage = round_.measure_one_ways(round_.planning.amount / 5)
    return DependenceQueries(round_.planning, curator, stage, round_.zeros)


def without_noise(codes: np.ndarray, queries: DependenceQueries) -> dict[tuple[str, str], float]:
    """‖c − N̂p̂p̂ᵀ‖₁ of every pair over groups of levels."""
    dependence, shares = {}, queries.stage.shares
    for pair in queries.planning.pairs:
        first, second = (np.array(queries.stage.groupings[name].groups) for name in pair)
        shape = [len(shares[name]) for name in pair]
        places = (first[codes[:, int(pair[0][1:])]], second[codes[:, int(pair[1][1:])]])
        cells = np.ravel_multi_index(places, shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        expected = queries.stage.marginals.rows * np.outer(*(shares[name] for name in pair))
        dependence[pair] = float(np.abs(counts - expected).sum())
    return dependence


def every_combination(often: int) -> np.ndarray:
    """Rows as independent as can be, one level of x3 so many times as often as each other one."""
    codes = np.stack(np.meshgrid(*map(np.arange, SIZES)), axis=-1).reshape(-1, len(SIZES))
    return np.concatenate([codes] * 8 + [codes[codes[:, 3] == 0]] * 8 * (often - 1))


@pytest.mark.chain
@every_delta
@pytest.mark.parametrize(("often", "epsilon", "groups"), [(1, "0.1", 12), (90, "0.02", 5)])
def test_the_floor_of_a_score_is_foreseen(delta, often, epsilon, groups):
    # 40 times ten pairs: their mean is off by less than 4 % and a false alarm less likely than
    # 10⁻⁶; shares without negative ones have a little less noise than what was measured.
    codes, seen, foreseen, levels = every_combination(often), [], [], []
    for seed in range(40):
        queries = asking(codes, epsilon, seed=seed, delta=delta)
        seen.append(sum(without_noise(codes, queries).values()))
        foreseen.append(sum(map(queries._floor, queries.planning.pairs)))
        levels.append(queries.stage.groupings["x3"].size)
    assert np.mean(levels) == pytest.approx(groups, abs=1)
    assert np.mean(seen) == pytest.approx(np.mean(foreseen), rel=0.12)


@every_delta
@pytest.mark.parametrize("scored", ["all", "picked", "heaviest"])
def test_scores_are_about_what_they_are_without_noise(scored: str, delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    queries = asking(codes, "400", delta=delta, workload="x1 3")
    plan = Plan(scores=Fraction(1, 10), scored=scored)
    means, true = queries.measure(plan, np.ones(3)), without_noise(codes, queries)
    scores = {pair: mean for pair, (mean, _) in means.items()}
    assert list(scores) == queries.planning.pairs
    measured = {
        "all": set(scores),
        "picked": {pair for pair in scores if scores[pair] != min(scores.values())},
        "heaviest": {pair for pair in scores if "x1" in pair},
    }[scored]
    assert len(measured) == {"all": 10, "picked": 4, "heaviest": 4}[scored]
    for pair in measured:
        assert [scores[pair], means[pair][1] ** 0.5] == pytest.approx([true[pair]] * 2, abs=300)
    others, least = set(scores) - measured, min(queries.planning.means)
    assert len({scores[pair] for pair in others}) <= 1
    # None is known to be independent, even if the measured ones use up the mean of all.
    assert all(means[pair][1] ** 0.5 > least for pair in others)


def test_picked_pairs_are_the_strongest_without_a_circle() -> None:
    codes = dependent_rows(SIZES, 30_000)
    queries = asking(codes, "4000")
    true, forest = without_noise(codes, queries), nx.Graph()
    for pair in queries._pick_pairs(Plan(scores=Fraction(1, 2), scored="picked")):
        joined = list(nx.connected_components(forest))
        free = [other for other in true if not any({*other} <= part for part in joined)]
        assert true[pair] > max(true[other] for other in free) - 2000
        forest.add_edge(*pair)
    assert nx.is_forest(forest)


@every_delta
def test_the_mean_dependence_is_about_that_of_all_pairs(delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    queries = asking(codes, "40", delta=delta)
    true = float(np.mean(list(without_noise(codes, queries).values())))
    noisy = noisy_mean_dependence(queries.planning, queries.curator)
    assert noisy == pytest.approx(true, rel=0.1)


@every_delta
def test_tables_that_one_way_marginals_pay_for_are_left_out(delta: Fraction | None) -> None:
    # Independent rows at a small ε: the error of all pairs is least without any table.
    codes = np.random.default_rng(2).integers(0, SIZES, (4000, len(SIZES)))
    queries = asking(codes, "0.2", delta=delta)
    round_, pairs = OneShot()._start(queries.curator), queries.planning.pairs
    two = [("x0", "x1"), ("x3", "x4")]
    for score, tables in ((1.0, ()), (3900.0, tuple(two))):
        scores = dict.fromkeys(pairs, 0.0) | dict.fromkeys(two, score)
        assert round_.build_search(queries.stage, scores).run() == tables


SURVEY = (8, 6, 10, 5, 9, 2, 7, 4, 12, 3, 6)
PURE = NoiseRate(concentrated=False, distance=1)


def tied_rows(domain: Domain, rows: int, tie: float) -> MemoryCounter:
    """Rows of five hidden kinds, to which attributes are tied more or less."""
    rng, codes = np.random.default_rng(1), {}
    kinds = rng.integers(0, 5, rows)
    for name in domain.names:
        size = domain[name].size
        chances = 1 / np.arange(1, size + 1)
        free = rng.choice(size, rows, p=chances / chances.sum())
        is_tied = rng.random(rows) < tie * rng.uniform(0.2, 1.8)
        tied = rng.permutation(size)[kinds % size]
        codes[name] = np.where(is_tied, tied, free).astype(np.int32)
    return MemoryCounter(domain, coordinates={}, codes=codes, rows=rows)


def measured_pairs(domain: Domain, counter: MemoryCounter, epsilon: Fraction, seed: int) -> int:
    noise = SeededNoise(seed)
    curator = curator_over(counter, epsilon=epsilon, domain=domain, noise=noise)
    table = OneShot(synthetic_rows=10).fit(
        curator, epsilon=epsilon, rng=np.random.default_rng(seed)
    )
    tables = (sorted(marginal.attributes) for marginal in table.measured)
    return len({pair for names in tables for pair in combinations(names, 2)})


@pytest.mark.chain
@pytest.mark.parametrize(
    ("sizes", "rows", "tie", "epsilon"),
    [
        (SURVEY, 5000, 0.5, "0.05"),
        (SURVEY, 20_000, 0.3, "0.2"),
        (SURVEY, 20_000, 0.3, "1"),
        ((20,) * 8, 20_000, 0.4, "0.05"),
        ((20,) * 8, 20_000, 0.4, "1"),
        ((30,) * 12, 2000, 0.5, "1"),
        ((2, 3, 4, 5, 6, 7), 1000, 0.3, "0.05"),
        ((176, 80), 5000, 0.5, "1"),
    ],
)
def test_number_of_measured_pairs_was_foreseen_within_two(sizes, rows, tie, epsilon: str):
    """By any dependence between none and a strong one."""
    domain, amount = domain_of(sizes), Fraction(epsilon)
    foreseen = OneShot().expected_pairs(domain, rows, amount, PURE)
    assert foreseen.total == len(sizes) * (len(sizes) - 1) // 2
    counter = tied_rows(domain, rows, tie)
    for seed in range(3):
        measured = measured_pairs(domain, counter, amount, seed)
        assert foreseen.measured[0] - 2 <= measured <= foreseen.measured[-1] + 2


def test_a_forecast_of_many_attributes_takes_little_memory():
    tracemalloc.start()
    foreseen = OneShot().expected_pairs(domain_of((5,) * 60), 9822, Fraction(2), PURE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert foreseen.measured[0] < foreseen.measured[1] <= foreseen.measured[-1]
    assert peak < 200e6, "1,770 pairs tried at once take 3 GB"


def test_more_amount_or_rows_never_foresee_a_larger_error():
    errors = [
        OneShot().expected_pairs(domain_of(SURVEY), rows, amount, PURE).error
        for rows, amount in ((500, Fraction(1, 5)), (5000, Fraction(1, 5)), (5000, Fraction(2)))
    ]
    assert errors == sorted(errors, reverse=True)


def test_model_that_measures_no_pair_foresees_none():
    assert Independent().expected_pairs(domain_of(SURVEY), 100, Fraction(1), PURE) is None
