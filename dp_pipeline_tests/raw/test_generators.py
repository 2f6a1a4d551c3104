"""A generator makes the same population for the same seed, of the shape it promises."""

import numpy as np
import pyarrow as pa
import pytest

from dp_pipeline.raw.generators import (
    GENERATORS,
    STREAMS,
    draw_category,
    random_numbers,
    shares,
    tables,
)
from dp_pipeline.raw.generators.places import CENTRES
from dp_pipeline.raw.generators.tables import EDUCATIONS

EVERY = sorted(GENERATORS)
WEEK = {"start": 1767571200, "end": 1767571201}
"""A second of 2026-W02: a stream gives the whole week."""


def generated(name: str, **options: int) -> pa.Table:
    """What a generator makes; of a stream one week."""
    return GENERATORS[name](**options, **(WEEK if name in STREAMS else {}))


def numbers(table: pa.Table, *columns: str) -> np.ndarray:
    return np.column_stack([table.column(column).to_numpy() for column in columns])


@pytest.mark.parametrize("name", EVERY)
def test_a_generator_keeps_its_promises(name):
    table = generated(name, seed=5, rows=700)
    assert table.equals(generated(name, seed=5, rows=700))
    assert not table.equals(generated(name, seed=6, rows=700))
    assert set(table.schema.types) <= {pa.string(), pa.float64()}
    for rows in (0, 1, 2, 701):
        other = generated(name, seed=1, rows=rows)
        assert (other.num_rows, other.schema) == (rows, table.schema)


USUAL_ROWS = {"pytest2d": 10_000, "unbalance_like": 6_500, "birch3_like": 100_000}
USUAL_ROWS |= {"mixture4": 100_000, "tic_like": 9_822, "trips_like": 60_000, "census_like": 45_000}


@pytest.mark.parametrize("name", USUAL_ROWS)
def test_the_usual_number_of_rows_is_the_documented_one(name):
    assert GENERATORS[name]().num_rows == USUAL_ROWS[name]


def test_points_are_in_clusters_inside_their_box():
    points = numbers(GENERATORS["pytest2d"](seed=2), "x", "y")
    assert np.abs(points).max() < 2.0
    nearest = ((points[:, None, :] - CENTRES) ** 2).sum(axis=2).argmin(axis=1)
    assert np.bincount(nearest) == pytest.approx([2000] * 5, abs=20)
    points = numbers(GENERATORS["birch3_like"](seed=2), "x", "y")
    assert 0.0 <= points.min() < points.max() <= 1e6
    assert np.array_equal(points, np.rint(points))
    cells = np.histogram2d(*points.T, bins=20, range=[[0, 1e6]] * 2)[0]
    assert cells.max() > 5 * cells.mean()


