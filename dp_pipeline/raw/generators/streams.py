"""Made-up rides with a time: a city whose demand drifts from week to week, for windows.

rides_stream   rides of riders who stay for many weeks; bicycles go in summer, offices grow
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators import draw_category, draw_one_of_many, random_numbers
from dp_pipeline.raw.generators.places import HEIGHT, HUBS, WIDTH, drawn_places
from dp_pipeline.spec.clock import DAY
from dp_pipeline.spec.encoding import FloatArray, IntArray

WEEK = 7 * DAY
MONDAY = 4 * DAY
"""The first Monday after 1970-01-01, which was a Thursday, in seconds."""

RIDERS, NEW_RIDERS = 5_000, 250
"""Riders of a week, and those of them who are new: everybody stays for twenty weeks."""
HEAVY_TAIL, MOST_TIMES_USUAL = 1.6, 100.0

VEHICLES = ("bicycle", "scooter", "tram", "car")
HOURS = np.array([1, 1, 1, 1, 1, 2, 4, 8, 10, 6, 4, 4, 5, 5, 4, 5, 7, 10, 9, 6, 4, 3, 2, 1.0])
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
END = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())


def rides_stream(
    seed: int = 0, rows: int = 15_000, *, start: int = START, end: int = END
) -> pa.Table:
    """Rides with the text ``rider``, the time ``ended_at`` (ISO 8601, UTC), the end point ``x``,
    ``y`` in km, ``vehicle``, ``minutes`` and ``member`` (yes or no).

    rows         of each week from Monday; every week is the same whatever others are asked for
    start, end   seconds since 1970 in UTC: the weeks that overlap with them, whole

    The shares of hubs move through the year and the offices' grows; bicycles are taken in summer.
    """
    weeks = range((start - MONDAY) // WEEK, -((MONDAY - end) // WEEK))
    return pa.concat_tables(_week(seed, week, rows) for week in weeks)


def _week(seed: int, week: int, rows: int) -> pa.Table:
    rng = random_numbers(seed * 1_000_003 + week)
    rider = NEW_RIDERS * week + draw_one_of_many(rng, _activity(seed, week), rows)
    season = math.cos(2 * math.pi * (week - 29) / 52)
    places = drawn_places(rng, rows, _hubs(season, week))
    vehicle = _vehicles(rng, season, places)
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


def _activity(seed: int, week: int) -> FloatArray:
    """How often each rider of a week rides (RIDERS,): the same number as long as she stays."""
    first = NEW_RIDERS * week // NEW_RIDERS
    cohorts = [
        random_numbers(seed * 1_000_003 - 1 - joined).pareto(HEAVY_TAIL, size=NEW_RIDERS)
        for joined in range(first, first + RIDERS // NEW_RIDERS)
    ]
    return np.minimum(1.0 + np.concatenate(cohorts), MOST_TIMES_USUAL)


def _hubs(season: float, week: int) -> FloatArray:
    """Weights of the hubs in a week."""
    years = (week - START // WEEK) / 52
    factors = np.array([1.0, 1.0, 1.0 - 0.4 * season, 1.0 + years, 1.0 + 0.6 * season, 1.0, 1.0])
    weights: FloatArray = HUBS[:, 3] * np.maximum(factors, 0.2)
    return weights


def _vehicles(rng: np.random.Generator, season: float, places: FloatArray) -> IntArray:
    """Codes of VEHICLES (rows,): far from the centre cars and trams, in summer bicycles."""
    is_far = (np.hypot(places[:, 0] - 14, places[:, 1] - 10.5) > 6).astype(np.int64)
    near = [3 + 1.5 * season, 2 + season, 3.0, 2.0]
    far = [1 + 0.5 * season, 0.5, 3.0, 5.0]
    return draw_category(rng, np.array([near, far]), (is_far,), len(places))


def _times(rng: np.random.Generator, week: int, rows: int) -> list[str]:
    day = draw_category(rng, np.array([1.0, 1.0, 1.0, 1.0, 1.2, 1.1, 0.8]), (), rows)
    hour = draw_category(rng, HOURS, (), rows)
    seconds = MONDAY + WEEK * week + DAY * day + 3600 * hour + rng.integers(0, 3600, size=rows)
    moments = np.sort(seconds).astype("datetime64[s]")
    return [f"{one}Z" for one in moments.astype(str).tolist()]
