"""Generators of places: Gaussian clusters of points in random order, and rides of persons.

``rides_stream`` has a time, for windows: its riders stay for many weeks, in a city whose demand
drifts.
"""

import math
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa

from dp_pipeline.config.clock import DAY
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.raw.generators import draw_category, draw_one_of_many, random_numbers, shares


def _draw_clusters(
    rng: np.random.Generator, centres: FloatArray, spreads: FloatArray, sizes: IntArray
) -> tuple[FloatArray, IntArray]:
    cluster = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    noise = rng.standard_normal((len(cluster), centres.shape[1]))
    return centres[cluster] + spreads[cluster, None] * noise, cluster


def _labels(cluster: IntArray) -> pa.Array:
    return pa.array((cluster + 1).astype(str).tolist(), pa.string())


BIRCH3_CLUSTERS = 100
SIDE = 1e6
NARROWEST, WIDEST = 8_000.0, 30_000.0


def birch3_like(seed: int = 0, rows: int = 100_000) -> pa.Table:
    """Return generated points x, y: integers in the box [0, 1e6]², in 100 clusters.

    Centres are uniform in the box, standard deviations uniform from 8,000 to 30,000, sizes a
    uniform random split of ``rows``. Points past the box are moved to its edge.
    """
    rng = random_numbers(seed)
    centres = rng.uniform(0.0, SIDE, size=(BIRCH3_CLUSTERS, 2))
    spreads = rng.uniform(NARROWEST, WIDEST, size=BIRCH3_CLUSTERS)
    sizes = rng.multinomial(rows, rng.dirichlet(np.ones(BIRCH3_CLUSTERS)))
    points, _ = _draw_clusters(rng, centres, spreads, sizes)
    points = np.rint(np.clip(points, 0.0, SIDE))
    return pa.table({"x": points[:, 0], "y": points[:, 1]})


DENSE = [(140_000.0, 350_000.0), (180_000.0, 400_000.0), (210_000.0, 350_000.0)]
SPARSE = [(440_000.0, 300_000.0), (440_000.0, 400_000.0), (490_000.0, 350_000.0)]
SPARSE += [(540_000.0, 300_000.0), (540_000.0, 400_000.0)]


def unbalance_like(seed: int = 0, rows: int = 6_500) -> pa.Table:
    """Return generated points x, y in the box [0, 1e6]² with their cluster ``label``, from 1 to 8.

    With 6,500 rows 3 × 2,000 points are dense (labels 1 to 3) and 5 × 100 sparse; other numbers
    of rows keep the proportion 20 : 1.
    """
    rng = random_numbers(seed)
    dense, sparse = len(DENSE), len(SPARSE)
    spreads = np.array([8_000.0] * dense + [6_000.0] * sparse)
    sizes = shares(rows, [20] * dense + [1] * sparse)
    points, cluster = _draw_clusters(rng, np.array(DENSE + SPARSE), spreads, sizes)
    points = np.rint(np.clip(points, 0.0, SIDE))
    return pa.table({"x": points[:, 0], "y": points[:, 1], "label": _labels(cluster)})


CENTRES = np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, 0.0)])


def pytest2d(seed: int = 0, rows: int = 10_000) -> pa.Table:
    """Return generated points x, y of five equal clusters at (±1, ±1) and (0, 0).

    Their standard deviation is 0.2. Rare points outside the box (−2, 2)² are moved to its edge.
    """
    k = len(CENTRES)
    points, _ = _draw_clusters(
        random_numbers(seed), CENTRES, np.full(k, 0.2), shares(rows, [1] * k)
    )
    edge = np.nextafter(2.0, 0.0)
    points = np.clip(points, -edge, edge)
    return pa.table({"x": points[:, 0], "y": points[:, 1]})


MIXTURE_CLUSTERS = 8


def mixture(seed: int = 0, rows: int = 100_000, *, dimensions: int) -> pa.Table:
    """Return generated points x1, …, xd in the box [−1, 1]^d with their cluster ``label``, 1 to 8.

    Centres are uniform in [−0.7, 0.7]^d, every standard deviation is 0.08, clusters are equal in
    size up to one row. Points past the box are moved to its edge.
    """
    rng, k = random_numbers(seed), MIXTURE_CLUSTERS
    centres = rng.uniform(-0.7, 0.7, size=(k, dimensions))
    points, cluster = _draw_clusters(rng, centres, np.full(k, 0.08), shares(rows, [1] * k))
    points = np.clip(points, -1.0, 1.0)
    columns: dict[str, pa.Array] = {f"x{a + 1}": pa.array(points[:, a]) for a in range(dimensions)}
    return pa.table(columns | {"label": _labels(cluster)})


