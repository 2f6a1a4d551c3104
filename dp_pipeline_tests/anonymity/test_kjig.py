"""What kjig releases by default: bands or boxes, whichever is learned most from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import kjig
from dp_pipeline.anonymity.boxes import BoxRecoding
from dp_pipeline.anonymity.choosing import Way
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import Cuts, _Line
from dp_pipeline.anonymity.kjig import DIVERSE_WAYS, WAYS, Kjig, told_columns
from dp_pipeline.anonymity.label_lines import SCORE_UNIT, LinedRows
from dp_pipeline.anonymity.method import Recoded, bit_matrix, cumulative_bits
from dp_pipeline.anonymity.mondrian import Tree
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.protocols import evaluate
from dp_pipeline.anonymity.telling_boxes import Telling, Worth, telling_boxes
from dp_pipeline.metrics.disclosure import distinct_labels, homogeneous_rows, smallest_class
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline_tests.anonymity.populations import TEN, coded_rows, flags, rows_of

BOTH, BY_LABEL = Worth(label=True, line=True), Worth(label=True, line=False)
promises = st.builds(KAnonymityGuarantee, k=st.integers(0, 5), diversity=st.integers(1, 2))
THREE = KAnonymityGuarantee(3)
ANY_WAY = dict.fromkeys((*WAYS, *DIVERSE_WAYS))
each_way = pytest.mark.parametrize(
    "way",
    [
        *(lambda rows, promise, way=way: way.recode(LinedRows(rows, promise)) for way in ANY_WAY),
        told_columns,
        lambda rows, promise: Kjig().recode(rows, promise, seed=0),
    ],
)


def released(found: Recoded, rows: CodedRows) -> EquivalenceClasses:
    table = found.release(rows)
    return EquivalenceClasses.of(table.codes, table.target, labels=len(table.target_levels))


def either_or(records: int, *, noise: int = 0) -> CodedRows:
    """A flag says which of two others is the label: no column tells of it in every row."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (records, 3 + noise))
    label = np.where(codes[:, 0], codes[:, 1], codes[:, 2])
    return CodedRows(flags(3 + noise), codes, label, ("no", "yes"))


@each_way
@settings(max_examples=25, deadline=None)
@given(rows=coded_rows(), promise=promises)
def test_every_way_keeps_the_promise_or_refuses(way, rows, promise):
    labels = np.count_nonzero(rows.target_counts)
    if not promise.is_empty and (len(rows) < promise.k or labels < promise.diversity):
        with pytest.raises(TooFewRows):
            way(rows, promise)
        return
    found = way(rows, promise)
    if not promise.is_empty and len(rows):
        classes = released(found, rows)
        assert smallest_class(classes.sizes) >= promise.k
        assert distinct_labels(classes) >= promise.diversity
    assert not found.suppressed.any()


