"""A snapshot is private, immutable, and says so when it is no longer what was stored."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.files import write_private
from dp_pipeline.raw import fingerprints, retirement
from dp_pipeline.raw.evaluate import custodian_facts
from dp_pipeline.raw.fingerprints import fingerprint_of, fingerprint_of_content, fingerprints_of
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.retirement import retire, snapshots_of
from dp_pipeline.raw.snapshot import Snapshot, check_snapshot_id, current_snapshot, make_current
from dp_pipeline_tests.raw.written import KEY, written_spec

ROWS = b"three rows of someone"


@pytest.fixture
def snapshot(tmp_path):
    return Snapshot(tmp_path / "store" / "city" / "2026-01-31", KEY)


def store(snapshot: Snapshot, content: bytes = ROWS) -> None:
    snapshot.store_table("ingested", lambda file: file.write(content) and None)


UNSAFE = ["", ".", "..", ".hidden", "../other", "a/b", "a b", "a\n", "A" * 65, "current"]


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_snapshot_id_is_refused(name):
    for safe in ("2026-01-31", "before_fix.2", "A" * 64):
        assert check_snapshot_id(safe) == safe
    fault = "not be 'current', nor" if name == "current" else "have letters, digits"
    with pytest.raises(DeclarationError, match=f"The name of a snapshot must {fault}"):
        check_snapshot_id(name)


def test_a_stored_table_is_read_back_and_its_facts_are_kept(snapshot):
    store(snapshot)
    snapshot.record(source="csv:a")
    snapshot.record(validated=True)
    assert snapshot.checked_path("ingested").read_bytes() == ROWS
    assert snapshot.manifest["id"] == "2026-01-31"
    assert (snapshot.manifest["source"], snapshot.manifest["validated"]) == ("csv:a", True)
    assert repr(snapshot) == "Snapshot(city/2026-01-31)"
    shown = json.dumps(snapshot.manifest) + repr(snapshot)
    assert not any(secret in shown for secret in ("someone", KEY.decode(), KEY.hex()))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "private"
    write_private(path, lambda file: file.write(b"old") and None)

    def fail(file):
        file.write(b"half of the new")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_private(path, fail)
    assert [entry.name for entry in tmp_path.iterdir()] == ["private"]
    assert path.read_bytes() == b"old"


def test_concurrent_writes_leave_one_whole_version(tmp_path):
    path = tmp_path / "private"
    versions = [bytes([letter]) * 300_000 for letter in b"abcdefgh"] * 3
    with ThreadPoolExecutor(8) as threads:
        writes = [
            threads.submit(write_private, path, lambda file, v=version: file.write(v) and None)
            for version in versions
        ]
    assert [write.exception() for write in writes] == [None] * len(versions)
    assert path.read_bytes() in versions
    assert [entry.name for entry in tmp_path.iterdir()] == ["private"]


@pytest.mark.parametrize("content", [ROWS[:-1] + b"X", None], ids=["changed", "gone"])
def test_a_table_that_is_another_is_damaged(snapshot, content):
    store(snapshot)
    with pytest.raises(Damaged):
        Snapshot(snapshot.folder, b"another key").checked_path("ingested")
    path = snapshot.table_path("ingested")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    for checked in (snapshot.checked_path, snapshot.checked_content):
        with pytest.raises(Damaged, match="as it was stored"):
            checked("ingested")


def test_the_content_that_was_checked_is_returned(snapshot, monkeypatch):
    store(snapshot)
    compare = hmac.compare_digest

    def compared(*digests):
        # Somebody puts another file in its place once it was found to be right.
        snapshot.table_path("ingested").write_bytes(b"other rows")
        return compare(*digests)

    monkeypatch.setattr(hmac, "compare_digest", compared)
    assert snapshot.checked_content("ingested") == ROWS


@pytest.mark.parametrize("other", ["city/2026-02-28", "town/2026-01-31"])
def test_a_snapshot_in_another_folder_is_damaged(snapshot, other):
    store(snapshot)
    moved = Snapshot(snapshot.folder.parent.parent / other, KEY)
    moved.folder.parent.mkdir(exist_ok=True)
    snapshot.folder.rename(moved.folder)
    manifest = moved.folder / "manifest.json"
    for text in (manifest.read_text(), manifest.read_text().replace(snapshot.id, moved.id)):
        manifest.write_text(text)
        for checked in (moved.checked_path, moved.checked_content):
            with pytest.raises(Damaged, match=r"the manifest of snapshot|not as it was stored"):
                checked("ingested")


def test_a_stage_that_was_never_stored_is_not_prepared(snapshot):
    with pytest.raises(NotPrepared, match=r"Snapshot\(city/2026-01-31\): .* is not ingested"):
        snapshot.checked_path("ingested")
    store(snapshot)
    with pytest.raises(NotPrepared, match="'discretized'"):
        snapshot.checked_path("discretized")
    # A pointer to outside is refused.
    make_current(snapshot)
    (snapshot.folder.parent / "current").write_text("../elsewhere")
    with pytest.raises(Damaged):
        current_snapshot(snapshot.folder.parent.parent, "city", KEY)


@pytest.mark.parametrize("text", ["{", "[]", "\udcff", None])
def test_a_broken_manifest_is_damaged(snapshot, text):
    store(snapshot)
    manifest = snapshot.folder / "manifest.json"
    text = manifest.read_text().replace(snapshot.id, "2026-02-28") if text is None else text
    manifest.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Damaged, match="manifest"):
        _ = snapshot.manifest


@pytest.mark.parametrize("fact", ["fingerprints", "types", "downloaded", "in_place"])
@pytest.mark.parametrize("value", [["text"], {"ingested": 1}, None])
def test_a_manifest_with_a_fact_that_maps_no_texts_is_damaged(snapshot, fact, value):
    store(snapshot)
    snapshot.record(**{fact: value})
    for attempt in (lambda: snapshot.checked_path("ingested"), lambda: store(snapshot)):
        with pytest.raises(Damaged, match=r"manifest\.json is not JSON of facts: restore it"):
            attempt()


CONTENT = bytes(range(37))
"""Of four ranges, the last one shorter."""


@pytest.fixture
def table_path(tmp_path, monkeypatch):
    """A table of several ranges, of which each is read in parts."""
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 10)
    monkeypatch.setattr(fingerprints, "_BYTES_A_READ", 4)
    path = tmp_path / "table"
    path.write_bytes(CONTENT)
    return path


OTHER_CONTENTS = [
    *(CONTENT[:at] + b"!" + CONTENT[at + 1 :] for at in (0, 9, 10, 19, 25, 36)),
    *(CONTENT[10:20] + CONTENT[:10] + CONTENT[20:], CONTENT[:-1], CONTENT[:30], CONTENT[:10]),
    b"".join(hashlib.sha256(CONTENT[at : at + 10]).digest() for at in range(0, 37, 10)),
    *(CONTENT + b"\0", b""),
]


@pytest.mark.parametrize("other", OTHER_CONTENTS)
def test_another_file_has_another_fingerprint(table_path, other):
    stored = fingerprint_of(table_path, KEY)
    table_path.write_bytes(other)
    assert fingerprint_of(table_path, KEY) != stored


@pytest.mark.parametrize("size", [0, 9, 10, 11, 20, 37])
def test_a_file_and_its_content_have_one_fingerprint(table_path, size):
    table_path.write_bytes(CONTENT[:size])
    actual = fingerprint_of(table_path, KEY)
    assert fingerprint_of_content(CONTENT[:size], KEY) == actual
    assert fingerprints_of([table_path, table_path], KEY) == [actual, actual]
    assert fingerprint_of(table_path, b"another key") != actual


def test_a_file_of_one_range_is_known_by_its_digest(table_path, monkeypatch):
    stored = fingerprint_of(table_path, KEY)
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 20)
    assert fingerprint_of(table_path, KEY) != stored
    table_path.write_bytes(b"few")
    digest = hashlib.sha256(b"few").digest()
    assert fingerprint_of(table_path, KEY) == hmac.new(KEY, digest, "sha256").hexdigest()


DAY = date(2026, 11, 21)
SECRET = b"90210777"


@pytest.fixture
def retired_spec(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"age\n" + SECRET + b"\n7\n")
    return written_spec(tmp_path, "{age: {bounds: [0, 100]}}", purpose="release")


@pytest.fixture
def raw_store(tmp_path):
    return tmp_path / "raw"


def opened(spec: DatasetSpec, store: Path, name: str | None = None) -> Snapshot:
    return ingest(spec, store, key=KEY, snapshot_id=name, today=DAY)


def retire_all(raw_store: Path, population: str = "people") -> list[str]:
    snapshots = snapshots_of(raw_store, population, datasets=("people",))
    for snapshot in snapshots:
        retire(snapshot, population=population, on=DAY)
    return [snapshot.ledger_name for snapshot in snapshots]


def remains(raw_store: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in raw_store.rglob("*") if path.is_file())


def test_every_snapshot_goes_with_all_stages_and_exact_numbers(retired_spec, raw_store):
    for name in ("one", "two"):
        snapshot = opened(retired_spec, raw_store, name)
        snapshot.store_table("normalized", lambda file: file.write(SECRET))
        custodian_facts(snapshot, "exact", lambda: {"nicv": 90210777.0})
    (snapshot.folder / ".normalized.parquet.x.tmp").write_bytes(SECRET)
    assert retire_all(raw_store) == ["people/one", "people/two"]
    assert not any(SECRET in content for content in remains(raw_store))
    assert {path.name for path in snapshot.folder.iterdir()} == {"manifest.json"}
    assert retire_all(raw_store) == []


def test_a_retired_name_is_never_used_again_and_a_new_one_is(retired_spec, raw_store):
    opened(retired_spec, raw_store, "one")
    retire_all(raw_store)
    for name in ("one", None):
        with pytest.raises(NotPrepared, match="removed on 2026-11-21: name a new"):
            opened(retired_spec, raw_store, name)
    assert current_snapshot(raw_store, "people", KEY) is not None
    assert opened(retired_spec, raw_store, "two").checked_path("ingested").is_file()
    assert retire_all(raw_store) == ["people/two"]


def test_nothing_of_a_retired_snapshot_can_be_read_or_written(retired_spec, raw_store):
    snapshot = opened(retired_spec, raw_store)
    retire_all(raw_store)
    for attempt in (
        lambda: snapshot.checked_path("ingested"),
        lambda: snapshot.record(stages={}),
        lambda: snapshot.store_table("normalized", lambda file: file.write(SECRET)),
        lambda: snapshot.manifest,
    ):
        with pytest.raises(NotPrepared, match="the rows of the snapshot were removed on"):
            attempt()
    assert not any(SECRET in content for content in remains(raw_store))


def test_rows_of_another_population_stay(retired_spec, raw_store):
    ours = opened(retired_spec, raw_store, "one")
    others = Snapshot(raw_store / "town" / "one", KEY)
    others.store_table("ingested", lambda file: file.write(SECRET))
    others.record(population="town")
    mixed = Snapshot(raw_store / "people" / "old", KEY)
    mixed.record(population="town")
    # A data set that is not declared any more is found by its manifest.
    for datasets in (("people",), ()):
        snapshots = snapshots_of(raw_store, "people", datasets=datasets)
        assert [snapshot.ledger_name for snapshot in snapshots] == [ours.ledger_name]
    assert retire_all(raw_store, "town") == ["people/old", "town/one"]


def test_rows_that_were_half_written_go_too(raw_store):
    """Their manifest does not say whose they are, or there is none."""
    torn = Snapshot(raw_store / "people" / "torn", KEY)
    torn.store_table("ingested", lambda file: file.write(SECRET))
    unknown = raw_store / "town" / "unknown" / "ingested.parquet"
    for path in (raw_store / "people" / "bare" / ".ingested.tmp", unknown):
        path.parent.mkdir(parents=True)
        path.write_bytes(SECRET)
    assert retire_all(raw_store) == ["people/bare", "people/torn"]
    assert sum(SECRET in content for content in remains(raw_store)) == 1
    assert unknown.is_file()


def test_a_folder_elsewhere_that_a_link_points_to_is_not_touched(retired_spec, raw_store, tmp_path):
    snapshot = opened(retired_spec, raw_store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"kept")
    (snapshot.folder / "link").symlink_to(elsewhere)
    (raw_store / "people" / "link").symlink_to(elsewhere)
    retire_all(raw_store)
    assert (elsewhere / "kept").read_bytes() == b"kept"
    assert not (snapshot.folder / "link").is_symlink()


class Stopped(BaseException):
    """As if the process had been killed."""


@pytest.mark.parametrize("after", range(4))
def test_a_retirement_that_was_stopped_anywhere_can_be_finished(
    after, retired_spec, raw_store, monkeypatch
):
    """Before the mark everything is as it was; behind it nothing can be read."""
    snapshot = opened(retired_spec, raw_store)
    snapshot.store_table("normalized", lambda file: file.write(SECRET))
    steps = iter(range(10))

    def stops(real):
        def step(*words, **more):
            if next(steps) == after:
                raise Stopped
            real(*words, **more)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "mark_retired", stops(Snapshot.mark_retired))
        patch.setattr(Path, "unlink", stops(Path.unlink))
        patch.setattr(retirement, "sync", stops(retirement.sync))
        with pytest.raises(Stopped):
            retire_all(raw_store)
    if after == 0:
        assert snapshot.checked_path("normalized").is_file()
    else:
        with pytest.raises(NotPrepared, match="the rows of the snapshot were removed on"):
            snapshot.checked_path("normalized")
    retire_all(raw_store)
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
    assert snapshot.is_retired()
