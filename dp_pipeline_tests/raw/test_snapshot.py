"""A snapshot is private, immutable, and says so when it is no longer what was stored."""

import hmac
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.files import write_private
from dp_pipeline.raw.snapshot import Snapshot, check_snapshot_id, current_snapshot, make_current

KEY = b"k" * 32
ROWS = b"three rows of someone"


@pytest.fixture
def snapshot(tmp_path):
    return Snapshot(tmp_path / "store" / "city" / "2026-01-31", KEY)


def store(snapshot: Snapshot, content: bytes = ROWS) -> None:
    snapshot.store_table("ingested", lambda file: file.write(content) and None)


@pytest.mark.parametrize("name", ["2026-01-31", "before_fix.2", "A" * 64])
def test_a_safe_folder_name_is_a_snapshot_id(name):
    assert check_snapshot_id(name) == name


UNSAFE = ["", ".", "..", ".hidden", "../other", "a/b", "a b", "a\n", "A" * 65, "current"]


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_snapshot_id_is_refused(name):
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


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "private"
    write_private(path, lambda file: file.write(b"old") and None)

    def fail(file):
        file.write(b"half of the new")  # type: ignore[attr-defined]
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
    path = snapshot.table_path("ingested")
    if content is None:
        path.unlink()
    else:
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


def test_a_fingerprint_of_another_key_does_not_fit(snapshot):
    store(snapshot)
    with pytest.raises(Damaged):
        Snapshot(snapshot.folder, b"another key").checked_path("ingested")


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
    with pytest.raises(Damaged, match=r"manifest\.json is not JSON of facts: restore it"):
        snapshot.checked_path("ingested")
    with pytest.raises(Damaged, match=r"manifest\.json is not JSON of facts: restore it"):
        store(snapshot)


def test_a_manifest_and_a_repr_hold_neither_rows_nor_key(snapshot):
    store(snapshot)
    written = json.dumps(snapshot.manifest) + repr(snapshot)
    assert repr(snapshot) == "Snapshot(city/2026-01-31)"
    assert "someone" not in written
    assert KEY.decode() not in written
    assert KEY.hex() not in written


def test_a_pointer_to_outside_is_refused(snapshot):
    make_current(snapshot)
    (snapshot.folder.parent / "current").write_text("../elsewhere")
    with pytest.raises(Damaged):
        current_snapshot(snapshot.folder.parent.parent, "city", KEY)
