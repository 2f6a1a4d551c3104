"""The default: how its tree grows, what it keeps from it and what for, and what is free."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.clustering import htree_kmeans
from dp_pipeline.models.clustering.htree_kmeans import (
    GrowthPlan,
    HTreeKMeans,
    first_boxes,
    grow,
    leaf_synopsis,
)
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.instruments import Draw, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Constant, Run, check_valid, run
from dp_pipeline_tests.models.tables import in_memory, space, two_groups

MODEL = HTreeKMeans(k=2, starts=2)
KEPT = {1: Fraction(0), 2: Fraction(0), 3: Fraction(3, 16), 4: Fraction(1, 4), 5: Fraction(5, 16)}
KEPT |= dict.fromkeys((8, 16), Fraction(2, 5))
"""Dimensions → share of ε that is not the tree's."""
WEAK, STRONG = 12, 600
"""People at whom an ε of 1 is weak and strong for two centres."""


def fitted(d, people=STRONG, *, model=MODEL, epsilon=Fraction(1), transcript=None, seed=7) -> Run:
    domain = space(d)
    counter = in_memory(two_groups(domain, people), domain)
    return run(model, counter, epsilon=epsilon, transcript=transcript, seed=seed, domain=domain)


def kinds(done: Run) -> list[str]:
    """The first word of every question that was charged."""
    return [spend.what.split()[0] for spend in done.spends]


@pytest.mark.parametrize("d", KEPT)
def test_from_three_columns_on_a_share_is_kept_from_the_tree(d: int) -> None:
    done = fitted(d, epsilon=Fraction(1, 2))
    first, tree, *moving = (spend.epsilon for spend in done.spends)
    assert (first, tree) == ((1 - KEPT[d]) / 10, (1 - KEPT[d]) * 2 / 5)
    assert sum(moving) == KEPT[d] / 2


@pytest.mark.parametrize("d", [3, 4, 5, 8])
def test_at_a_weak_signal_the_tree_gets_all(d: int) -> None:
    assert kinds(fitted(d, STRONG)) == ["counts", "tree", "residuals"]
    done = fitted(d, WEAK)
    assert kinds(done) == ["counts", "tree"]
    assert sum(spend.epsilon for spend in done.spends) == 1


def near_the_middle(domain: Domain, people: int) -> FloatArray:
    """Two groups at a tenth of where they are, so that boxes overstate how far they are."""
    middle = np.array([(side.lower + side.upper) / 2 for side in domain.box(domain.names)])
    return middle + (np.array(two_groups(domain, people)) - middle) / 10


MANY_CENTRES = replace(MODEL, k=20)
"""So many that ``STRONG`` people are few for them, and enough to be asked how far they are."""


@pytest.mark.parametrize("d", [5, 8])
def test_in_many_columns_it_asks_how_far_rows_are(d: int) -> None:
    assert kinds(fitted(d, model=MANY_CENTRES)) == ["counts", "tree", "clipped", "counts"]
    near = in_memory(near_the_middle(space(d), STRONG), space(d))
    done = run(MANY_CENTRES, near, domain=space(d))
    assert kinds(done) == ["counts", "tree", "clipped", "residuals"]


def test_in_few_columns_nothing_is_asked_of_rows_near_the_middle() -> None:
    near = in_memory(near_the_middle(space(4), STRONG), space(4))
    assert kinds(run(MANY_CENTRES, near, domain=space(4))) == ["counts", "tree"]


@pytest.mark.parametrize("d", [5, 8])
def test_after_an_earlier_release_the_same_is_asked(d: int) -> None:
    for place, last in ((two_groups, "counts"), (near_the_middle, "residuals")):
        rows = in_memory(place(space(d), STRONG), space(d))
        model = replace(MANY_CENTRES, plan_from="previous")
        before = run(model, rows, domain=space(d))
        after = run(model, rows, domain=space(d), earlier=before.released.tables())
        assert kinds(after) == ["counts", "clipped", last]
        assert sum(spend.epsilon for spend in after.spends) == 1


@pytest.mark.parametrize(("answer", "kind"), [(1, []), (100, ["residuals"])], ids=str)
def test_what_the_kept_share_is_for_follows_from_answers(answer: int, kind: list[str]) -> None:
    for people in ((), two_groups(space(3), WEAK), two_groups(space(3), STRONG)):
        done = run(MODEL, people, noise=Constant(answer), domain=space(3))
        assert kinds(done) == ["counts", "tree", *kind]