@pytest.mark.parametrize(
    "recode",
    [
        *(lambda rows, _, way=way: way.recode(LinedRows(rows, THREE)) for way in ANY_WAY),
        lambda rows, seed: Kjig().recode(rows, THREE, seed=seed),
    ],
)
@settings(max_examples=15, deadline=None)
@given(rows=coded_rows(at_least=6), random=st.randoms(use_true_random=False))
def test_neither_order_nor_seed_changes_a_release(recode, rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    turned = rows.some(np.array(order))
    releases = (recode(rows, 0).release(rows), recode(turned, 9).release(turned))
    one, other = (
        (table.columns, table.codes.tolist(), table.target.tolist()) for table in releases
    )
    assert one == other


def test_boxes_tell_where_a_column_of_every_row_would_tell_less():
    rows, promise = either_or(400, noise=3), KAnonymityGuarantee(20)
    columns, best = (evaluate(rows, one, promise, folds=2) for one in (Kjig("columns"), Kjig()))
    assert best.aucs["logistic"] > columns.aucs["logistic"] + 0.01
    assert isinstance(Kjig().recode(rows, promise, seed=0).recoding, BoxRecoding)


def told_of_labels(rows: CodedRows, k: int) -> list[float]:
    """What each bit is worth for the label's sake, of all rows as one box."""
    cuts = Cuts(_Line.of(rows), Groups.one(len(rows)), KAnonymityGuarantee(k))
    return Telling(LinedRows(rows, KAnonymityGuarantee(k)), BY_LABEL).worth_of(cuts)[0].tolist()


def test_a_cut_counts_for_labels_where_it_pays_its_price():
    # One free parameter costs one nat. Eight rows in two halves: 4 : 4 against 3 : 1 and 1 : 3
    # tells 1.05 nats, and against 2 : 2 twice nothing.
    records = [
        (0, 0, 0),
        (0, 0, 0),
        (0, 1, 0),
        (0, 1, 1),
        (1, 0, 1),
        (1, 0, 1),
        (1, 1, 1),
        (1, 1, 0),
    ]
    rows = rows_of(*records, columns=flags(2))
    assert told_of_labels(rows, 2) == pytest.approx([1.0465 - 1, 0], abs=1e-3)
    # Three labels have two parameters, and 1.05 nats do not pay them.
    three = rows_of(*records, columns=flags(2), labels=("well", "ill", "dead"))
    assert told_of_labels(three, 2) == [0, 0]


def test_a_line_is_parted_by_rows_and_distances_of_both_sides():
    # The first flag tells more of the label a row, in few rows; the second in half of them.
    records = [(1, 1, 1)] * 2 + [(0, 1, 1)] * 9 + [(0, 1, 0)] * 3 + [(0, 0, 1)] * 3
    rows = rows_of(*records, *[(0, 0, 0)] * 9, columns=flags(2))
    lined = LinedRows(rows, KAnonymityGuarantee(2))
    cuts = Cuts(_Line.of(rows), Groups.one(len(rows)), KAnonymityGuarantee(2))
    scores = lined.scores[:, 0] / SCORE_UNIT
    for bit, found in enumerate(Telling(lined, Worth(label=False, line=True)).worth_of(cuts)[0]):
        sides = [scores[rows.codes[:, bit] == side] for side in (0, 1)]
        within = sum(((side - side.mean()) ** 2).sum() for side in sides)
        assert found == pytest.approx(((scores - scores.mean()) ** 2).sum() - within)


def test_by_a_line_a_box_of_one_label_is_cut_too():
    rows = either_or(400, noise=1)
    boxes = {}
    for worth in (BY_LABEL, BOTH):
        found = telling_boxes(LinedRows(rows, KAnonymityGuarantee(5)), worth)
        boxes[worth] = released(found, rows)
    for classes in boxes.values():
        assert homogeneous_rows(classes) == 400
    # Three flags decide the label, so eight boxes are enough; the fourth flag tells nothing.
    assert len(boxes[BY_LABEL]) <= 8
    assert len(boxes[BOTH]) == 16


@settings(max_examples=25, deadline=None)
@given(rows=coded_rows(at_least=4), k=st.integers(2, 4), label=st.booleans())
def test_by_a_line_no_box_is_left_that_could_be_cut(rows, k, label):
    found = telling_boxes(LinedRows(rows, KAnonymityGuarantee(k)), Worth(label=label, line=True))
    places = found.recoding.finder.places(rows.codes)
    answers = bit_matrix(cumulative_bits(rows.columns), rows.codes, rows.columns)
    for place in np.unique(places):
        inside = answers[places == place]
        sides = np.minimum(inside.sum(axis=0), len(inside) - inside.sum(axis=0))
        assert (sides < k).all()


def ways_tried(rows: CodedRows, promise: KAnonymityGuarantee) -> tuple[Way, ...]:
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kjig, "best_way", lambda ways, *_: found.append(ways))
        Kjig().recode(rows, promise, seed=0)
    return tuple(found[0])


def test_clusters_are_tried_for_few_rows_of_diverse_labels(monkeypatch):
    assert ways_tried(TEN, KAnonymityGuarantee(2)) == WAYS
    assert ways_tried(TEN, KAnonymityGuarantee(2, diversity=2)) == DIVERSE_WAYS
    monkeypatch.setattr(kjig, "FEW_CODES", TEN.codes.size)
    assert ways_tried(TEN, KAnonymityGuarantee(2, diversity=2)) == DIVERSE_WAYS[:-1]
    assert DIVERSE_WAYS[-1].recode is kjig.clusters


def test_rows_too_few_for_folds_still_have_a_release():
    rows = rows_of((0, 0), (1, 1), columns=flags(1))
    found = Kjig().recode(rows, KAnonymityGuarantee(2), seed=0)
    assert smallest_class(released(found, rows).sizes) == 2


def test_columns_are_asked_for_by_name():
    assert (
        Kjig("columns").recode(TEN, KAnonymityGuarantee(3), seed=0).recoding
        == told_columns(TEN, KAnonymityGuarantee(3)).recoding
    )
    assert Kjig().shape == "best"


def test_it_is_no_worse_than_a_tree_where_columns_interact():
    rows = either_or(600, noise=4)
    promise = KAnonymityGuarantee(20)
    ours, tree = (evaluate(rows, one, promise, folds=2) for one in (Kjig(), Tree()))
    assert ours.aucs["logistic"] >= tree.aucs["logistic"] - 0.01
