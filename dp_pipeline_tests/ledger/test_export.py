"""What a reader is shown of a ledger, and what is never in it."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.export import COLUMNS, export_lines
from dp_pipeline_tests.ledger.population import account, charge, release

SECRETS = {
    "run": "run-7f3a",
    "asset": "asset-7",
    "transcript": "c0ffee" * 8,
    "fingerprint": "fade" * 16,
}
PUBLIC = {"dataset": "trips", "model": "grid", "epsilon": "0.1", "snapshot": "2026-11-21"}


@pytest.fixture
def exported(ledger: Ledger) -> Ledger:
    """Opened, a source claimed with a reason, two releases of which one ended, raised, retired."""
    new_charge = replace(charge("a"), facts={**PUBLIC, **SECRETS, "measuring": '{"k": "8"}'})
    source, reason = "csv:/srv/secret/trips.csv", "riders of another city"
    ledger.open_account(account("others"))
    ledger.claim_source("others", source)
    ledger.claim_source("trips", source, distinct_population=reason)
    release(ledger, new_charge, "0.04", "0.06")
    release(ledger, charge("b"))
    ledger.raise_ceiling(
        "trips", ceiling=Fraction(2), per_month=Fraction(1), reason="more", by="ana"
    )
    ledger.retire("trips", ["trips/2026-11-21"], by="ana")
    return ledger


def test_every_exported_event_is_one_line(exported: Ledger):
    lines = [line for line, _ in export_lines(exported.entries())]
    events = [(line["population"], line["event"]) for line in lines]
    assert events == [
        ("trips", "opened"),
        ("others", "opened"),
        ("trips", "distinct population"),
        ("trips", "release"),
        ("trips", "release"),
        ("trips", "raised"),
        ("trips", "retired"),
    ]
    assert all(tuple(line) == COLUMNS or set(line) <= set(COLUMNS) for line in lines)
    assert lines[2]["reason"] == "riders of another city"
    assert (lines[5]["ceiling"], lines[5]["per_month"], lines[5]["reason"]) == ("2", "1", "more")
    assert lines[6]["snapshot"] == "trips/2026-11-21"


def test_a_release_says_what_was_asked_charged_and_drawn(exported: Ledger):
    releases = [
        entry for entry in export_lines(exported.entries()) if entry[0]["event"] == "release"
    ]
    (first, spends), (second, none) = releases
    assert {name: first[name] for name in PUBLIC} == PUBLIC
    assert (first["charged"], first["total"], first["state"]) == ("0.1", "0.1", "settled")
    assert first["parameters"] == '{"k": "8"}'
    assert [spend["amount"] for spend in spends] == ["1/25", "3/50"]
    assert (second["charged"], second["total"], second["state"]) == ("0.1", "0.2", "unfinished")
    assert none == []


def test_nothing_that_belongs_to_the_steward_is_exported(exported: Ledger):
    lines = export_lines(exported.entries())
    hidden = [*SECRETS.values(), "/srv/secret", "ana", charge("a").key[:12]]
    hidden += [entry.hash[:12] for entry in exported.entries()]
    assert [secret for secret in hidden if secret in json.dumps(lines)] == []


def test_of_a_time_only_the_day_is_left(exported: Ledger):
    lines = export_lines(exported.entries())
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", line["date"]) for line, _ in lines)
    assert exported.entries()[0].time[11:19] not in json.dumps(lines)


def test_an_interruption_is_not_exported(exported: Ledger):
    before = export_lines(exported.entries())
    release(exported, charge("b"))
    assert exported.state(charge("b").key) == "interrupted"
    assert export_lines(exported.entries()) == before
