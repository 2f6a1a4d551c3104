"""Two lineages over the same rows would be two budgets for the same persons."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline_tests.ledger.places import EVERYWHERE
from dp_pipeline_tests.ledger.population import account

SOURCE = "file:/data/trips.csv"


STORES = EVERYWHERE


@pytest.fixture
def lineages(ledger: Ledger) -> Ledger:
    """Two releases, trips and buses; two benchmarks, adult and census."""
    ledger.open_account(account("buses"))
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    ledger.open_account(account("census", ceiling="5", purpose="benchmark"))
    return ledger


def claims(ledger: Ledger) -> list[tuple[str, str | None, str | None]]:
    return [
        (entry.lineage, entry.source, entry.facts.get("distinct_population"))
        for entry in ledger.entries()
        if entry.event == "source"
    ]


@pytest.mark.parametrize("lineage", ["trips", "adult"])
def test_a_source_is_claimed_once_however_often_it_is_opened(lineages: Ledger, lineage: str):
    lineages.claim_source(lineage, SOURCE)
    lineages.claim_source(lineage, SOURCE)
    lineages.claim_source(lineage, SOURCE, distinct_population="said too late to matter")
    assert claims(lineages) == [(lineage, SOURCE, None)]


def test_a_lineage_may_have_many_sources(lineages: Ledger):
    lineages.claim_source("trips", SOURCE)
    lineages.claim_source("trips", "sha256:ab")
    assert len(claims(lineages)) == 2


def test_another_release_may_not_open_the_source(lineages: Ledger):
    lineages.claim_source("trips", SOURCE)
    with pytest.raises(DeclarationError, match=r"belongs to lineage trips.*distinct_population"):
        lineages.claim_source("buses", SOURCE)
    assert claims(lineages) == [("trips", SOURCE, None)]


def test_another_release_may_open_it_with_a_reason_that_is_kept(lineages: Ledger):
    lineages.claim_source("trips", SOURCE)
    lineages.claim_source("buses", SOURCE, distinct_population="drivers, not riders")
    lineages.claim_source("buses", SOURCE)
    lineages.claim_source("trips", SOURCE)
    assert claims(lineages)[1:] == [("buses", SOURCE, "drivers, not riders")]
    lineages.verify()


def test_benchmarks_share_sources(lineages: Ledger):
    lineages.claim_source("adult", SOURCE)
    lineages.claim_source("census", SOURCE)
    assert claims(lineages) == [("adult", SOURCE, None), ("census", SOURCE, None)]


@pytest.mark.parametrize("reason", [None, "it is public, believe me"])
def test_a_benchmark_never_opens_what_a_release_holds(lineages: Ledger, reason: str | None):
    lineages.claim_source("trips", SOURCE)
    with pytest.raises(DeclarationError, match="protected by lineage trips"):
        lineages.claim_source("adult", SOURCE, distinct_population=reason)
    assert claims(lineages) == [("trips", SOURCE, None)]


def test_a_release_opens_what_a_benchmark_holds_only_with_a_reason(lineages: Ledger):
    lineages.claim_source("adult", SOURCE)
    with pytest.raises(DeclarationError, match=r"adult \(benchmark\)"):
        lineages.claim_source("trips", SOURCE)
    lineages.claim_source("trips", SOURCE, distinct_population="a demonstration on public rows")
    assert claims(lineages)[1:] == [("trips", SOURCE, "a demonstration on public rows")]


def test_protection_is_one_way_even_for_the_benchmark_that_was_first(lineages: Ledger):
    lineages.claim_source("adult", SOURCE)
    lineages.claim_source("trips", SOURCE, distinct_population="new rows are private")
    for benchmark in ("adult", "census"):
        with pytest.raises(DeclarationError, match="protected by lineage trips"):
            lineages.claim_source(benchmark, SOURCE)
    lineages.claim_source("trips", SOURCE)


@pytest.mark.parametrize("source", ["", "a\0b", "file:\udcff"])
def test_a_source_that_cannot_be_stored_is_refused(lineages: Ledger, source: str):
    with pytest.raises(DeclarationError, match="source of lineage trips"):
        lineages.claim_source("trips", source)


def test_an_empty_reason_is_no_reason(lineages: Ledger):
    lineages.claim_source("trips", SOURCE)
    with pytest.raises(DeclarationError, match="distinct_population"):
        lineages.claim_source("buses", SOURCE, distinct_population=" ")


@pytest.mark.parametrize("lineage", ["adult", "nobody_yet"])
def test_rows_that_nobody_protects_may_be_shown_without_a_claim(lineages: Ledger, lineage: str):
    lineages.claim_source("census", SOURCE)
    lineages.require_public(lineage, SOURCE)
    assert claims(lineages) == [("census", SOURCE, None)]


def test_rows_of_a_release_lineage_are_not_shown_whatever_a_file_calls_them(lineages: Ledger):
    with pytest.raises(DeclarationError, match=r"trips: opened with purpose 'release'"):
        lineages.require_public("trips", "sha256:never-claimed")


@pytest.mark.parametrize("lineage", ["adult", "nobody_yet"])
def test_a_source_that_a_release_lineage_holds_is_not_shown_under_another_name(
    lineages: Ledger, lineage: str
):
    lineages.claim_source("adult", SOURCE)
    lineages.claim_source("trips", SOURCE, distinct_population="new rows from now on")
    with pytest.raises(DeclarationError, match=r"protected by lineage trips"):
        lineages.require_public(lineage, SOURCE)


URL = "https://example.org/d/a.csv"
SPELLED = (
    *(
        "https://example.org:443/d/a.csv",
        "https://example.org./d/a.csv",
        "https://EXAMPLE.org/d/a.csv",
    ),
    *("https://example.org/d/./a.csv", "https://example.org/d/x/../a.csv"),
    *("https://example.org/d//a.csv", "https://example.org/d/%61.csv"),
)


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_source_is_known_again_however_it_is_spelled(lineages: Ledger, spelled: str):
    lineages.claim_source("trips", URL)
    with pytest.raises(DeclarationError, match="belongs to lineage trips"):
        lineages.claim_source("buses", spelled)
    with pytest.raises(DeclarationError, match="protected by lineage trips"):
        lineages.claim_source("adult", spelled)
    with pytest.raises(DeclarationError, match="protected by lineage trips"):
        lineages.require_public("nobody_yet", spelled)


@pytest.mark.parametrize(
    "before", ["csv:/data/trips.csv", "parquet:/data/trips.csv", "parquet:/data"]
)
def test_a_claim_under_a_name_of_before_holds(lineages: Ledger, before: str):
    lineages.claim_source("trips", before)
    for lineage in ("buses", "adult"):
        with pytest.raises(DeclarationError, match="lineage trips"):
            lineages.claim_source(lineage, SOURCE)


def test_a_hard_link_to_a_claimed_file_is_not_opened_by_another(lineages: Ledger, tmp_path: Path):
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("x\n")
    other.hardlink_to(one)
    lineages.claim_source("trips", f"file:{one}")
    with pytest.raises(DeclarationError, match="lineage trips"):
        lineages.claim_source("buses", f"file:{other}")
    with pytest.raises(DeclarationError, match="lineage trips"):
        lineages.require_public("adult", f"file:{other}")
    assert claims(lineages) == [("trips", f"file:{one}", None)]
