"""Rows of windows that the ledger did not write: what they charge, and which cannot be."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged
from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.ledger.entries import BLOCKS, DELTA
from dp_pipeline.ledger.state import Block, State
from dp_pipeline_tests.ledger.places import EVERYWHERE, Opens
from dp_pipeline_tests.ledger.population import (
    NANO,
    WHY,
    account,
    audit,
    charge,
    in_windows,
    raw,
    release,
    require_refused,
    weekly,
)
from dp_pipeline_tests.ledger.test_restoring import junk, named

STORES = EVERYWHERE
WEEKS = ("W01", "W02")


@pytest.fixture
def typed(rides: Ledger, on_file: None) -> Callable[[dict[str, Any]], None]:  # noqa: ARG001
    """Types a row that looks like a charge of 0.3 with such facts, and goes on beside it."""

    def types(facts: dict[str, Any], *, population: str = "rides") -> None:
        raw(rides.folder, junk(population=population, facts=json.dumps(facts)))
        rides.restore(named(rides), **WHY)

    return types


def test_a_strange_row_counts_on_the_windows_that_it_names(rides: Ledger, typed):
    release(rides, in_windows("a", "W01", epsilon="0.8"), "0.8")
    typed({BLOCKS: "W01 W02"})
    assert rides.blocks("rides") == {"W01": Fraction(11, 10), "W02": Fraction(3, 10)}
    assert rides.balance("rides").spent == Fraction(8, 10) + 2 * Fraction(3, 10)
    with pytest.raises(BudgetExceeded, match=r"in W02 0\.3"):
        release(rides, in_windows("b", "W02", epsilon="0.8"))
    assert release(rides, in_windows("c", "W03", epsilon="1"), "1") == "new"
    rides.verify()


@pytest.mark.parametrize("facts", [{}, {BLOCKS: "W02 W01"}, {BLOCKS: ""}, {BLOCKS: ["W01"]}])
def test_a_stray_without_readable_windows_counts_on_all(rides: Ledger, typed, facts):
    release(rides, in_windows("a", "W01", epsilon="0.8"), "0.8")
    typed(facts)
    assert rides.blocks("rides") == {"W01": Fraction(11, 10)}
    assert rides.balance("rides", ["W77"]).remaining == Fraction(7, 10)
    with pytest.raises(BudgetExceeded, match=r"in W77 0\.3"):
        release(rides, in_windows("b", "W77", epsilon="0.8"))
    release(rides, in_windows("b", "W77", epsilon="0.7"), "0.7")
    assert rides.balance("rides").spent == Fraction(18, 10)
    assert rides.blocks("rides")["W77"] == 1
    rides.verify()
    assert rides.restore(**WHY) == rides.verify()


def test_a_strange_delta_counts_on_all_windows_too(rides: Ledger, typed):
    typed({DELTA: str(NANO)})
    assert rides.balance("rides").delta_spent == NANO
    assert rides.balance("rides", ["W01"]).delta_spent == NANO
    rides.raise_ceiling("rides", delta_ceiling=2 * NANO, **WHY)
    with pytest.raises(BudgetExceeded, match="requested δ=2e-09, spent in W01 1e-09"):
        release(rides, in_windows("a", "W01", delta=2 * NANO))
    release(rides, in_windows("a", "W01", delta=NANO), "0.1")
    rides.verify()


def test_windows_of_a_stray_without_windows_are_not_copied(rides: Ledger, typed):
    rides.open_account(account())
    typed({BLOCKS: "W01"}, population="trips")
    assert BLOCKS not in rides.entries()[-1].facts
    assert (rides.blocks("trips"), rides.balance("trips").spent) == ({}, Fraction(3, 10))


def rows_of(ledger: Ledger) -> tuple[Entry, Entry]:
    """The row that opened rides, and the first that charged it."""
    entries = ledger.entries()
    return entries[0], next(entry for entry in entries if entry.event == "reserve")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"facts": {BLOCKS: "W01"}}, "it exceeds the limit 1 of W01"),
        ({"facts": {BLOCKS: "W00 W01 W02"}}, "it exceeds the limit 1 of W01"),
        ({"facts": {}}, "it names no time window, but the account of rides has windows"),
        ({"facts": {BLOCKS: "W02 W01"}}, "its windows cannot be read"),
    ],
)
def test_a_row_that_passes_a_window_or_names_none_cannot_be(rides: Ledger, change, words):
    release(rides, in_windows("a", "W01", epsilon="0.6"), "0.6")
    opened, first = rows_of(rides)
    with pytest.raises(Damaged, match=words):
        audit(opened, first, replace(first, key="ab" * 32, **change))


def test_a_row_counts_once_for_each_window_it_names(opens: Opens):
    ledger = opens(weekly(ceiling="1"))
    release(ledger, in_windows("a", "W77", epsilon="0.5"), "0.5")
    opened, first = rows_of(ledger)
    stray = replace(first, event="restored", key=None, nano_epsilon=300_000_000)
    for rows in (
        [replace(stray, facts={BLOCKS: "W01 W02"}), first],
        [replace(first, facts={BLOCKS: "W01 W02 W03"})],
    ):
        with pytest.raises(Damaged, match="it exceeds the ceiling 1"):
            audit(opened, *rows)


def test_a_row_that_names_windows_of_uncut_time_cannot_be(ledger: Ledger):
    release(ledger, charge(), "0.1")
    opened, first = rows_of(ledger)
    with pytest.raises(Damaged, match="it names time windows, but the account of trips has none"):
        audit(opened, replace(first, facts={BLOCKS: "W01"}))


def test_a_row_that_passes_the_delta_of_a_window_cannot_be(opens: Opens):
    ledger = opens(weekly(delta_ceiling=2 * NANO))
    release(ledger, in_windows("a", "W01", delta=2 * NANO), "0.1")
    opened, first = rows_of(ledger)
    spent, other = (
        replace(first, key="ab" * 32, facts={DELTA: str(NANO), BLOCKS: week}) for week in WEEKS
    )
    audit(opened, first, other)
    require_refused(Damaged, "it exceeds the ceiling of δ", lambda: audit(opened, first, spent))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nano_epsilon": 800_000_000}, "it exceeds the limit 1 of W77"),
        ({"facts": {BLOCKS: "W77", DELTA: str(2 * NANO)}}, "it exceeds the ceiling of δ"),
        ({"facts": {BLOCKS: "W77", DELTA: str(NANO)}}, ""),
    ],
)
def test_a_row_that_passes_a_window_with_strays_cannot_be(opens: Opens, changes, words: str):
    ledger = opens(weekly(delta_ceiling=2 * NANO))
    release(ledger, in_windows("a", "W77"), "0.1")
    opened, first = rows_of(ledger)
    stray = replace(first, event="restored", key=None, nano_epsilon=300_000_000)
    rows = opened, replace(stray, facts={DELTA: str(NANO)}), replace(first, **changes)
    with pytest.raises(Damaged, match=words) if words else nullcontext():
        audit(*rows)


def test_sums_of_windows_are_those_of_the_rows(rides: Ledger, store: str):
    release(rides, in_windows("a", "W01", "W02", epsilon="0.4"), "0.4")
    release(rides, in_windows("b", "W02", epsilon="0.3"), "0.3")
    computed = State()
    for entry in rides.entries():
        computed.take(entry, sequence=entry.sequence, time=entry.time)
        assert computed.digest == entry.state
    assert computed.block("rides", "W02") == Block(700_000_000)
    if store == "sqlite":
        cheaper = "UPDATE state SET value = replace(value, ':700000000', ':7') WHERE kind = 'block'"
        raw(rides.folder, cheaper, checks=False)
        queries = (lambda: rides.blocks("rides"), lambda: release(rides, in_windows("c", "W02")))
        require_refused(Damaged, "are not those of row", *queries)
