"""A folder of Parquet files and a file in it hold the same persons: one budget, not two."""

from __future__ import annotations

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import first_overlap
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.population import account

FOLDER, FILE = "file:/data/rides", "file:/data/rides/2026/may.parquet"


@pytest.mark.parametrize(("first", "second"), [(FOLDER, FILE), (FILE, FOLDER)])
def test_another_release_may_not_open_what_overlaps(ledger: Ledger, first: str, second: str):
    ledger.open_account(account("buses"))
    ledger.claim_source("trips", first)
    with pytest.raises(DeclarationError, match="belongs to population trips"):
        ledger.claim_source("buses", second)
    ledger.claim_source("buses", second, distinct_population="drivers, not riders")


@pytest.mark.parametrize(("first", "second"), [(FOLDER, FILE), (FILE, FOLDER)])
def test_a_benchmark_never_opens_what_overlaps_with_a_release(
    ledger: Ledger, first: str, second: str
):
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    ledger.claim_source("trips", first)
    with pytest.raises(DeclarationError, match="is protected by population trips"):
        ledger.claim_source("adult", second, distinct_population="a reason changes nothing")
    with pytest.raises(DeclarationError, match="is protected by population trips"):
        ledger.require_claimable("adult", second)


def test_a_population_may_hold_a_folder_and_a_file_in_it_each_with_its_row(ledger: Ledger):
    for source in (FOLDER, FILE, FOLDER, FILE):
        ledger.claim_source("trips", source)
    assert [one.source for one in ledger.entries() if one.event == "source"] == [FOLDER, FILE]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FOLDER, "file:/data/rides_2/may.parquet"),
        (FOLDER, "file:/data/rides_2.csv"),
        ("https://x.org/a", "https://x.org/a/b.csv"),
        ("sql:postgresql://h:5432/a", "sql:postgresql://h:5432/a/b"),
    ],
)
def test_other_names_are_other_sources(one: str, other: str):
    assert first_overlap([one], [other]) is None
    assert first_overlap([other], [one]) is None
    assert first_overlap([one], [one]) == (one, one)
