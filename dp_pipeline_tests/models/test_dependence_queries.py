"""What one_shot takes for a score: without what the noise of one-way marginals puts there."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from dp_pipeline.config.amounts import Currency
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.one_shot.plan import Plan
from dp_pipeline.models.tables.one_shot.scores import DependenceQueries, noisy_mean_dependence
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.discrete import counter_of, dependent_rows, domain_of, every_delta

SIZES = (4, 7, 3, 12, 5)


def asking(codes, epsilon, *, seed=0, delta=None, sizes=SIZES, workload="") -> DependenceQueries:
    """After one-way marginals for a fifth of the amount."""
    domain, currency = domain_of(sizes), Currency(delta)
    curator = curator_over(
        counter_of(domain, codes),
        domain=domain,
        epsilon=currency.amount_of(Fraction(epsilon)),
        currency=currency,
        noise=SeededNoise(seed),
    )
    round_ = OneShot(workload=workload)._start(curator)
    stage = round_.one_way_stage(round_.planning.amount / 5)
    return DependenceQueries(round_.planning, curator, stage, round_.zeros)


def without_noise(codes: np.ndarray, asked: DependenceQueries) -> dict[tuple[str, str], float]:
    """‖c − N̂p̂p̂ᵀ‖₁ of every pair over groups of levels."""
    found, shares = {}, asked.stage.shares
    for pair in asked.planning.pairs:
        one, other = (np.array(asked.stage.groupings[name].groups) for name in pair)
        shape = [len(shares[name]) for name in pair]
        places = (one[codes[:, int(pair[0][1:])]], other[codes[:, int(pair[1][1:])]])
        cells = np.ravel_multi_index(places, shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        expected = asked.stage.marginals.rows * np.outer(*(shares[name] for name in pair))
        found[pair] = float(np.abs(counts - expected).sum())
    return found


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
        asked = asking(codes, epsilon, seed=seed, delta=delta)
        seen.append(sum(without_noise(codes, asked).values()))
        foreseen.append(sum(map(asked._floor, asked.planning.pairs)))
        levels.append(asked.stage.groupings["x3"].size)
    assert np.mean(levels) == pytest.approx(groups, abs=1)
    assert np.mean(seen) == pytest.approx(np.mean(foreseen), rel=0.12)


@every_delta
@pytest.mark.parametrize("scored", ["all", "picked", "heaviest"])
def test_scores_are_about_what_they_are_without_noise(scored: str, delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "400", delta=delta, workload="x1 3")
    plan = Plan(scores=Fraction(1, 10), scored=scored)
    means, true = asked.measure(plan, np.ones(3)), without_noise(codes, asked)
    scores = {pair: mean for pair, (mean, _) in means.items()}
    assert list(scores) == asked.planning.pairs
    measured = {
        "all": set(scores),
        "picked": {pair for pair in scores if scores[pair] != min(scores.values())},
        "heaviest": {pair for pair in scores if "x1" in pair},
    }[scored]
    assert len(measured) == {"all": 10, "picked": 4, "heaviest": 4}[scored]
    for pair in measured:
        assert [scores[pair], means[pair][1] ** 0.5] == pytest.approx([true[pair]] * 2, abs=300)
    others, least = set(scores) - measured, min(asked.planning.means)
    assert len({scores[pair] for pair in others}) <= 1
    # None is known to be independent, even if the measured ones use up the mean of all.
    assert all(means[pair][1] ** 0.5 > least for pair in others)


def test_picked_pairs_are_the_strongest_without_a_circle() -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "4000")
    true, forest = without_noise(codes, asked), nx.Graph()
    for pair in asked._picked(Plan(scores=Fraction(1, 2), scored="picked")):
        free = [
            p
            for p in true
            if not (forest.has_node(p[0]) and forest.has_node(p[1]) and nx.has_path(forest, *p))
        ]
        assert true[pair] > max(true[other] for other in free) - 2000
        forest.add_edge(*pair)
    assert nx.is_forest(forest)


@every_delta
def test_the_mean_dependence_is_about_that_of_all_pairs(delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "40", delta=delta)
    true = float(np.mean(list(without_noise(codes, asked).values())))
    noisy = noisy_mean_dependence(asked.planning, asked.curator)
    assert noisy == pytest.approx(true, rel=0.1)


@every_delta
def test_tables_that_one_way_marginals_pay_for_are_left_out(delta: Fraction | None) -> None:
    # Independent rows at a small ε: the error of all pairs is least without any table.
    codes = np.random.default_rng(2).integers(0, SIZES, (4000, len(SIZES)))
    asked = asking(codes, "0.2", delta=delta)
    round_, pairs = OneShot()._start(asked.curator), asked.planning.pairs
    two = [("x0", "x1"), ("x3", "x4")]
    for score, tables in ((1.0, ()), (3900.0, tuple(two))):
        scores = dict.fromkeys(pairs, 0.0) | dict.fromkeys(two, score)
        assert round_.growth(asked.stage, scores).run() == tables