def test_people_with_many_rows_are_a_weaker_signal() -> None:
    # 160 rows at 13/16 of ε are 65 a centre; shared by three they are 22.
    for distance, kind in ((1, "residuals"), (3, "tree")):
        done = run(MODEL, (), distance=distance, noise=Constant(10), domain=space(3))
        assert kinds(done)[-1] == kind


LAST = 1 / (KEPT[5] * Fraction(7, 8))
"""Scale of the noise of leaves that are counted again, after an eighth was spent on a distance."""


class OneFullLeaf(Constant):
    """No noise, but ten thousand rows in the fourth leaf alone when leaves are counted again."""

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        return 10_000 * (np.arange(counts.size) == 3) if scale == LAST else counts.copy()


def test_every_leaf_is_counted_again_and_its_count_has_weight() -> None:
    done = fitted(5, model=MANY_CENTRES)
    assert done.draws[-1].exact.shape == (len(done.released.synopsis.weights),)
    assert (done.draws[-1].scale, done.draws[-1].exact.sum()) == (LAST, STRONG)
    people = in_memory(two_groups(space(5), STRONG), space(5))
    done = run(MANY_CENTRES, people, noise=OneFullLeaf(0), domain=space(5))
    assert kinds(done)[-1] == "counts"
    assert done.released.synopsis.weights.argmax() == 3


def test_moved_centres_are_nearer_to_the_people() -> None:
    # The seeds are fixed: the mean error of twenty fits is 0.08 after the step, 0.15 before it.
    domain = space(8)
    people = np.array(two_groups(domain, STRONG)) + 0.7
    groups = np.stack([people[1::2].mean(axis=0), people[::2].mean(axis=0)])
    errors = []
    for seed in range(20):
        done = run(MODEL, in_memory(people, domain), noise=SeededNoise(seed), domain=domain)
        of_boxes = MODEL._k_means(done.released.synopsis, 2, np.random.default_rng(1))
        both = (done.released.centres, of_boxes)
        errors.append([np.abs(np.sort(places, axis=0) - groups).mean() for places in both])
    moved, unmoved = np.mean(errors, axis=0)
    assert moved < 0.7 * unmoved


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("people", [WEAK, STRONG])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_another_number_of_centres_costs_nothing(d: int, people: int, k: int) -> None:
    other = replace(MODEL, recluster=k)
    assert texts_of(other, measuring=True) == texts_of(MODEL, measuring=True)
    assert texts_of(replace(MODEL, k=3), measuring=True) != texts_of(MODEL, measuring=True)
    transcript = Transcript()
    first = fitted(d, people, transcript=transcript)
    again = run(other, None, transcript=transcript.rewind(), domain=space(d))
    assert again.draws == ()
    assert again.spends == first.spends
    assert (again.released.synopsis.weights == first.released.synopsis.weights).all()
    check_valid(replace(other, k=k), again.released, domain=space(d))


@pytest.mark.parametrize("d", [2, 3])
def test_no_question_depends_on_the_generator_of_post_processing(d: int) -> None:
    first, other = fitted(d, seed=1), fitted(d, seed=2)
    assert first.contents == other.contents
    reclustered = replace(MODEL, recluster=7)
    first, other = (fitted(d, model=reclustered, seed=seed) for seed in (1, 2))
    assert first.spends == other.spends
    answers = [[draw.answer.tobytes() for draw in run.draws] for run in (first, other)]
    assert answers[0] == answers[1]


ONE = Fraction(1)
FIRST, REST = Fraction(SHARES, 5), Fraction(4 * SHARES, 5)
"""Shares of ε of the first generation, and of the session below it."""


def grown(noise, *, d=2, clusters=3, epsilon=ONE, distance=1, is_coarse=False):
    """A tree over two groups of people, after its session was closed; and what was drawn."""
    domain, recorder = space(d), RecordingNoise(noise)
    counter = in_memory(two_groups(domain), domain)
    curator = curator_over(
        counter, epsilon=epsilon, distance=distance, noise=recorder, domain=domain
    )
    tree = BitTree.over(domain.names, domain.box(domain.names))
    counted = curator.measure_boxes(tree, Prefixes.root().children(4), epsilon=epsilon / 5)
    total, rate = float(counted.table.sum()), float(epsilon) / distance
    plan = GrowthPlan.of(total, clusters=clusters, rate=rate)
    first = first_boxes(tree, counted, is_coarse=is_coarse)
    session = curator.open_tree(tree, epsilon=epsilon * 4 / 5, nodes=first.leaves[1])
    grow(session, tree, first, plan, rate=rate * 4 / 5)
    session.require_all_spent()
    return SimpleNamespace(noisy=first, plan=plan), recorder.draws