mixture4, mixture6, mixture8 = (partial(mixture, dimensions=d) for d in (4, 6, 8))


WIDTH, HEIGHT = 30.0, 20.0  # The city's box in km: x from 0 to 30, y from 0 to 20

# Hubs: x, y, standard deviation (km), weight.
HUBS = np.array(
    [
        (14.0, 10.5, 0.9, 0.26),  # centre
        (15.5, 12.5, 0.5, 0.12),  # main station
        (7.0, 14.0, 0.7, 0.10),  # university
        (22.5, 7.0, 0.8, 0.10),  # offices
        (19.0, 15.5, 0.6, 0.07),  # stadium
        (10.0, 5.0, 1.1, 0.08),  # southern suburb
        (27.0, 16.5, 0.4, 0.06),  # airport
    ]
)
CORRIDOR = np.array([(3.0, 3.0), (26.0, 11.5)])  # Ends of a tram line, with places 0.3 km around
CORRIDOR_WEIGHT, BACKGROUND_WEIGHT = 0.13, 0.08
TRIPS_A_RIDER = 8.0
# Pareto exponent of a rider's activity, and its maximum relative to the least active one.
HEAVY_TAIL, MAX_TIMES_USUAL = 1.6, 100.0

FAVOURITES = 4
FAVOURITE_SHARE, NEAR = 0.75, 0.12
OUTSIDE_SHARE, OUTSIDE_REACH = 0.004, 4.0


def trips_like(seed: int = 0, rows: int = 60_000) -> pa.Table:
    """Return generated trips (rows,) with the text ``rider`` and the end point ``x``, ``y`` in km.

    The city is fixed: seven hubs, a corridor, a background. A rider makes about 8 trips, with
    a heavy tail (some make hundreds), three in four of them to one of her own four favourite
    places. About 4 in 1,000 trips end up to 4 km outside of the box [0, 30] × [0, 20].
    """
    rng = random_numbers(seed)
    activity = 1.0 + rng.pareto(HEAVY_TAIL, size=max(1, round(rows / TRIPS_A_RIDER)))
    rider = draw_one_of_many(rng, np.minimum(activity, MAX_TIMES_USUAL), rows)
    riders = int(rider.max(initial=0)) + 1
    favourites = draw_places(rng, riders * FAVOURITES).reshape(riders, FAVOURITES, 2)
    habit = draw_category(rng, np.array([8.0, 4.0, 2.0, 1.0]), (), rows)
    near = favourites[rider, habit] + NEAR * rng.standard_normal((rows, 2))
    is_favourite = rng.random(rows) < FAVOURITE_SHARE
    ends = np.where(is_favourite[:, None], near, draw_places(rng, rows))
    # Some rides end outside the city, on the left or on the right of the box.
    is_outside = rng.random(rows) < OUTSIDE_SHARE
    distance = rng.uniform(0.01, OUTSIDE_REACH, size=rows)
    outside_x = np.where(rng.random(rows) < 0.5, -distance, WIDTH + distance)
    ends[:, 0] = np.where(is_outside, outside_x, ends[:, 0])
    ends = np.round(ends, 3)
    names = [f"r{number:06d}" for number in rider.tolist()]
    return pa.table({"rider": pa.array(names, pa.string()), "x": ends[:, 0], "y": ends[:, 1]})


def draw_places(rng: np.random.Generator, count: int, hubs: FloatArray = HUBS[:, 3]) -> FloatArray:
    """Return random points (count, 2) around hubs, along a corridor or anywhere in the city's box.

    hubs   weight of each hub
    """
    kinds = len(HUBS)
    weights = np.array([*hubs, CORRIDOR_WEIGHT, BACKGROUND_WEIGHT])
    kind = draw_category(rng, weights, (), count)
    noise = rng.standard_normal((count, 2))
    along, anywhere = rng.random((count, 1)), rng.random((count, 2)) * (WIDTH, HEIGHT)
    hub = np.minimum(kind, kinds - 1)
    at_hub = HUBS[hub, :2] + HUBS[hub, 2:3] * noise
    on_corridor = CORRIDOR[0] + along * (CORRIDOR[1] - CORRIDOR[0]) + 0.3 * noise
    places = np.select(
        [(kind < kinds)[:, None], (kind == kinds)[:, None]], [at_hub, on_corridor], anywhere
    )
    inside: FloatArray = np.clip(places, 0.0, (WIDTH, HEIGHT))
    return inside