@pytest.mark.parametrize("scale", [1, 10])
def test_unbalance_like_is_dense_on_the_left(scale):
    table = GENERATORS["unbalance_like"](seed=2, rows=6_500 // scale)
    labels = np.array(table.column("label").to_pylist(), dtype=np.int64)
    sizes = [2000 // scale] * 3 + [100 // scale] * 5
    assert np.bincount(labels)[1:].tolist() == sizes
    x = table.column("x").to_numpy()
    assert x[labels <= 3].max() < x[labels > 3].min()


@pytest.mark.parametrize("dimensions", [4, 6, 8])
def test_a_mixture_has_eight_equal_clusters_around_their_centres(dimensions):
    table = GENERATORS[f"mixture{dimensions}"](seed=2, rows=8_000)
    points = numbers(table, *(f"x{axis + 1}" for axis in range(dimensions)))
    labels = np.array(table.column("label").to_pylist(), dtype=np.int64)
    assert np.abs(points).max() <= 1.0
    assert np.bincount(labels)[1:].tolist() == [1000] * 8
    for label in range(1, 9):
        own = points[labels == label]
        assert np.abs(own.mean(axis=0)).max() < 0.72
        # A deviation of 1000 points: ten standard errors of 0.0018.
        assert own.std(axis=0, ddof=1) == pytest.approx([0.08] * dimensions, abs=0.018)


def test_trips_like_has_busy_riders_and_points_outside():
    table = GENERATORS["trips_like"](seed=7)
    riders, points = np.array(table.column("rider").to_pylist()), numbers(table, "x", "y")
    names, trips = np.unique(riders, return_counts=True)
    assert np.median(trips) <= 8
    assert trips.max() > 150
    assert 0.02 < (trips > 20).mean() < 0.10
    outside = ((points < 0) | (points > (30, 20))).any(axis=1)
    assert 0.001 < outside.mean() < 0.01
    # A rider has places of her own.
    own = points[riders == names[trips.argmax()]]
    spots = np.unique(np.floor(own / 0.5), axis=0, return_counts=True)[1]
    anyone = np.unique(np.floor(points[: len(own)] / 0.5), axis=0, return_counts=True)[1]
    assert spots.max() > 3 * anyone.max()


def test_census_like_attributes_depend_on_each_other():
    table = GENERATORS["census_like"](seed=11).to_pandas()
    assert table.shape[1] == 12
    income = table.groupby("education")["income"].median()
    assert income["doctorate"] > income["bachelor"] > income["secondary"] > income["primary"]
    idle = table["workclass"] == "not_working"
    assert (table.loc[idle, "hours_per_week"] == 0).all()
    age = table.groupby("marital_status")["age"].median()
    assert age["widowed"] > age["married"] > age["single"]
    # Some cells break any sensible declaration.
    assert 0.002 < (~table["education"].isin(EDUCATIONS)).mean() < 0.02
    assert 0.002 < table["income"].isna().mean() < 0.02
    assert 0.001 < table["region"].isna().mean() < 0.01
    assert (table["income"] > 150).any()


def test_tic_like_has_blocks_of_dependent_attributes():
    table = GENERATORS["tic_like"](seed=5)
    codes = [np.array(column.to_pylist(), dtype=np.int64) for column in table.columns]
    assert [int(column.max()) + 1 for column in codes] == [*tables.SIZES]
    assert sum(tables.BLOCKS) == len(tables.SIZES) == 86

    def gap(a, b):
        """Variation distance of two attributes from independence."""
        joint = np.histogram2d(codes[a], codes[b], bins=(tables.SIZES[a], tables.SIZES[b]))[0]
        joint /= joint.sum()
        return float(np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() / 2)

    ends = np.cumsum(tables.BLOCKS).tolist()
    # Chance alone gives at most about 0.03 to two attributes of ten levels; a few are linked.
    assert min(gap(first, first + 1) for first in (0, *ends[:-1])) > 0.04
    assert np.median([gap(end - 1, end) for end in ends[:-1]]) < 0.03


def test_shares_and_categories_are_proportional():
    assert shares(10, [2, 1, 1]).tolist() == [5, 3, 2]
    assert shares(0, [1, 2]).tolist() == [0, 0]
    weights, parent = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0, 1, 1, 0])
    assert draw_category(random_numbers(1), weights, (parent,), 4).tolist() == [0, 1, 1, 0]
    drawn = draw_category(random_numbers(1), np.array([1.0, 2.0, 1.0]), (), 40_000)
    # Seeded; six standard deviations of 40,000 draws.
    assert np.bincount(drawn) / 40_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.015)


def test_week_of_a_stream_depends_on_no_other_week():
    stream, week = GENERATORS["rides_stream"], 7 * 86400
    weeks = [WEEK["start"] + week * number for number in (0, 1, 52)]
    alone, *others = (stream(seed=3, rows=9_000, start=at, end=at + 1) for at in weeks)
    both = stream(seed=3, rows=9_000, start=weeks[0], end=weeks[1] + 1)
    assert both.slice(0, 9_000).equals(alone)
    times = alone.column("ended_at").to_pylist()
    assert times == sorted(times)
    assert times[0] >= "2026-01-05T00:00:00Z"
    assert times[-1] < "2026-01-12T00:00:00Z"
    # Most riders stay for the next week, and none for a year.
    riders = [set(table.column("rider").to_pylist()) for table in (alone, *others)]
    assert len(riders[0] & riders[1]) > len(riders[0]) / 2
    assert not riders[0] & riders[2]