def counts_of(result: SimpleNamespace, *, d: int = 2) -> FloatArray:
    box = space(d).box(space(d).names)
    tree = BitTree.over(space(d).names, box)
    return leaf_synopsis(result.noisy, result.plan, tree, box).weights


def shapes(draws: list[Draw]) -> list[tuple[int, ...]]:
    return [draw.exact.shape for draw in draws]


def shares(draws: list[Draw]) -> list[Fraction]:
    """Shares of ε = 1 that each draw cost."""
    return [SHARES / draw.scale for draw in draws]


@pytest.mark.parametrize(
    ("total", "signal", "deviations", "caution", "first", "below"),
    [
        # Fewer rows than noise: nothing is doubted more, and no child is taken for empty.
        (-500, 1, 1, 0.35, None, None),
        # ln 10 / 3 = 0.77 and 50/200 are beyond their limits; ln 2 is below 1.
        (100, 10, 1, 0.35, None, None),
        # 100/200, as a fifth of 20 is beyond its limit; ln 4.
        (200, 20, 1, 0.5, None, (1.386, 0.386)),
        # (20/50)^(2/3); ln 10.
        (500, 50, 1.304, 0.5429, None, (2.303, 1.303)),
        # ln 100 / 3; (20/100)^(2/3) = 0.342 is beyond its limit; ln ½ + 1 is below 1; ln 20.
        (1000, 100, 1.535, 0.35, None, (2.996, 1.996)),
        # ln 200 / 3; ln 1 + 1; ln 40 = 3.7 is beyond its limit.
        (2000, 200, 1.766, 0.35, (1, 0), (3, 2)),
        # ln 1000 / 3 = 2.3; ln 5 + 1; ln 200 = 5.3.
        (10_000, 1000, 2, 0.35, (2.609, 1.609), (3, 2)),
    ],
)
def test_the_plan_is_the_one_computed_by_hand(total, signal, deviations, caution, first, below):
    plan = GrowthPlan.of(total, clusters=5, rate=0.5)
    assert plan.signal == signal
    assert plan.min_deviations == pytest.approx(deviations, abs=5e-4)
    assert plan.caution == pytest.approx(caution, abs=5e-5)
    for sparsity, expected in ((plan.first, first), (plan.below, below)):
        if expected is None:
            assert sparsity is None
        else:
            assert (sparsity.certain, sparsity.siblings) == pytest.approx(expected, abs=5e-4)


def test_a_plan_is_of_rows_times_epsilon_by_clusters() -> None:
    weak = GrowthPlan.of(600, clusters=3, rate=0.1)
    assert replace(weak, rate=1.0) == GrowthPlan.of(60, clusters=3, rate=1.0)


@pytest.mark.parametrize(("d", "boxes"), [(1, 16), (2, 16), (3, 8), (4, 16), (5, 16), (8, 16)])
def test_coarse_first_boxes_halve_up_to_four_columns_alike(d: int, boxes: int) -> None:
    _, draws = grown(Constant(6), d=d)
    assert shapes(draws) == [(16,), (16, 1)]
    result, draws = grown(Constant(6), d=d, is_coarse=True)
    assert shapes(draws)[0] == (16,)
    assert draws[1].exact.shape[0] == boxes
    values, variances = result.noisy.estimates(1 + np.arange(boxes))
    assert (values <= 6 * 16 / boxes).all()
    assert (variances < 50.5 * 16 / boxes).all()


def test_boxes_of_a_few_rows_are_counted_again() -> None:
    # One deviation at a fifth of ε is 7 rows.
    result, draws = grown(Constant(6))
    assert shapes(draws) == [(16,), (16, 1)]
    assert shares(draws) == [FIRST, REST]
    assert len(counts_of(result)) == 16


