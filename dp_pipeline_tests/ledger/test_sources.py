"""Two populations over the same rows would be two budgets for the same persons."""

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Source, dataset_name
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.places import EVERYWHERE
from dp_pipeline_tests.ledger.population import account

SOURCE = "file:/data/trips.csv"
STORES = EVERYWHERE


@pytest.fixture
def populations(ledger: Ledger) -> Ledger:
    """Two releases, trips and buses; two benchmarks, adult and census."""
    ledger.open_account(account("buses"))
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    ledger.open_account(account("census", ceiling="5", purpose="benchmark"))
    return ledger


def claims(ledger: Ledger) -> list[tuple[str, str | None, str | None]]:
    return [
        (entry.population, entry.source, entry.facts.get("distinct_population"))
        for entry in ledger.entries()
        if entry.event == "source"
    ]


@pytest.mark.parametrize("population", ["trips", "adult"])
def test_a_source_is_claimed_once_however_often_it_is_opened(populations: Ledger, population: str):
    populations.claim_source(population, SOURCE)
    populations.claim_source(population, SOURCE)
    populations.claim_source(population, SOURCE, distinct_population="said too late to matter")
    assert claims(populations) == [(population, SOURCE, None)]


def test_another_release_may_open_it_only_with_a_reason(populations: Ledger):
    populations.claim_source("trips", SOURCE)
    for reason in (None, " "):
        with pytest.raises(DeclarationError, match=r"distinct_population"):
            populations.claim_source("buses", SOURCE, distinct_population=reason)
    reason = "drivers, not riders"
    populations.claim_source("buses", SOURCE, distinct_population=reason)
    populations.claim_source("buses", SOURCE)
    populations.claim_source("trips", SOURCE)
    assert claims(populations) == [("trips", SOURCE, None), ("buses", SOURCE, reason)]
    populations.verify()


def test_benchmarks_share_sources(populations: Ledger):
    """Rows that nobody protects may be shown without a claim."""
    populations.claim_source("adult", SOURCE)
    for population in ("adult", "nobody_yet"):
        populations.require_claimable(population, SOURCE)
    populations.claim_source("census", SOURCE)
    assert claims(populations) == [("adult", SOURCE, None), ("census", SOURCE, None)]


@pytest.mark.parametrize("reason", [None, "it is public, believe me"])
def test_a_benchmark_never_opens_what_a_release_holds(populations: Ledger, reason: str | None):
    populations.claim_source("trips", SOURCE)
    with pytest.raises(DeclarationError, match="protected by population trips"):
        populations.claim_source("adult", SOURCE, distinct_population=reason)
    assert claims(populations) == [("trips", SOURCE, None)]
    with pytest.raises(DeclarationError, match="trips: the account was opened with purpose"):
        populations.require_claimable("trips", "sha256:never-claimed")


def test_protection_is_one_way_even_for_the_first_benchmark(populations: Ledger):
    populations.claim_source("adult", SOURCE)
    with pytest.raises(DeclarationError, match=r"adult \(benchmark\).*`purpose: benchmark`"):
        populations.claim_source("trips", SOURCE)
    populations.claim_source("trips", SOURCE, distinct_population="new rows are private")
    assert claims(populations)[1:] == [("trips", SOURCE, "new rows are private")]
    for population in ("adult", "census", "nobody_yet"):
        with pytest.raises(DeclarationError, match="protected by population trips"):
            populations.require_claimable(population, SOURCE)
        if population != "nobody_yet":
            with pytest.raises(DeclarationError, match="protected by population trips"):
                populations.claim_source(population, SOURCE)
    populations.claim_source("trips", SOURCE)


@pytest.mark.parametrize("source", ["", "a\0b", "file:\udcff"])
def test_a_source_that_cannot_be_stored_is_refused(populations: Ledger, source: str):
    with pytest.raises(DeclarationError, match="source of population trips"):
        populations.claim_source("trips", source)


URL, SPELLED = "https://example.org/d/a.csv", "https://EXAMPLE.org:443/d//x/../%61.csv"
FOLDER, FILE = "file:/data/rides", "file:/data/rides/2026/may.parquet"


@pytest.mark.parametrize(
    ("held", "claimed"), [(FOLDER, FILE), (FILE, FOLDER), (URL, SPELLED), (SPELLED, URL)]
)
def test_a_source_is_known_again_however_it_is_spelled(populations: Ledger, held, claimed):
    """A folder of Parquet files and a file in it hold the same persons, too."""
    populations.claim_source("trips", held)
    with pytest.raises(DeclarationError, match="belongs to population trips"):
        populations.claim_source("buses", claimed)
    with pytest.raises(DeclarationError, match="protected by population trips"):
        populations.claim_source("adult", claimed, distinct_population="it changes nothing")
    with pytest.raises(DeclarationError, match="protected by population trips"):
        populations.require_claimable("nobody_yet", claimed)
    populations.claim_source("buses", claimed, distinct_population="drivers, not riders")


def test_a_population_may_hold_a_folder_and_a_file_in_it(ledger: Ledger):
    for source in (FOLDER, FILE, FOLDER, FILE):
        ledger.claim_source("trips", source)
    assert [source for _, source, _ in claims(ledger)] == [FOLDER, FILE]


@pytest.mark.parametrize("population", ["buses", "adult"])
def test_sources_are_claimed_together_or_not_at_all(populations: Ledger, population: str):
    populations.claim_source("trips", SOURCE)
    with pytest.raises(DeclarationError, match="population trips"):
        populations.claim_source(population, "file:/data/other.csv", SOURCE)
    assert claims(populations) == [("trips", SOURCE, None)]
    # What a data set is called is held like a source.
    rides = dataset_name("rides")
    populations.claim_source("trips", SOURCE, rides, rides)
    assert claims(populations)[1:] == [("trips", rides, None)]
    verb = {"buses": "belongs to", "adult": "is protected by"}[population]
    with pytest.raises(DeclarationError, match=f"data set rides {verb} population trips"):
        populations.claim_source(population, rides)
    populations.claim_source("buses", rides, distinct_population="drivers, not riders")


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_hard_link_to_a_claimed_file_is_known(populations: Ledger, tmp_path, *, is_gone: bool):
    first_path, other = tmp_path / "one.csv", tmp_path / "other.csv"
    first_path.write_text("x\n")
    other.hardlink_to(first_path)
    names = Source("csv", str(first_path)).current_identities if is_gone else [f"file:{first_path}"]
    populations.claim_source("trips", *names)
    if is_gone:
        first_path.unlink()
    with pytest.raises(DeclarationError, match=r"other\.csv' belongs to population trips"):
        populations.claim_source("buses", f"file:{other}")
    for use in (populations.claim_source, populations.require_claimable):
        with pytest.raises(DeclarationError, match=r"other\.csv' is protected by population trips"):
            use("adult", f"file:{other}")
    assert {population for population, *_ in claims(populations)} == {"trips"}
