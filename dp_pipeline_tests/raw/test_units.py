"""Rows of units are made of each unit's own parts, and give them back."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts, Protection
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.parts_parser import empty_unit_constraints
from dp_pipeline.config.reading import Derived
from dp_pipeline.config.source import Source
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import normalize, prepare, rows_as_declared
from dp_pipeline.raw.snapshot import mark_validated
from dp_pipeline.raw.units import (
    OF_UNIT,
    join_batches,
    join_parts,
    parts_of_units,
    unit_keys,
    units_of_parts,
)
from dp_pipeline_tests.raw.written import KEY


def attribute(name: str, size: int, *, nullable: bool = False) -> Attribute:
    cells = Levels(tuple(map(str, range(size))))
    return Attribute(name, name, "keep", cells=cells, nullable=nullable)


DOMAIN = Domain(
    (attribute("region", 2, nullable=True), *map(attribute, (SIZE, "age", "sex"), (3, 3, 2))),
    parts=Parts("persons", ("age", "sex"), 3),
)
SIZED = Attribute(
    SIZE, SIZE, "drop", cells=Levels(("1", "2", "3")), derived=Derived("size", ("home",))
)
DOMAIN_OF_ROWS = Domain((DOMAIN["region"], SIZED, DOMAIN["age"], DOMAIN["sex"]), parts=DOMAIN.parts)
rows = st.lists(st.tuples(*(st.integers(0, most) for most in (3, 1, 2, 1))), max_size=9)


def folded(rows: list[tuple[int, int, int, int]], domain: Domain = DOMAIN, order=None):
    units, *columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    codes = dict(zip(("region", "age", "sex"), columns, strict=True))
    columns = units_of_parts(domain, codes, units, order)
    return {name: column.tolist() for name, (column, _) in columns.items()}


def few(rows):
    return [row for i, row in enumerate(rows) if sum(r[0] == row[0] for r in rows[:i]) < 3]


@given(rows, st.randoms())
def test_units_depend_on_their_own_parts_alone(rows, random):
    rows = few(rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert folded(rows) == folded(shuffled)
    units = sorted({row[0] for row in rows})
    alone = [folded([row for row in rows if row[0] == unit]) for unit in units]
    for name, column in folded(rows).items():
        assert column == list(chain.from_iterable(each[name] for each in alone))


@given(rows)
def test_parts_come_back_from_their_units(rows):
    rows = few(rows)
    units = {name: np.array(column, dtype=np.int64) for name, column in folded(rows).items()}
    parts = parts_of_units(DOMAIN, units)
    back = sorted(zip(parts["age"].tolist(), parts["sex"].tolist(), strict=True))
    assert back == sorted(row[2:] for row in rows)
    assert parts[SIZE].sum() == sum((units[SIZE] + 1) ** 2 - (units[SIZE] + 1))


def test_a_value_that_varies_within_a_unit_is_missing():
    assert folded([(7, 0, 1, 1), (7, 1, 1, 0), (8, 1, 2, 0)])["region"] == [2, 1]
    # Parts are in order, and a missing place is last.
    order = np.array([np.nan, 5.0, 2.0])
    units = folded([(1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 2, 0)], order=order)
    assert [units[f"age {i}"] for i in (1, 2, 3)] == [[2], [1], [0]]
    # A unit with a part that breaks a constraint is left out.
    never = Constraint("no child alone", (SIZE, "age"), (((0,), (0,)),), is_only=False)
    domain = Domain(DOMAIN.attributes, (never,), DOMAIN.parts)
    assert folded([(1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 1, 0)], domain)[SIZE] == [1]


SPEC = DatasetSpec.of_domain(
    "homes", DOMAIN_OF_ROWS, protection=Protection("home", 3, is_unit=True), purpose="release"
)
Home = int | None
ids = st.sampled_from([7, 2**53, 2**53 + 1]) | st.none()
QUESTIONS = [(), ("region", SIZE), ("region", "age", "sex"), ("sex",)]


def prepared(rows: list[tuple[int | None, str, str, str]], *, as_text: bool) -> PartsCounter:
    """The counter of the parts of rows of (home, region, age, sex), as a release prepares them."""
    homes, *columns = zip(*rows, strict=True) if rows else [()] * 4
    cells = dict(zip(("region", "age", "sex"), columns, strict=True))
    return counter_of(SPEC, keyed(homes, cells, as_text=as_text))


def keyed(homes: Sequence[Home], columns: dict[str, Any], *, as_text: bool) -> pa.Table:
    """The rows of these homes, whose keys are texts or whole numbers."""
    keys = [None if home is None else str(home) if as_text else home for home in homes]
    table = {"home": pa.array(keys, pa.string() if as_text else pa.int64())}
    return pa.table(table | {name: pa.array(cells, pa.string()) for name, cells in columns.items()})


def counter_of(spec: DatasetSpec, table: pa.Table) -> PartsCounter:
    units = normalize(spec, table, KEY)
    codes = {name: units.column(name).to_numpy() for name in units.column_names}
    counter = MemoryCounter(spec.counted_domain, coordinates={}, codes=codes, rows=units.num_rows)
    return PartsCounter(counter, spec.domain)


cells = st.tuples(*map(st.sampled_from, ("01?", "012", "01")))


@given(st.lists(st.tuples(ids, cells), max_size=8), st.lists(cells, max_size=12), st.booleans())
def test_a_unit_of_any_size_weighs_at_most_one(others, parts, as_text):
    rows = [(home, *row) for home, row in others]
    more = [*rows, *((99, *row) for row in parts)]
    before, after = (prepared(each, as_text=as_text) for each in (rows, more))
    assert_one_unit_more(before, after)


def assert_one_unit_more(before: PartsCounter, after: PartsCounter) -> None:
    tables, others = (
        [*counter.count(QUESTIONS), *counter.pairs(["age", "sex"])] for counter in (before, after)
    )
    for table, other_table in zip(tables, others, strict=True):
        added = other_table.open_at_the_gate() - table.open_at_the_gate()
        assert added.min(initial=0) >= 0 and added.sum() <= UNIT_WEIGHT


def of_two_sources(spec: DatasetSpec, key: str) -> DatasetSpec:
    """The same declaration with missing values of parts, which may have a source of their own."""
    parts = Parts("persons", ("age", "sex"), 3, key=key)
    own = [attribute(name, spec.domain[name].size, nullable=True) for name in parts.attributes]
    sizes = Levels(tuple(map(str, range(parts.fewest, 4))))
    size = Attribute(SIZE, SIZE, "drop", cells=sizes, derived=SIZED.derived)
    domain = Domain((DOMAIN["region"], size, *own), empty_unit_constraints(parts, own), parts)
    source = Source("csv", "homes.csv", parts=Source("csv", "persons.csv") if key else None)
    return replace(spec, domain=domain, source=source)


FLAT, TWO = of_two_sources(SPEC, ""), of_two_sources(SPEC, "home")


def both(units, parts, *, as_text):
    """The rows of two sources: (home, region) and (home, (_, age, sex))."""
    homes = [home for home, _ in (*units, *parts)]
    nothing = [None] * len(units)
    columns = {
        "region": [region for _, region in units] + [None] * len(parts),
        "age": nothing + [age for _, (_, age, _) in parts],
        "sex": nothing + [sex for _, (_, _, sex) in parts],
    }
    is_of_unit = pa.array([i < len(units) for i in range(len(homes))], pa.bool_())
    return keyed(homes, columns, as_text=as_text).append_column(OF_UNIT, is_of_unit)


homes = st.lists(st.tuples(ids, st.sampled_from("01?")), max_size=6)
persons = st.lists(st.tuples(ids, cells), max_size=8)


def joined_counter(*rows: object, as_text: bool = False) -> PartsCounter:
    return counter_of(TWO, join_parts(both(*rows, as_text=as_text), unit_keys(TWO, KEY)).table)


@given(
    homes,
    persons,
    st.lists(st.sampled_from("01"), max_size=2),
    st.lists(cells, max_size=12),
    st.booleans(),
)
def test_all_rows_of_a_key_in_two_sources_are_one_unit(units, parts, more, added, as_text):
    before = joined_counter(units, parts, as_text=as_text)
    more_units = [(99, region) for region in more]
    more_parts = [(99, part) for part in added]
    after = joined_counter([*more_units, *units], [*more_parts, *parts], as_text=as_text)
    assert_one_unit_more(before, after)
    (number,) = (each.open_at_the_gate() for each in after.count([()]))
    known = {home for home, _ in (*units, *more_units) if home is not None}
    assert number == UNIT_WEIGHT * len(known)


@given(st.dictionaries(st.sampled_from([7, 2**53, 2**53 + 1]), st.sampled_from("01")), persons)
def test_two_sources_give_the_codes_of_one_flat_table(units, parts):
    parts = [part for part in parts if part[0] in units]
    joined = join_parts(both(list(units.items()), parts, as_text=False), unit_keys(TWO, KEY)).table
    rows = [(units[home], age, sex) for home, (_, age, sex) in parts]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("region", "age", "sex"))}
    flat = keyed([home for home, _ in parts], columns, as_text=False)
    both_codes = [normalize(*each, KEY).to_pylist() for each in ((TWO, joined), (FLAT, flat))]
    with_parts = [row for row in both_codes[0] if row[SIZE] > 0]
    one_more = [row | {SIZE: row[SIZE] + 1} for row in both_codes[1]]
    in_order = [sorted(rows, key=repr) for rows in (with_parts, one_more)]
    assert in_order[0] == in_order[1]
    assert len(both_codes[0]) == len(units)


@given(homes, persons, st.integers(1, 4), st.booleans())
def test_sources_in_batches_are_joined_as_in_one(units, parts, size, as_text):
    rows = both(units, parts, as_text=as_text)
    whole = join_parts(rows, unit_keys(TWO, KEY)).table
    batches = [rows.slice(start, size) for start in range(0, max(1, rows.num_rows), size)]
    with TemporaryDirectory() as folder:
        several = pa.concat_tables(join_batches(TWO, batches, KEY, Path(folder)))
    assert sorted(several.to_pylist(), key=repr) == sorted(whole.to_pylist(), key=repr)


def test_parts_without_a_unit_and_copies_of_units_are_counted():
    part = ("", "0", "0")
    units, parts = [(1, "0"), (1, "1"), (None, "0")], [(1, part), (2, part), (None, part)]
    joined = join_parts(both(units, parts, as_text=False), unit_keys(TWO, KEY))
    assert (joined.table.num_rows, joined.orphans, joined.copies) == (1, 2, 2)
    # Joined units have the sizes of their parts.
    rows = [(1, "0"), (1, "1"), (2, "0"), (None, "0")], [(1, part), (1, part), (None, part)]
    (table,) = joined_counter(*rows).count([(SIZE,)])
    assert (table.open_at_the_gate() // UNIT_WEIGHT).tolist() == [1, 0, 1, 0]


def assert_engines_agree(engines: tuple[str, ...], folder: Path, *, as_text: bool) -> None:
    """Two files, prepared and counted by each engine, have the tables of their joined rows."""
    rng = np.random.default_rng(5)
    units = [(2**53 + home, str(rng.integers(2))) for home in range(30)]
    parts = [
        (2**53 + int(rng.integers(40)), ("", str(rng.integers(3)), str(rng.integers(2))))
        for _ in range(60)
    ]
    rows = both(units, parts, as_text=as_text)
    paths = [folder / "homes.parquet", folder / "persons.parquet"]
    columns = [["home", "region"], ["home", "age", "sex"]]
    for path, names, is_of_unit in zip(paths, columns, (True, False), strict=True):
        table = rows.filter(pc.equal(rows.column(OF_UNIT), is_of_unit)).select(names)
        pq.write_table(table, path, row_group_size=7)
    homes, persons = (Source("parquet", str(path)) for path in paths)
    spec = replace(TWO, source=replace(homes, parts=persons))
    joined = joined_counter(units, parts, as_text=as_text)
    expected = [table.open_at_the_gate() for table in joined.count(QUESTIONS)]
    for engine in engines:
        claimed = set()
        options = {"key": KEY, "snapshot_id": None, "today": date(2026, 1, 1)}
        options["claim"] = lambda *names: claimed.update(names)  # noqa: B023
        snapshot = ingest(spec, folder / engine, **options)
        assert claimed == {f"file:{path}" for path in paths}
        with snapshot.locked():
            mark_validated(spec, snapshot, structural=True, refused=False)
        prepare(spec, snapshot, engine)
        counter = PartsCounter(open_counter(spec, snapshot, engine), spec.domain)
        for table, exact in zip(counter.count(QUESTIONS), expected, strict=True):
            assert np.array_equal(table.open_at_the_gate(), exact)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("as_text", [True, False])
def test_engines_count_two_files_alike(as_text, tmp_path):
    assert_engines_agree(("memory", "stream"), tmp_path, as_text=as_text)


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_dask_and_spark_count_two_files_alike(engine, tmp_path):
    assert_engines_agree((engine,), tmp_path, as_text=True)


def test_no_row_by_itself_breaks_a_constraint_on_the_size():
    never = Constraint("no one alone", (SIZE, "age"), (((0,), (0,)),), is_only=False)
    apart = Constraint("no boy", ("age", "sex"), (((0,), (1,)),), is_only=False)
    domain = replace(DOMAIN_OF_ROWS, constraints=(never, apart))
    assert domain.row_constraints == (apart,)
    rows = pa.table(
        {"home": ["1", "1"], "region": ["0", "0"], "age": ["0", "1"], "sex": ["0", "0"]}
    )
    assert rows_as_declared(domain, rows).tolist() == [True, True]
