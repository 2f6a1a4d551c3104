"""Releases written by hand whose charges add up, and how they are written into a folder."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.clock import Clock, ClockBins
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.export.contents import write_contents
from dp_pipeline.export.tables import DELIMITERS, has_missing, read_resource, types_of
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.pages import card
from dp_pipeline.reporting.releases import ReportedPrivateRelease, ReportedRelease
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, Spend
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import Columns
from dp_pipeline.results.measurement import NoisyMarginal, NoisyNumber
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.spreadsheet import escape_formula
from dp_pipeline_tests.reporting.samples import bundle, spec

QUARTER = Fraction(1, 4)
DELTA = Fraction(1, 10**9)
STRANGE = ("=1+1", "two, or\nmore", 'a "b"')
"""Levels that a spreadsheet would compute, and that CSV has to quote."""

PEOPLE = Domain(
    (
        Attribute(
            "age", "Age", "clip", Coordinate(0.0, 90.0), Bins((0.0, 30.0, 90.0)), is_integer=True
        ),
        Attribute("kind", "Kind", "drop", cells=Levels(STRANGE)),
        Attribute(
            "income", "Income", "clip", Coordinate(0.0, 9.0), Bins((0.0, 1.5, 9.0)), nullable=True
        ),
        Attribute(
            "born", "Born", "drop", Coordinate(0.0, 99.0), ClockBins.equal(Clock("date"), 0, 99, 2),
            clock=Clock("date"), nullable=True,
        ),
        Attribute(
            "seen", "Seen", "drop", Coordinate(0.0, 999.0),
            ClockBins.equal(Clock("timestamp"), 0, 999, 2), clock=Clock("timestamp"),
        ),
        Attribute(
            "left", "Left", "drop", Coordinate(0.0, 99.0),
            ClockBins.equal(Clock("date"), 0, 99, 2), clock=Clock("date", format="%d.%m.%Y"),
        ),
    )
)  # fmt: skip
CODES = np.array(
    [[0, 0, 0, 0, 0, 0], [1, 1, 2, 1, 1, 1], [1, 2, 1, 2, 0, 1], [0, 0, 2, 0, 1, 0]]
)  # fmt: skip
CITY = Domain(
    tuple(
        Attribute(name, name, "clip", Coordinate(low, low + 1))
        for name, low in (("lat", 47.0), ("lon", 8.0), ("hour", 0.0))
    )
)
CENTRES = {"lat": [47.25, 47.75], "lon": [8.5, 8.125], "hour": [0.5, 0.25]}


def laplace(what: str, epsilon: Fraction) -> Spend:
    """A charge whose scale proves it."""
    return Spend(what, LAPLACE, epsilon, 1, 1 / epsilon)


def table_release(**facts: str) -> ReportedPrivateRelease:
    """Four synthetic people with missing values, dates and levels that CSV has to guard, at
    ε = 0.5 with a quarter of it for its evaluation.
    """
    measured = (NoisyMarginal(("kind",), np.array([2, 1, -1]), Fraction(4)),)
    model = SyntheticTable(PEOPLE.names, CODES, measured, (("kind",),), (), PEOPLE, seed=3)
    made = bundle(
        tables=model.tables(),
        spends=(laplace("marginal of kind", QUARTER), laplace("error", QUARTER)),
        quality={"avd_2": NoisyNumber(0.25, 0.01, "share")},
        facts={"epsilon": "0.25", "evaluation": "0.25", "purpose": "release", **facts},
    )
    return _reported(made, domain=PEOPLE)


def map_release(
    *, domain: Domain = CITY, **tables: dict[str, np.ndarray]
) -> ReportedPrivateRelease:
    """Two centres in a city with the hour, and the four boxes that they were made of."""
    first, second = domain.names[:2]
    lows = {name: domain[name].coordinate.lower for name in domain.names}  # type: ignore[union-attr]
    corner = np.array([0.0, 0.0, 0.5, 0.5]), np.array([0.0, 0.5, 0.0, 0.5])
    synopsis: dict[str, np.ndarray] = {}
    for name, low in zip((first, second), corner, strict=True):
        synopsis |= {f"{name}_lower": lows[name] + low, f"{name}_upper": lows[name] + low + 0.5}
    synopsis |= {"hour_lower": np.zeros(4), "hour_upper": np.ones(4)}
    synopsis |= {"weight": np.array([3.5, -1.0, 2.0, 7.0])}
    centres = {
        name: np.array(values) for name, values in zip(domain.names, CENTRES.values(), strict=True)
    }
    made = bundle(tables={"centres": centres, "synopsis": synopsis, **tables})
    return _reported(made, domain=domain)


def gaussian_release() -> ReportedPrivateRelease:
    """The same people by a model that accounts in ρ."""
    rho = rho_of(Fraction(1), DELTA)
    spend = Spend("marginal of kind", GAUSSIAN, rho, 1, 1 / (2 * rho), "zcdp")
    facts = {"epsilon": "1", "evaluation": "none", "delta": "1e-9", "currency": "zcdp"}
    release = table_release(**facts)
    made = replace(release.bundle, spends=(spend,), quality={})
    return replace(release, bundle=made, spec=replace(release.spec, delta=DELTA))


def _reported(made: Bundle, *, domain: Domain) -> ReportedPrivateRelease:
    own = spec(domain=domain, purpose="release", ceiling=Fraction(4))
    balance = Balance(ceiling=Fraction(4), spent=Fraction(1))
    return ReportedPrivateRelease(spec=own, bundle=made, summary="one table", balance=balance)


def exported(folder: Path, release: ReportedRelease, ending: str = "csv") -> Path:
    """The folder, with a release written into it."""
    folder.mkdir()
    write_contents(folder, release, card(release), ending, day="2026-11-27")
    return folder


def bad(checks: Any) -> list[str]:
    """What is said of the checks that fail."""
    return [check.line for check in checks if not check.is_good]


def read_back(path: Path, table: Columns, sign: str = ".") -> Columns:
    """What lies in a file of a table, read by an entry as in ``datapackage.json``."""
    types, is_csv = types_of(table), path.suffix == ".csv"
    names = {name: escape_formula(name) if is_csv else name for name in types}
    fields = [{"name": names[name], "type": type_} for name, type_ in types.items()]
    schema = {"fields": fields, "missingValues": [""] if has_missing(table) else []}
    resource = {"path": path.name, "schema": schema, "dialect": {"delimiter": DELIMITERS[sign]}}
    return read_resource(path.parent, resource)
