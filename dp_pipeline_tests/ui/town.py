"""The data sets that the browser looks at: places and answers of a made-up town, quick to run."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from dp_pipeline_tests.orchestration.projects import Declaration, Project

RIDES: Declaration = {
    "title": "Where rides end",
    "description": "Where the rides of one month ended, in a made-up town of five quarters.",
    "population": "riders",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "rider", "at_most": "2"},
    "ceiling": {"total": "2"},
    "source": {"kind": "csv", "path": "rides.csv"},
    "attributes": {"x": {"bounds": ["0", "30"]}, "y": {"bounds": ["0", "20"]}},
    "nominal_rows": "20000",
    "partitions": ["0.1", "0.5", "1"],
    "models": {"eug_kmeans": {"k": "5"}},
    "evaluation": {"epsilon": "0.05"},
    "publish": {"model": "eug_kmeans", "epsilon": "0.5"},
}
HOMES: Declaration = {
    "title": "Homes of the town",
    "description": "Rooms, rent and tenure of every home of a made-up town.",
    "population": "tenants",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "4"},
    "source": {"kind": "csv", "path": "homes.csv"},
    "attributes": {
        "rooms": {"bounds": ["1", "9"], "bins": "8", "integer": "true"},
        "rent": {"bounds": ["0", "3000"], "bins": "6"},
        "tenure": {"levels": ["owner", "renter", "other"], "other": "other"},
    },
    "nominal_rows": "3000",
    "partitions": ["0.5", "1"],
    "models": {"one_shot": {}},
    "evaluation": {"epsilon": "0.05"},
}
OCTOBER = ["2026-10-01", "2026-10-31"]
SHOPS: Declaration = {
    "title": "What was bought",
    "description": "Purchases in the shops of a made-up town; which zones there are, nobody knows.",
    "population": "customers",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "customer", "at_most": "2"},
    "ceiling": {"total": "6", "delta": "0.000002"},
    "source": {"kind": "csv", "path": "shops.csv", "delimiter": ";"},
    "attributes": {
        "day": {
            "type": "date",
            "bounds": ["2026-10-01", "2026-10-31"],
            "every": "week",
            "format": "%d.%m.%Y",
        },
        "zone": {"levels": "discover", "at_most": "20"},
        "fare": {"bounds": "discover", "unit": "0.5", "bins": {"quantiles": "8"}, "decimal": ","},
        "age": {"bounds": ["0", "80"], "bins": "4", "integer": "true"},
        "card": {"levels": ["child", "adult"]},
    },
    "constraints": {"never": {"age": "[0, 20)", "card": "adult"}},
    "discover": {"epsilon": "1", "delta": "0.000001"},
    "partitions": ["0.5", "1"],
    "models": {"one_shot": {}},
}
WEEKS: Declaration = {
    "title": "Rides, week by week",
    "description": "Where the rides of a made-up town ended, cut into the weeks of 2026.",
    "population": "weekly_riders",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "rider", "at_most": "2", "within": "window"},
    "windows": {"column": "ended", "every": "week", "first": "2026-W01", "grace": "2 days"},
    "ceiling": {"each_window": "2"},
    "source": {"kind": "csv", "path": "weeks.csv"},
    "attributes": {"x": {"bounds": ["0", "30"]}, "y": {"bounds": ["0", "20"]}},
    "partitions": ["0.5"],
    "models": {"htree_kmeans": {"k": "5", "plan_from": "previous", "smooth": "true"}},
    "publish": {"model": "htree_kmeans", "epsilon": "0.5"},
    "evaluation": {"epsilon": "0.05"},
}
QUARTERS = ((6, 5), (9, 15), (17, 10), (24, 16), (25, 4))
"""The middles of the five quarters."""
MONDAY = datetime(2025, 12, 29)
"""Of 2026-W01."""


def monday_before(weeks: int) -> datetime:
    """When the week began that was so many weeks ago; 0: this one."""
    midnight = datetime.combine(datetime.now(UTC).date(), datetime.min.time())
    return midnight - timedelta(days=midnight.weekday(), weeks=weeks)


PAIR_WEEKS = tuple(f"{monday_before(ago):%G-W%V}" for ago in (4, 3, 2, 1))
"""The last weeks that are over when the tests begin: a schedule asks for the newest of them."""
PAIRS: Declaration = {
    **WEEKS,
    "title": "Rides, two weeks at a time",
    "description": "Where the rides of a made-up town ended, each week together with that before.",
    "population": "pair_riders",
    "windows": {"column": "ended", "every": "week", "first": PAIR_WEEKS[0]},
    "source": {"kind": "csv", "path": "pairs.csv"},
    "partitions": ["0.1", "0.5"],
    "models": {"htree_kmeans": {"k": "5"}},
    "publish": {"model": "htree_kmeans", "epsilon": "0.5", "span": "2"},
}


def declare_town(project: Project) -> None:
    for name, declaration, rows in (
        ("rides", RIDES, _rides()),
        ("homes", HOMES, _homes()),
        ("shops", SHOPS, _shops()),
        ("weeks", WEEKS, _weeks(MONDAY)),
        ("pairs", PAIRS, _weeks(monday_before(4))),
    ):
        project.write_declaration(name, declaration)
        project.write_rows(f"{name}.csv", rows)


def _rides(rows: int = 20_000) -> Iterator[str]:
    random = np.random.default_rng(5)
    yield "rider,x,y"
    places = random.normal(np.array(QUARTERS)[random.integers(5, size=rows)], 1.2)
    for row, (x, y) in enumerate(places):
        yield f"r{row // 2},{x:.2f},{y:.2f}"


def _weeks(monday: datetime, weeks: int = 4, rows: int = 4000) -> Iterator[str]:
    """Rides of some weeks from a Monday on, some more in each."""
    random = np.random.default_rng(8)
    yield "rider,ended,x,y"
    for week in range(weeks):
        many = rows + 500 * week
        places = random.normal(np.array(QUARTERS)[random.integers(5, size=many)], 1.2)
        for row, (x, y) in enumerate(places):
            moment = monday + timedelta(weeks=week, minutes=row % 10_000)
            yield f"r{row // 2},{moment.isoformat()},{x:.2f},{y:.2f}"


def _shops(rows: int = 8000) -> Iterator[str]:
    random = np.random.default_rng(7)
    yield "customer;day;zone;fare;age;card"
    for row in range(rows):
        zone = ["Altstadt", "Hafen", "Messe", "Ried"][random.integers(4)]
        age = int(random.integers(0, 80))
        fare = f"{random.lognormal(2, 0.7):.1f}".replace(".", ",")
        card = "child" if age < 20 else "adult"
        yield f"c{row // 2};{1 + row % 31:02d}.10.2026;{zone};{fare};{age};{card}"
    yield f"c{rows};05.10.2026;Nirgendwo 7;6,5;30;adult"
    yield f"c{rows + 1};05.10.2026;Ried;6,5;5;adult"


def _homes(rows: int = 3000) -> Iterator[str]:
    random = np.random.default_rng(6)
    yield "rooms,rent,tenure"
    for rooms in random.integers(1, 9, size=rows):
        rent = 250 * rooms + random.normal(200, 120)
        owner = random.random() < rooms / 10
        yield f"{rooms},{max(rent, 0):.0f},{'owner' if owner else 'renter'}"