WEEK = 7 * DAY
MONDAY = 4 * DAY  # The first Monday after 1970-01-01, which was a Thursday, in seconds
RIDERS, NEW_RIDERS = 5_000, 250  # Of a week, and new ones among them, who stay for twenty weeks

VEHICLES = ("bicycle", "scooter", "tram", "car")
HOURS = np.array([1, 1, 1, 1, 1, 2, 4, 8, 10, 6, 4, 4, 5, 5, 4, 5, 7, 10, 9, 6, 4, 3, 2, 1.0])
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
END = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())


def rides_stream(
    seed: int = 0, rows: int = 15_000, *, start: int = START, end: int = END
) -> pa.Table:
    """Return generated rides with rider, time, end point, vehicle, minutes and membership.

    The columns are the text ``rider``, ``ended_at`` (ISO 8601, UTC), ``x`` and ``y`` in km,
    ``vehicle``, ``minutes`` and ``member`` (yes or no).

    rows         rides of each week from Monday; a week does not depend on the others
    start, end   seconds since 1970 in UTC; all weeks that overlap with them are generated

    The shares of hubs change through the year and the offices' grows; summers have more bicycles.
    """
    weeks = range((start - MONDAY) // WEEK, -((MONDAY - end) // WEEK))
    return pa.concat_tables(_week(seed, week, rows) for week in weeks)


def _week(seed: int, week: int, rows: int) -> pa.Table:
    rng = random_numbers(seed * 1_000_003 + week)
    # A rider keeps her weight in later weeks.
    cohorts = [
        random_numbers(seed * 1_000_003 - 1 - week_joined).pareto(HEAVY_TAIL, size=NEW_RIDERS)
        for week_joined in range(week, week + RIDERS // NEW_RIDERS)
    ]
    rider_weights = np.minimum(1.0 + np.concatenate(cohorts), MAX_TIMES_USUAL)
    rider = NEW_RIDERS * week + draw_one_of_many(rng, rider_weights, rows)
    season, years = math.cos(2 * math.pi * (week - 29) / 52), (week - START // WEEK) / 52
    factors = np.array([1.0, 1.0, 1.0 - 0.4 * season, 1.0 + years, 1.0 + 0.6 * season, 1.0, 1.0])
    places = draw_places(rng, rows, HUBS[:, 3] * np.maximum(factors, 0.2))
    is_far = (np.hypot(places[:, 0] - 14, places[:, 1] - 10.5) > 6).astype(np.int64)
    near_weights = [3 + 1.5 * season, 2 + season, 3.0, 2.0]
    far_weights = [1 + 0.5 * season, 0.5, 3.0, 5.0]
    vehicle = draw_category(rng, np.array([near_weights, far_weights]), (is_far,), rows)
    away = np.hypot(*(places - (WIDTH / 2, HEIGHT / 2)).T)
    minutes = np.clip(np.rint(3 + away * 2 + 4 * rng.standard_exponential(rows)), 1, 120)
    is_member = rng.random(rows) < np.where(vehicle < 2, 0.7, 0.35)
    return pa.table(
        {
            "rider": pa.array([f"r{number:07d}" for number in rider.tolist()], pa.string()),
            "ended_at": pa.array(_times(rng, week, rows), pa.string()),
            "x": np.round(places[:, 0], 3),
            "y": np.round(places[:, 1], 3),
            "vehicle": pa.array([VEHICLES[code] for code in vehicle.tolist()], pa.string()),
            "minutes": minutes,
            "member": pa.array(np.where(is_member, "yes", "no").tolist(), pa.string()),
        }
    )


def _times(rng: np.random.Generator, week: int, rows: int) -> list[str]:
    day = draw_category(rng, np.array([1.0, 1.0, 1.0, 1.0, 1.2, 1.1, 0.8]), (), rows)
    hour = draw_category(rng, HOURS, (), rows)
    seconds = MONDAY + WEEK * week + DAY * day + 3600 * hour + rng.integers(0, 3600, size=rows)
    moments = np.sort(seconds).astype("datetime64[s]")
    return [f"{moment}Z" for moment in moments.astype(str).tolist()]
