"""The shape of a tree costs one ε however deep it goes: over all paths of counts, and in code."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.noise import MAX_SCALE, SeededNoise, float_at_least
from dp_pipeline.gate.trees import SplitSession, decay, split_scale
from dp_pipeline.results.accountant import biased_splits_name
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.gate.distributions import ALARM, log_probability_of_splits
from dp_pipeline_tests.gate.questions import people
from dp_pipeline_tests.instruments import RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter

ONE = Fraction(1)
ROOT = Prefixes.root()
TREE = BitTree(("x", "y"), (0, 1) * 10)
FANS = [2, 4, 8, 16]
ROUNDING = 1e-9
"""Of the sums of logarithms."""
every_fan = pytest.mark.parametrize("fan", FANS)


def tail(m: NDArray[np.int64], q: float) -> NDArray[np.float64]:
    """P(X ≥ m) of the discrete Laplace."""
    return np.where(m >= 1, q ** np.maximum(m, 1), 1 + q - q ** np.maximum(1 - m, 1)) / (1 + q)


def worst_path(*, fan: int, epsilon: Fraction, levels: int = 6) -> float:
    """The largest gain in log-probability, by one more row, of a path of split boxes: by recursion
    from below over every path of counts that do not rise. It raises b where c − tδ ≥ −δ.
    """
    scale = split_scale(fan=fan, distance=1, epsilon=epsilon)
    delta, q = decay(fan=fan, scale=scale), math.exp(-1 / scale)
    counts = np.arange((levels - 1) * delta + 3)
    worst = np.zeros(counts.size)
    for level in reversed(range(levels)):
        biased = counts - level * delta
        gain = np.log(tail(-biased, q) / tail(1 - biased, q))
        worst = np.maximum.accumulate(worst + np.where(biased >= -delta, gain, 0))
    return float(worst[-1])


@every_fan
@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 2), Fraction(10)], ids=str)
def test_no_path_of_counts_costs_more_than_epsilon(fan: int, epsilon: Fraction) -> None:
    worst = worst_path(fan=fan, epsilon=epsilon)
    assert worst <= epsilon * (1 + ROUNDING)
    assert worst > epsilon * 6 / 7 or epsilon != Fraction(1, 50)


@every_fan
@pytest.mark.parametrize(
    "scale",
    [Fraction(1, 10**400), Fraction(1, 10**20), Fraction(1, 7), ONE, Fraction(7, 3)]
    + [Fraction(10) ** power for power in range(1, 17)]
    + [Fraction(MAX_SCALE)],
    ids=lambda scale: f"{float(scale):.2g}",
)
def test_the_decay_is_large_enough_at_every_magnitude(fan: int, scale: Fraction) -> None:
    # ln 2 lies between these two: δ/λ ≥ log2(β)·ln 2, and δ is not a millionth above it.
    below, above = Fraction(693147180559945309, 10**18), Fraction(693147180559945310, 10**18)
    exponent = fan.bit_length() - 1
    delta = decay(fan=fan, scale=scale)
    # Also for the float, not below the scale, that OpenDP is handed.
    drawn = max(scale, Fraction(float_at_least(scale)))
    assert delta >= max(1, exponent * above * drawn)
    assert delta <= exponent * below * scale * Fraction(1000001, 1000000) + 1


@settings(max_examples=40)
@given(
    fan=st.sampled_from(FANS),
    distance=st.integers(1, 10**6),
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
)
def test_the_scale_is_what_the_accountant_asks_for(fan, distance, epsilon):
    curator = curator_over(NOBODY, epsilon=epsilon, distance=distance)
    curator.open_splits(TREE, bits=fan.bit_length() - 1, epsilon=epsilon)
    (spend,) = curator.accountant.spends
    assert (spend.mechanism, spend.sensitivity) == (biased_splits_name(fan), distance)
    assert spend.scale == split_scale(fan=fan, distance=distance, epsilon=epsilon)
    assert Fraction(2 * fan - 1, fan - 1) * distance / spend.scale == epsilon
    curator.accountant.require_all_spent()


def test_deep_boxes_at_the_largest_scale_stay_int64() -> None:
    deepest = 40 * decay(fan=2, scale=Fraction(MAX_SCALE))
    assert deepest + decay(fan=2, scale=Fraction(MAX_SCALE)) < 1 << 62


@dataclass
class Forced:
    """Bits that no rows decide: a box is split as often as ``often`` by a seeded draw."""

    seed: int
    often: float = 1.0
    name: str = "forced"
    is_releasable: bool = False

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return (self._rng.random(counts.shape) < self.often).astype(np.int64)


@dataclass(frozen=True)
class OnePlace:
    """So many rows, all in the first of the finest boxes."""

    rows: int
    domain: Domain = TOWN

    def children(self, _: BitTree, questions: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        return [self._boxes(nodes) for nodes, _ in questions]

    def _boxes(self, nodes: Prefixes) -> Sealed:
        return Sealed(np.where(nodes.bits == 0, self.rows, 0)[:, None])


def grown(session: SplitSession, *, bits: int, tree: BitTree = TREE) -> list[bool]:
    """Every bit of a tree that is split as far as it goes; one path only where all are split."""
    answers: list[bool] = []
    live = ROOT
    while len(live):
        split = session.decide_splits(live)
        answers += split.tolist()
        below = live.where(split & (live.depths + bits <= tree.depth)).children(bits)
        live = below.where(below.bits < 1 << bits)
    return answers


def log_likelihood(rows, *, bits, distance, epsilon, noise) -> tuple[list[bool], float]:
    """Forced bits, and the log-probability with which the rows would have given them."""
    recorder = RecordingNoise(noise)
    curator = curator_over(rows, epsilon=epsilon, distance=distance, noise=recorder)
    answers = grown(curator.open_splits(TREE, bits=bits, epsilon=epsilon), bits=bits)
    biased = np.concatenate([draw.exact for draw in recorder.draws])
    return answers, log_probability_of_splits(biased, answers, recorder.draws[0].scale)


def lost(here, there, *, bits, distance, epsilon, **forced) -> float:
    """How much the log-probability of the same bits differs, as a part of ε."""
    loss = [
        log_likelihood(rows, bits=bits, distance=distance, epsilon=epsilon, noise=Forced(**forced))
        for rows in (here, there)
    ]
    assert loss[0][0] == loss[1][0]
    return abs(loss[0][1] - loss[1][1]) / float(epsilon)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 2), Fraction(10)], ids=str)
def test_joining_a_crowd_in_one_place_costs_at_most_epsilon(bits, distance, epsilon):
    delta = decay(
        fan=1 << bits, scale=split_scale(fan=1 << bits, distance=distance, epsilon=epsilon)
    )
    for crowd in {0, 1, delta - 1, delta, 2 * delta, 3 * delta, 3 * delta + 1, 7 * delta}:
        how = {"bits": bits, "distance": distance, "epsilon": epsilon, "seed": 1}
        assert lost(OnePlace(crowd), OnePlace(crowd + distance), **how) <= 1 + ROUNDING


def test_nearly_all_of_epsilon_is_used_by_the_worst_crowd() -> None:
    """Of the crowds whose boxes have b = …, δ, 0, −δ, as the session counts."""
    how = {"bits": 2, "distance": 1, "epsilon": Fraction(1, 50), "seed": 1}
    delta = decay(fan=4, scale=split_scale(fan=4, distance=1, epsilon=how["epsilon"]))
    crowds = range(0, 10 * delta + 1, delta)
    worst = max(lost(OnePlace(crowd), OnePlace(crowd + 1), **how) for crowd in crowds)
    assert 6 / 7 < worst <= 1 + ROUNDING


@settings(max_examples=30)
@given(
    rows=people,
    person=people.filter(bool),
    bits=st.sampled_from([1, 2, 4]),
    epsilon=st.sampled_from([Fraction(1, 5), ONE, Fraction(20)]),
    often=st.sampled_from([0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_along_any_bits_one_person_loses_no_more_than_epsilon(rows, person, **how):
    loss = lost(rows, rows + person, distance=len(person), **how)
    assert loss <= 1 + ROUNDING


@dataclass(frozen=True)
class Everywhere(OnePlace):
    """So many rows in every box that is asked for."""

    def _boxes(self, nodes: Prefixes) -> Sealed:
        return Sealed(np.full((len(nodes), 1), self.rows))


@pytest.mark.parametrize("biased", [-4, 0, 1, 4])
def test_a_box_is_split_with_the_chance_of_its_tail(biased: int) -> None:
    # 4 binomial tests on seeded noise, each alarming falsely at a rate of 1e-8.
    counter = Everywhere(biased + 6 * 4)
    curator = curator_over(counter, epsilon=ONE, noise=SeededNoise(11))
    session = curator.open_splits(TREE, bits=2, epsilon=ONE)
    deep = ROOT.children(12)
    session._allowed = deep.keys
    chance = float(tail(np.array(1 - biased), math.exp(-3 / 7)))
    hits = int(session.decide_splits(deep).sum())
    assert stats.binomtest(hits, len(deep), chance).pvalue > ALARM


def test_biased_counts_are_those_of_a_loop_less_their_decay() -> None:
    noise = RecordingNoise(Forced(1))
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, noise=noise)
    session = curator.open_splits(TREE, bits=2, epsilon=ONE)
    live = ROOT
    for level in range(4):
        session.decide_splits(live)
        exact = LoopCounter(TEN_PEOPLE).children(TREE, [(live, 0)])[0].open_at_the_gate()[:, 0]
        expected = [max(-4, count - 4 * level) for count in exact.tolist()]
        assert noise.draws[-1].exact.tolist() == expected
        assert noise.draws[-1].scale == Fraction(7, 3)
        live = live.children(2)


def test_only_bits_are_stored() -> None:
    transcript = Transcript()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=transcript)
    grown(curator.open_splits(TREE, bits=1, epsilon=ONE), bits=1)
    assert all(set(record.answer.tolist()) <= {0, 1} for record in transcript.records)


QUARTERS = ROOT.children(2)


def opened() -> SplitSession:
    """A session of quarters whose root was split, and its second quarter not."""
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, noise=Given([[1], [0]]))
    session = curator.open_splits(TREE, bits=2, epsilon=ONE)
    session.decide_splits(ROOT)
    session.decide_splits(QUARTERS.where(np.array([1])))
    return session


@dataclass
class Given:
    """These bits, then a failure."""

    bits: list[Sequence[int]]
    name: str = "given"
    is_releasable: bool = False

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return np.array(self.bits.pop(0)).reshape(counts.shape)


REFUSED: dict[str, Prefixes] = {
    "the root again": ROOT,
    "a quarter again": QUARTERS.where(np.array([0, 1])),
    "one quarter twice": QUARTERS.where(np.array([0, 0])),
    "a child of what was not asked": QUARTERS.where(np.array([0])).children(2),
    "a child of what was not split": QUARTERS.where(np.array([1])).children(2),
    "boxes in 32 bits": Prefixes(np.array([2], np.int32), np.array([0], np.int32)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unproven_splits_are_refused_before_any_count(name: str) -> None:
    with pytest.raises(BoundaryViolation) as refused:
        opened().decide_splits(REFUSED[name])
    assert len(str(refused.value).splitlines()) == 1


def test_a_box_at_the_end_of_a_tree_has_no_children() -> None:
    tree = BitTree(("x",), (0, 0, 0))
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, noise=Forced(1))
    session = curator.open_splits(tree, bits=2, epsilon=ONE)
    session.decide_splits(ROOT)
    assert session.decide_splits(QUARTERS).all()
    with pytest.raises(BoundaryViolation):
        session.decide_splits(QUARTERS.children(1))
