"""Published variants are what they say: without any ε, or with the one that their parts add up to.

That no ε holds is shown exactly, not by sampling: an event that one person switches from
probability 0 to a positive one. Forced answers are possible answers of the mechanisms on every
population, so what happens on them happens with positive probability.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, PrivacyGuarantee, guarantee_of
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans, node_around
from dp_pipeline.models.clustering.lloyd_kmeans import DpKMeans, IdpKMeans
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Constant
from dp_pipeline_tests.populations import AWKWARD, NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

pytestmark = pytest.mark.chain

ONE = Fraction(1)
IN_A_CORNER: tuple[Row, ...] = TEN_PEOPLE[:4]
"""All in the lowest quarter of x and the lowest of y."""

FAR_AWAY: Row = (7.9, 0.9, "red", "no")
PUBLISHED: dict[str, Model] = {
    "dpqt_kmeans": DpqtKMeans(k=3, starts=2, nominal_rows=1000, variant="published"),
    "dpqt_kmeans, rows paid": DpqtKMeans(k=3, starts=2, variant="published"),
    "dp_kmeans": DpKMeans(k=3, variant="published"),
}
"""Without any ε."""


def fitted(model, rows, *, noise=None, transcript=None) -> Clusters:
    """One release at ε = 1, after which everything that was claimed is spent."""
    budget = guarantee_of(model, ONE).epsilon
    curator = curator_over(rows, epsilon=budget, noise=noise, transcript=transcript, benchmark=True)
    released = model.fit(curator, epsilon=ONE, rng=np.random.default_rng(7))
    curator.accountant.require_all_spent()
    assert curator.accountant.kind == guarantee_of(model, ONE).kind
    return released


def covered(clusters: Clusters) -> tuple[list[float], list[float]]:
    lower, upper = clusters.synopsis.lower, clusters.synopsis.upper
    return lower.min(axis=0).tolist(), upper.max(axis=0).tolist()


def places(rows: Sequence[Row]) -> set[tuple[float, ...]]:
    """Where people are, as the declared box writes it."""
    box = TOWN.box(("x", "y"))
    return {
        tuple(float(side.decode(np.array(q))) for side, q in zip(box, place, strict=True))
        for place in LoopCounter(rows).places(("x", "y"))
    }


def test_every_default_claims_the_epsilon_that_is_asked() -> None:
    for model_type in MODELS.values():
        assert guarantee_of(model_type(), Fraction(1, 3)) == PrivacyGuarantee("dp", Fraction(1, 3))


def test_a_claim_of_no_epsilon_has_a_reason() -> None:
    with pytest.raises(BoundaryViolation, match="A guarantee that is not private must say why"):
        PrivacyGuarantee("not-dp", ONE)


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_a_method_that_reads_rows_exactly_claims_no_epsilon(model: Model) -> None:
    claim = guarantee_of(model, ONE)
    assert (claim.kind, claim.composed, claim.is_plain) == ("not-dp", "none", False)
    assert claim.label_state("new") == "new, not-dp"


@pytest.mark.parametrize("people", AWKWARD)
@pytest.mark.parametrize("model", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_noisy_answers_spend_epsilon_and_centres_are_valid(model: Model, people: str) -> None:
    clusters = fitted(model, AWKWARD[people])
    assert clusters.centres.shape == (3, 2)
    assert np.isfinite(clusters.centres).all()
    assert (clusters.centres >= [0, -1]).all()
    assert (clusters.centres <= [8, 1]).all()


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_it_is_replayed_from_its_transcript_without_rows(model: Model) -> None:
    transcript = Transcript()
    first = fitted(model, TEN_PEOPLE, transcript=transcript)
    replay = fitted(model, None, transcript=transcript.rewind())
    assert np.array_equal(replay.centres, first.centres)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_one_person_switches_the_released_boxes(seed: int) -> None:
    model = PUBLISHED["dpqt_kmeans"]
    without, with_one = (
        covered(fitted(model, rows, noise=ForcedNoise(seed)))
        for rows in (IN_A_CORNER, (*IN_A_CORNER, FAR_AWAY))
    )
    # “The boxes cover everything”: probability 0 without the person, and 1 with them.
    assert without == ([0.0, -1.0], [2.0, -0.5])
    assert with_one == ([0.0, -1.0], [8.0, 1.0])


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_a_centre_of_no_noisy_size_is_a_record_whatever_is_drawn(seed: int) -> None:
    model = DpKMeans(k=5, rounds=1, variant="published")
    people = (*IN_A_CORNER, FAR_AWAY)
    clusters = fitted(model, people, noise=ForcedNoise(seed, most=6))
    stayed = clusters.centres[clusters.sizes < 1]
    assert {tuple(centre) for centre in stayed.tolist()} <= places(people)


def test_one_person_may_be_released_to_the_last_digit() -> None:
    # “A centre whose size is below 1 lies at this place”: by the test above only where
    # somebody is there, so probability 0 without the person …
    model = DpKMeans(k=5, rounds=1, variant="published")
    (person,) = places((FAR_AWAY,))
    assert person not in places(IN_A_CORNER)
    assert person not in {tuple(centre) for centre in fitted(model, IN_A_CORNER).centres.tolist()}
    # … and with the person at least that of drawing zeros.
    clusters = fitted(model, (*IN_A_CORNER, FAR_AWAY), noise=Constant(0))
    assert person in {tuple(centre) for centre in clusters.centres.tolist()}


@pytest.mark.parametrize("rounds", [1, 3, 7])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction("0.3"), Fraction(1, 7)])
def test_an_uncharged_round_composes_to_more_than_was_asked(rounds: int, epsilon: Fraction) -> None:
    model = IdpKMeans(k=3, rounds=rounds, variant="published")
    composed = epsilon * (rounds + 1) / rounds
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=composed, noise=noise)
    model.fit(curator, epsilon=epsilon, rng=np.random.default_rng(7))
    curator.accountant.require_all_spent()
    sizes, totals = noise.draws[::2], noise.draws[1::2]
    d, unit = 2, 1 << 16
    costs = [1 / s.scale + d * unit / t.scale for s, t in zip(sizes, totals, strict=True)]
    assert costs == [epsilon / rounds] * (rounds + 1)
    assert sum(costs) == composed == model.guarantee(epsilon).epsilon
    assert curator.accountant.kind == model.guarantee(epsilon).kind == "dp"
    assert not model.guarantee(epsilon).is_plain


@settings(max_examples=50)
@given(data=st.data(), dimensions=st.integers(1, 3), most=st.integers(0, 6))
def test_the_first_node_is_the_smallest_that_holds_every_row(data, dimensions, most):
    coordinate = st.integers(-(1 << 16), 1 << 16)
    corners = [sorted(data.draw(st.tuples(coordinate, coordinate))) for _ in range(dimensions)]
    bounds = np.array(corners, dtype=np.int64).T
    node = node_around(bounds, most=most)
    (depth,), (cell,) = (numbers.tolist() for numbers in node.grid_cells(dimensions))
    position = np.unravel_index(cell, (1 << depth,) * dimensions)
    assert holds(bounds, depth, position)
    assert depth == most or not holds(bounds, depth + 1, cell_of(bounds[0], depth + 1))


def cell_of(corner: IntArray, height: int) -> list[int]:
    """Grid cell of a place, by the rule of the counts."""
    return [min((1 << height) - 1, (int(q) + (1 << 16)) * (1 << height) >> 17) for q in corner]


def holds(bounds: IntArray, height: int, position: Sequence[int]) -> bool:
    return all(cell_of(corner, height) == list(position) for corner in bounds)


def test_where_nobody_is_the_tree_starts_from_the_whole_box() -> None:
    edge = 1 << 16
    root = node_around(np.array([[-edge, -edge], [edge, edge]]), most=9)
    assert (root.depths.tolist(), root.bits.tolist()) == ([0], [0])
    assert covered(fitted(PUBLISHED["dpqt_kmeans"], NOBODY)) == ([0.0, -1.0], [8.0, 1.0])