def test_where_rows_are_few_two_more_are_spread_evenly() -> None:
    # At ε = 1 two units are two rows, over sixteen boxes; 16·20 rows are not few.
    assert counts_of(grown(Constant(6))[0]) == pytest.approx(6 + 2 / 16)
    assert counts_of(grown(SeededNoise(1))[0]).min() > 0
    many, _ = grown(Constant(20))
    agreed = many.noisy.counts(first=many.plan.first, below=many.plan.below)
    assert (counts_of(many) == agreed[many.noisy.leaves[0]]).all()


@pytest.mark.parametrize(
    ("d", "answer", "bits"),
    [
        # z·0.8·caution of 20 rows is 5.6, of 60 rows 16.8: log2 is 2.5 and 4.1 times 2d/(2 + d).
        (1, 20, 2),
        (2, 20, 2),
        (1, 60, 3),
        (2, 60, 4),
        (8, 20, 4),
    ],
)
def test_boxes_of_some_rows_end_in_leaves_of_a_grid(d: int, answer: int, bits: int) -> None:
    result, draws = grown(Constant(answer), d=d)
    assert shapes(draws) == [(16,), (16, 1 << bits)]
    assert shares(draws) == [FIRST, REST]
    _, nodes = result.noisy.leaves
    assert nodes.depths.tolist() == [4 + bits] * (16 << bits)


def test_boxes_of_many_rows_hand_most_of_epsilon_on() -> None:
    # 400·0.8·0.35 = 112 rows, log2 = 6.8: 7 bits in two dimensions, 1/(2^(7/4) − 1) = 0.423 of
    # what is left for the first four. Then 400·0.46·0.35 = 65 rows, 6 bits: 0.547. Then
    # 400·0.21·0.35 = 29 rows, 5 bits: 0.725. Then 4 bits, and all that is left.
    _, draws = grown(Constant(400))
    left, spent = SHARES, list[int]()
    for bits in (7, 6, 5):
        spent.append(int(left / (2 ** (bits / 4) - 1)))
        left -= spent[-1]
    assert shares(draws)[:4] == [FIRST, *(Fraction(4 * part, 5) for part in spent)]
    assert shapes(draws)[:4] == [(16,), *((16**index, 16) for index in range(1, 4))]


class OneFullBox(Constant):
    """So many rows in the last of several boxes, and none elsewhere."""

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        answer = super().discrete_laplace(counts, scale)
        answer[..., : max(1, answer.shape[-1] - 1)] = 0
        return answer


def test_while_few_nodes_go_on_a_cheap_look_is_taken() -> None:
    # 40·4096/(0.8·600) shares; then a fifth of what is left for those that may be noise alone.
    _, draws = grown(OneFullBox(600))
    left = SHARES - 341
    spent = (341, left // 5, left - left // 5, 341)
    assert shapes(draws)[:4] == [(16,), (15, 1), (1, 16), (15, 1)]
    assert shares(draws)[:6] == [FIRST, REST, *(Fraction(4 * part, 5) for part in spent)]


def test_a_tree_that_keeps_a_share_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    # A mutant of growth: leaves do not spend their last share.
    count = htree_kmeans._Growth.count

    def all_but_one(growth, asked):
        less = [(nodes, bits, shares - (not bits)) for nodes, bits, shares in asked]
        return count(growth, less)

    monkeypatch.setattr(htree_kmeans._Growth, "count", all_but_one)
    with pytest.raises(BoundaryViolation, match=r"must spend its whole ε .*, but 1 of 4096"):
        grown(Constant(6))


def test_a_tree_of_enough_nodes_grows_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(htree_kmeans, "MOST_NODES", 200)
    result, draws = grown(Constant(10**6))
    # 1 + 16 + 256 nodes are more than 200: the third generation spends all it has.
    assert shapes(draws) == [(16,), (16, 16), (256, 1)]
    assert len(result.noisy) == 1 + 16 + 256
    assert sum(shares(draws)) == SHARES


def test_a_tree_ends_where_its_bits_do() -> None:
    # One dimension has 17 bits, at 4 a generation: the last has one.
    result, _ = grown(Constant(10**9), d=1, epsilon=Fraction(1000))
    _, nodes = result.noisy.leaves
    assert nodes.depths.tolist() == [17] * (1 << 17)


def test_next_to_no_noise_grows_to_the_people_and_counts_them() -> None:
    result, _ = grown(SeededNoise(1), epsilon=Fraction(1000))
    (_, nodes), counts = result.noisy.leaves, counts_of(result)
    assert counts.sum() == pytest.approx(12)
    assert (0.5 ** nodes.depths[counts > 0.5]).sum() < 0.01
