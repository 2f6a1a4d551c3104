"""Checks of a release: what is stored is whole, and its answers give it again. A mutant each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import checks
from dp_pipeline.orchestration.checks import NOT_NEAR, PLAUSIBLE, SPENT, WITHIN, spent_check
from dp_pipeline.releases import model_questions
from dp_pipeline.releases import release as releasing
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.replay import key_of, require_intact, require_reproducible
from dp_pipeline.results.bundle import table_digest
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.events import check_results
from dp_pipeline_tests.orchestration.forging import reseal
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project

pytestmark = pytest.mark.chain

WHOLE, REPLAY = checks.INTACT, checks.REBUILT
Stored = tuple[Project, DatasetSpec, EpsilonRelease, PublishedBundle]


@pytest.fixture
def stored(rides: Project) -> Stored:
    """One release of places, on disk."""
    spec = rides.declare("rides", RIDES)
    release = rides.release(spec)
    return rides, spec, release, rides.publish(spec)


def faults(release: EpsilonRelease, published: PublishedBundle) -> dict[str, str | None]:
    """Check → the line of its fault, or None."""
    tried = {
        WHOLE: lambda: require_intact(release, published.folder),
        REPLAY: lambda: require_reproducible(release, published.bundle),
    }
    results = {name: checks.fault_result(name, require) for name, require in tried.items()}
    return {
        name: None if one.passed else str(one.metadata["fault"].value)
        for name, one in results.items()
    }


def forged(
    release: EpsilonRelease, published: PublishedBundle, change: Callable[[dict], None]
) -> PublishedBundle:
    """A bundle that was changed and sealed anew, by somebody who holds the key."""
    path = published.folder / "bundle.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    return replace(published, bundle=reseal(release, published.folder))


def test_a_release_is_whole_and_is_made_again_from_its_answers(stored: Stored):
    *_, release, published = stored
    assert faults(release, published) == {WHOLE: None, REPLAY: None}


def test_no_row_is_read_and_nothing_is_charged(stored: Stored):
    project, spec, release, published = stored
    for path in project.snapshot(spec).folder.rglob("*.parquet"):
        path.unlink()
    before = project.spent(spec)
    assert faults(release, published) == {WHOLE: None, REPLAY: None}
    assert project.spent(spec) == before


def test_a_changed_byte_of_a_table_is_seen_or_changes_no_value(stored: Stored):
    *_, release, published = stored
    path = published.folder / "centres.parquet"
    content, values = path.read_bytes(), pq.read_table(path)
    seen = 0
    # Not the footer: whatever is said there of the columns, a broken one may say anything.
    for place in range(4, content.index(b"schema"), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        if faults(release, published)[WHOLE] is None:
            assert pq.read_table(path).equals(values), place
        else:
            seen += 1
    assert seen >= 3 * 2 * 8 / 3, "the numbers alone have as many bytes"


def test_a_changed_number_of_a_table_is_seen(stored: Stored):
    *_, release, published = stored
    path = published.folder / "centres.parquet"
    table = pq.read_table(path)
    moved = [value + 2**-40 for value in table.column("x").to_pylist()]
    pq.write_table(table.set_column(0, "x", pa.array(moved)), path)
    assert "expected it as it was stored, got another" in str(faults(release, published)[WHOLE])


def test_a_missing_table_is_seen(stored: Stored):
    *_, release, published = stored
    (published.folder / "centres.parquet").unlink()
    assert "expected it as it was stored, got another" in str(faults(release, published)[WHOLE])


def test_a_file_that_lies_beside_the_tables_is_seen(stored: Stored):
    *_, release, published = stored
    (published.folder / "rows.parquet").write_bytes(b"rows")
    assert "expected it as it was stored, got another" in str(faults(release, published)[WHOLE])


def cheaper(document: dict) -> None:
    """Other charges, of the same sum."""
    first, second = document["spends"][:2]
    part = Fraction(first["epsilon"]) / 2
    first["epsilon"] = str(part)
    second["epsilon"] = str(Fraction(second["epsilon"]) + part)


def test_changed_spends_are_seen_by_both(stored: Stored):
    *_, release, published = stored
    found = faults(release, forged(release, published, cheaper))
    assert "expected it as it was stored, got another" in str(found[WHOLE])
    assert "expected what its answers give again, got another" in str(found[REPLAY])


@pytest.fixture
def of_two_centres(stored: Stored) -> tuple[EpsilonRelease, PublishedBundle]:
    """Other centres of the same answers: the ledger has no digest of their bundle."""
    project, *_ = stored
    models = {"dpqt_kmeans": {"k": "2", "nominal_rows": "40"}}
    other = project.declare("rides", RIDES, models=models)
    return project.release(other), project.publish(other)


def test_charges_of_other_centres_are_compared_with_the_ledger(
    of_two_centres: tuple[EpsilonRelease, PublishedBundle],
):
    release, published = of_two_centres
    found = faults(release, forged(release, published, cheaper))
    assert "expected the charges of the ledger, got others" in str(found[WHOLE])
    assert found[REPLAY] is not None


@pytest.mark.parametrize("fact", ["releasable", "unit", "population"])
def test_facts_of_other_centres_are_compared_with_the_ledger(
    fact: str, of_two_centres: tuple[EpsilonRelease, PublishedBundle]
):
    release, published = of_two_centres
    other = forged(release, published, lambda document: document["facts"].update({fact: "better"}))
    found = faults(release, other)
    assert f"expected {fact} as in the ledger, got another" in str(found[WHOLE])
    assert found[REPLAY] is not None


def test_a_release_that_calls_itself_fit_is_compared_with_the_ledger(project: Project):
    spec = project.declare("plants", PLANTS)
    stages = ("ingested", "validated", "normalized", "discretized", "one_hot")
    assert project.launch(spec, *stages).success
    seeded = {"model": "independent", "noise": "seeded:1"}
    release, published = project.release(spec, **seeded), project.publish(spec, **seeded)
    other = forged(release, published, lambda document: document["facts"].update(releasable="yes"))
    found = faults(release, other)
    assert "expected it as it was stored, got another" in str(found[WHOLE])
    assert found[REPLAY] is not None


def test_a_changed_transcript_is_seen_by_both(stored: Stored):
    *_, release, published = stored
    key = key_of(release, published.bundle)
    path = release.store.transcript_path(key)
    transcript = Transcript(path)
    path.unlink()
    Transcript.create(path, key.digest)
    other = Transcript(path)
    for record in transcript.records[1:]:
        other.store(record.question, record.answer + 1)
    found = faults(release, published)
    assert "expected that of rides/dpqt_kmeans at ε=0.5 as settled" in str(found[WHOLE])
    assert found[REPLAY] is not None


def test_a_transcript_that_lost_an_answer_is_seen(stored: Stored):
    *_, release, published = stored
    path = release.store.transcript_path(key_of(release, published.bundle))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    found = faults(release, published)
    assert found[WHOLE] is not None
    assert found[REPLAY] is not None


def test_no_message_holds_a_value(stored: Stored):
    *_, release, published = stored
    path = published.folder / "centres.parquet"
    table = pq.read_table(path)
    secret = 7.125
    pq.write_table(table.set_column(0, "x", pa.array([secret] * table.num_rows)), path)
    assert "7.125" not in str(faults(release, published))


def test_a_release_by_older_code_that_is_made_otherwise_is_a_warning(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
):
    *_, release, published = stored
    monkeypatch.setattr(releasing, "code_version", lambda *_: "dp_pipeline 99")
    spends = published.bundle.spends[::-1]
    other = replace(published, bundle=replace(published.bundle, spends=spends))
    *_, warned = checks.release_checks(release, other)
    assert warned.check_name == REPLAY
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_centres_that_were_put_there_with_a_fitting_digest_are_seen(stored: Stored):
    *_, release, published = stored
    path = published.folder / "centres.parquet"
    moved = pq.read_table(path).to_pandas() + 1
    pq.write_table(pa.Table.from_pandas(moved, preserve_index=False), path)

    def forge(document: dict) -> None:
        columns = {name: moved[name].to_numpy() for name in moved}
        document["tables"]["centres"] = table_digest(columns)
        # Older code makes the other check a warning.
        document["facts"]["code"] = "dp_pipeline 0"

    found = faults(release, forged(release, published, forge))
    assert "expected it as it was stored, got another" in str(found[WHOLE])


def test_a_release_by_older_code_that_is_made_alike_is_green(stored: Stored):
    *_, release, published = stored
    older = {**published.bundle.facts, "code": "dp_pipeline 0"}
    other = replace(published, bundle=replace(published.bundle, facts=older))
    *_, made_again = checks.release_checks(release, other)
    assert (made_again.check_name, made_again.passed) == (REPLAY, True)


def test_a_release_by_the_code_of_today_is_not_fitted_again_to_be_checked(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
):
    *_, release, published = stored

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(model_questions, "fit", fitted)
    *_, whole, replayed = checks.release_checks(release, published)
    assert whole.passed
    assert replayed.passed
    older = {**published.bundle.facts, "code": "dp_pipeline 0"}
    other = replace(published, bundle=replace(published.bundle, facts=older))
    with pytest.raises(AssertionError, match="a model was fitted"):
        checks.release_checks(release, other)


def test_a_release_with_other_centres_of_the_same_answers_is_whole_too(
    of_two_centres: tuple[EpsilonRelease, PublishedBundle],
):
    release, published = of_two_centres
    assert published.state == "replayed"
    assert faults(release, published) == {WHOLE: None, REPLAY: None}


def test_a_new_draw_is_compared_with_its_own_answers(stored: Stored):
    project, spec, release, first = stored
    second = project.publish(spec, new_draw=True)
    assert first.bundle.key != second.bundle.key
    for published in (first, second):
        assert faults(release, published) == {WHOLE: None, REPLAY: None}


def test_a_spend_that_was_not_drawn_is_seen(stored: Stored):
    *_, release, published = stored
    first, *rest = published.bundle.spends
    thin = replace(first, scale=first.scale / 2)
    cheat = replace(published.bundle, spends=(thin, *rest))
    assert spent_check(release.spec, release.guarantee, published.bundle).passed
    assert not spent_check(release.spec, release.guarantee, cheat).passed


def test_a_run_shows_every_check_green_but_the_warning_that_few_rows_deserve(rides: Project):
    spec = rides.declare("rides", RIDES)
    assert rides.launch(spec, "dpqt_kmeans", partition="0.1").success
    shown = {
        one.check_name: one.passed
        for one in check_results(rides, spec)
        if one.asset_key.path[1] == "dpqt_kmeans"
    }
    green = dict.fromkeys([SPENT, WITHIN, NOT_NEAR, WHOLE, REPLAY], True)
    assert shown == {**green, PLAUSIBLE: False}


def test_every_table_of_a_bundle_is_read(stored: Stored):
    *_, release, published = stored
    tables = sorted(published.folder.glob("*.parquet"))
    assert len(tables) == len(published.bundle.tables)
    for table in tables:
        content = table.read_bytes()
        table.write_bytes(content[:-1])
        assert faults(release, published)[WHOLE] is not None, table.name
        table.write_bytes(content)
    assert faults(release, published)[WHOLE] is None
