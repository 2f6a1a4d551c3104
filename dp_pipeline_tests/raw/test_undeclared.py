"""Looks at validated rows before preparation: each as a loop, and how far one person moves it."""

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import DiscoveredAttribute, DiscoveredDomain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import BoundaryViolation, NotPrepared
from dp_pipeline.gate.discovery import bucket_edges, discover
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.quantiles import column_tree
from dp_pipeline.gate.texts import unpack_texts
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline.raw.stages import store_parts
from dp_pipeline.raw.validate import validate
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import Prefixes
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.raw.written import KEY, PERSONS, ingested, validated, written_spec

COST = "discover: {epsilon: 90, delta: 0.001}"
ATTRIBUTES = (
    "{x: {bounds: discover, bins: {quantiles: 4}, nullable: true, missing: ['-1']},"
    " word: {levels: discover, nullable: true, missing: ['?'], aliases: {A: a}},"
    " sex: {levels: [f, m]}}"
)
EDGES = (-4.0, 0.0, 1.0, 2.0, 4.0)
Row = tuple[str, str, str, str | None]
"""x, word, sex, rider."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undeclared")
    return written_spec(folder, ATTRIBUTES, protection=PERSONS, more=COST)


def table(rows: Sequence[Row]) -> pa.Table:
    names = ("x", "word", "sex", "rider")
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * 4, strict=True))
    return pa.table(columns, schema=pa.schema(dict.fromkeys(names, pa.string())))


def rows_of(spec: DatasetSpec, rows: Sequence[Row]) -> UndeclaredRows:
    return UndeclaredRows.of_table(spec, table(rows), KEY)


def words_of(spec, rows, weights=(1, 1)):
    texts, numbers = unpack_texts(rows_of(spec, rows).texts("word", weights).open_at_the_gate())
    assert list(texts) == sorted(set(texts))
    return dict(zip(map(bytes.decode, texts), numbers.tolist(), strict=True))


def magnitudes(spec: DatasetSpec, rows: Sequence[Row]) -> list[int]:
    return rows_of(spec, rows).magnitudes("x", EDGES).open_at_the_gate().tolist()


def test_person_counts_once_for_a_text(spec):
    rows = [("1", "a", "f", "ann"), ("2", "a", "f", "ann"), ("1", "a", "m", "bob")]
    assert words_of(spec, rows) == {"a": 2}
    # A person with two texts adds the weight of two.
    rows = [("1", "a", "f", "ann"), ("2", "b", "f", "ann"), ("1", "a", "m", "bob")]
    assert words_of(spec, rows, (100, 70)) == {"a": 170, "b": 70}
    # An invalid row counts nowhere.
    rows = [("1", "a", "f", None), ("1", "a", "f", " "), ("1", "a", "z", "ann")]
    assert words_of(spec, rows) == {}
    assert sum(magnitudes(spec, rows)) == 0


def test_missing_or_unprintable_text_is_no_level(spec, tmp_path):
    words = ["", "  ", "?", "x" * 257, "a\x07b", "missing", "é" * 128, " A ", "a"]
    rows = [("1", word, "f", f"p{index}") for index, word in enumerate(words)]
    assert words_of(spec, rows) == {"é" * 128: 1, "a": 2}
    for missing in ([], ["?"]):
        more = f"{COST}\nreading: {{missing: {missing}}}"
        spec = written_spec(tmp_path, "{word: {levels: discover}}", protection=PERSONS, more=more)
        words = enumerate(("", " ", "a", *missing))
        assert words_of(spec, [("1", word, "f", f"p{i}") for i, word in words]) == {"a": 1}


def test_bucket_holds_its_lower_edge(spec, tmp_path):
    values = ["-4", "-0.5", "-0.0", "0", "0.99", "1", "2", "3.9", "4", "4.1", "-9", "inf", "no"]
    values += ["-1", "-1.0"]
    rows = [(value, "a", "f", f"p{index}") for index, value in enumerate(values)]
    assert magnitudes(spec, rows) == [2, 3, 1, 3]
    attributes = "{x: {bounds: discover}, word: {levels: [a, b]}}"
    more = "discover: {epsilon: 90}\nreading: {missing: ['-1']}"
    spec = written_spec(tmp_path, attributes, protection=PERSONS, more=more)
    rows = [("-1", "a", "f", "ann"), ("-1.0", "a", "f", "bob"), ("3", "b", "f", "cy")]
    assert magnitudes(spec, rows) == [0, 0, 0, 1]


def test_edges_of_buckets_are_powers_of_two_times_the_unit():
    for unit in (1e-9, 0.1, 1.0, 3.0, 1e9):
        edges = bucket_edges(unit)
        assert list(edges) == sorted(set(edges))
        assert max(edges) <= 1e15 < 2 * max(edges)
        positive = [Fraction(edge) for edge in edges if edge > 0]
        assert positive == [Fraction(unit) * 2**power for power in range(len(positive))]
        assert tuple(-edge for edge in reversed(edges)) == edges


people = st.lists(
    st.tuples(
        st.sampled_from(["-3", "0", "1", "1.5", "3", "-1", "?", "99"]),
        st.sampled_from(["a", "b", "c", "A", "?", ""]),
        st.sampled_from(["f", "m", "z"]),
        st.sampled_from(["ann", "bob", "cid", "dan"]),
    ),
    max_size=12,
)
TWICE = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@TWICE
@given(people, st.lists(people.filter(bool).map(lambda rows: rows[0]), max_size=4))
def test_one_person_more_moves_every_look_by_her_rows_at_most(spec, rows, more):
    both = [*rows, *((x, word, sex, "eve") for x, word, sex, _ in more)]
    counts = [np.array(magnitudes(spec, each)) for each in (rows, both)]
    assert np.abs(counts[0] - counts[1]).sum() <= 2
    first, second = Tally(words_of(spec, rows)), Tally(words_of(spec, both))
    assert sum(abs(second[word] - first[word]) for word in {*first, *second}) <= 2
    weights = (1000, 707)
    heavy = [words_of(spec, each, weights) for each in (rows, both)]
    moved = [heavy[1].get(word, 0) - heavy[0].get(word, 0) for word in heavy[1]]
    assert sum(each**2 for each in moved) <= 1000**2


@TWICE
@given(people)
def test_texts_are_those_of_a_loop_over_the_persons(spec, rows):
    (only,) = rows_of(spec, rows)._parts()
    kept = only.to_pylist()
    texts: dict[str, set[str]] = {}
    for row in kept:
        word = {"A": "a"}.get(row["word"], row["word"])
        if word not in ("", "?"):
            texts.setdefault(row["rider"], set()).add(word)
    expected = Tally(word for words in texts.values() for word in words)
    assert words_of(spec, rows) == expected


@pytest.mark.parametrize("protection", [PERSONS, "{unit: one_row}"], ids=["persons", "rows"])
@pytest.mark.parametrize("many", [0, 5, 7, 8, 90])
@pytest.mark.usefixtures("small_batches")
def test_stored_batches_answer_like_all_rows_together(tmp_path, protection, many):
    spec = written_spec(tmp_path, ATTRIBUTES, protection=protection, more=COST)
    rng = np.random.default_rng(many)
    values, words = ["-1", "0", "0.5", "2", "9", "no", ""], ["a", "A", "b", "?", "", "ö"]
    # A person's rows lie in several batches, more than she may keep; some are nobody's.
    riders = ["ann", " ann", "bob", "cid", "dan", "", None]
    rows: list[Row] = [
        (values[x], words[word], "fmz"[sex], riders[rider])
        for x, word, sex, rider in rng.integers(0, (7, 6, 3, 7), (many, 4)).tolist()
    ]
    snapshot = Snapshot(tmp_path / "raw" / "people" / "day", KEY)
    store_parts(snapshot, "ingested", iter([table(rows)]))
    mark_validated(spec, snapshot, structural=True, refused=False)
    before = set(snapshot.folder.iterdir())
    stored, whole = UndeclaredRows.open(spec, snapshot), rows_of(spec, rows)
    assert set(snapshot.folder.iterdir()) == before
    assert (len(list(stored._parts())) > 1) == (many > 7)
    asked = Prefixes.root().children(8), 8

    def counted_answers(counter):
        inside = counter.within("x", Coordinate(0.0, 4.0)).children(column_tree("x"), [asked])
        sealed = [counter.magnitudes("x", EDGES), counter.texts("word", (1000, 707)), *inside]
        return [each.open_at_the_gate().tolist() for each in sealed]

    assert counted_answers(stored) == counted_answers(whole) == counted_answers(stored)


def test_coordinates_are_those_that_preparation_makes(tmp_path):
    text = "{x: {bounds: [0, 10], bins: {quantiles: 2}}}"
    spec = written_spec(tmp_path, text, more="discover: {epsilon: 1}")
    values = ["-3", "0", "5", "7.25", "99", "inf", "no", ""]
    snapshot = validated(spec, tmp_path, {"x": values})
    tree = column_tree("x")
    asked = Prefixes.root().children(8), 8
    before = UndeclaredRows.open(spec, snapshot).within("x", Coordinate(0.0, 10.0))
    full = spec.with_domain(DiscoveredDomain((("x", DiscoveredAttribute(edges=(5.0,))),)))
    prepare(full, snapshot)
    after = open_counter(full, snapshot)
    counted = [each.children(tree, [asked])[0].open_at_the_gate() for each in (before, after)]
    assert np.array_equal(*counted)
    assert counted[0].sum() == 6


def test_only_a_validated_snapshot_is_opened(spec, tmp_path):
    snapshot = ingested(tmp_path, table([("1", "a", "f", "ann")]))
    with pytest.raises(NotPrepared):
        UndeclaredRows.open(spec, snapshot)
    mark_validated(spec, snapshot, structural=True, refused=False)
    first = UndeclaredRows.open(spec, snapshot)
    snapshot.record(read_at="later")
    assert first.fingerprint != UndeclaredRows.open(spec, snapshot).fingerprint
    assert repr(first) == "UndeclaredRows(people)"
    with pytest.raises(BoundaryViolation, match="is declared, so it cannot be discovered"):
        first.texts("sex", (1,))


def test_undiscovered_attributes_are_expected_present(tmp_path):
    text = "{x: {bounds: discover}, word: {levels: discover}, sex: {levels: [f, m]}}"
    spec = written_spec(tmp_path, text, more=COST)
    names = [each.name for each in expectations_of(spec) if not each.structural]
    assert names == ["has_rows", "present__x", "present__word", "present__sex", "levels__sex"]


@pytest.mark.chain
def test_file_goes_from_validation_to_preparation(tmp_path):
    spec = written_spec(tmp_path, ATTRIBUTES, protection=PERSONS, more=COST, purpose="release")
    rows: list[Row] = [
        (str(index % 4), "ab"[index % 2], "fm"[index % 2], f"p{index // 2}") for index in range(400)
    ]
    rows[0] = ("3", "rare", "f", "p0")
    snapshot = ingested(tmp_path, table(rows))
    validate(spec, snapshot)
    accountant = Accountant(Fraction(90), delta=Fraction(1, 1000))
    counter = UndeclaredRows.open(spec, snapshot)
    actual = discover(spec, counter, accountant, Transcript(), SeededNoise(1))
    accountant.require_all_spent()
    assert actual["word"] == DiscoveredAttribute(levels=("a", "b"))
    numbers = DiscoveredAttribute(bounds=(0.0, 4.0), edges=(1.0, 2.0, 3.0))
    assert replace(actual["x"], pieces=None) == numbers
    full = spec.with_domain(actual)
    prepare(full, snapshot)
    counts = exact_tables(open_counter(full, snapshot), [("word",), ("x",)])
    assert [count.tolist() for count in counts] == [[199, 200, 1, 0], [99, 100, 100, 101, 0]]
