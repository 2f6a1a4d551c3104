"""A file is the one that was stored exactly if its bytes are, however many threads look."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dp_pipeline.raw import fingerprints
from dp_pipeline.raw.fingerprints import (
    fingerprint_of,
    fingerprint_of_content,
    fingerprints_of,
    fingerprints_of_whole,
    is_as_stored,
)
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.spec.errors import Damaged

KEY = b"k" * 32
CONTENT = bytes(range(37))
"""Of four ranges, the last one shorter."""


@pytest.fixture(autouse=True)
def _short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 10)
    # A range is read in several parts.
    monkeypatch.setattr(fingerprints, "_BYTES_A_READ", 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.write_bytes(CONTENT)
    return path


def nobody_reads_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("read by one thread")

    monkeypatch.setattr(fingerprints, "fingerprint_of", refuse)


def test_a_file_of_several_ranges_is_known_by_them_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = fingerprints_of(path, KEY)
    nobody_reads_the_whole(monkeypatch)
    assert is_as_stored(path, KEY, stored)


@pytest.mark.parametrize(
    "other",
    [
        *(CONTENT[:at] + b"!" + CONTENT[at + 1 :] for at in (0, 9, 10, 19, 25, 36)),
        CONTENT[10:20] + CONTENT[:10] + CONTENT[20:],
        CONTENT[:-1],
        CONTENT[:30],
        CONTENT + b"\0",
        b"",
    ],
)
def test_another_file_is_another_file(path: Path, other: bytes) -> None:
    stored = fingerprints_of(path, KEY)
    path.write_bytes(other)
    assert not is_as_stored(path, KEY, stored)
    assert not is_as_stored(path, KEY, replace(stored, ranges=""))
    path.unlink()
    assert not is_as_stored(path, KEY, stored)


def test_the_fingerprint_of_all_bytes_does_not_depend_on_ranges(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an interrupted release would find other rows under another size of ranges."""
    whole = fingerprints_of(path, KEY).whole
    assert whole == fingerprint_of(path, KEY) == fingerprint_of_content(CONTENT, KEY)
    assert fingerprints_of_whole([path, path], KEY) == [whole, whole]
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 1 << 20)
    assert fingerprints_of(path, KEY).whole == whole


def test_a_file_of_one_range_has_one_fingerprint(path: Path) -> None:
    for content in (b"", CONTENT[:10]):
        path.write_bytes(content)
        found = fingerprints_of(path, KEY)
        assert found.ranges == ""
        assert is_as_stored(path, KEY, found)


def test_ranges_fit_with_the_fingerprint_that_they_were_made_with_only(path: Path) -> None:
    stored = fingerprints_of(path, KEY)
    assert not is_as_stored(path, KEY, replace(stored, whole="0" * 64))
    assert not is_as_stored(path, b"another key", stored)


def test_ranges_of_a_table_that_an_older_program_replaced_are_not_asked(path: Path) -> None:
    older = fingerprints_of(path, KEY)
    path.write_bytes(CONTENT[::-1])
    assert is_as_stored(path, KEY, replace(older, whole=fingerprint_of(path, KEY)))


def test_a_manifest_of_before_there_were_ranges_is_read_as_it_was(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "raw" / "city" / "day", KEY)
    snapshot.store_table("ingested", lambda file: file.write(CONTENT) and None)
    manifest = snapshot.folder / "manifest.json"
    known = json.loads(manifest.read_text())
    assert known.pop("fingerprints_by_ranges").keys() == {"ingested"}
    manifest.write_text(json.dumps(known))
    assert snapshot.checked_path("ingested").read_bytes() == CONTENT
    snapshot.table_path("ingested").write_bytes(CONTENT[::-1])
    with pytest.raises(Damaged, match="the table 'ingested' as it was stored, got another"):
        snapshot.checked_path("ingested")


def test_a_table_that_became_small_has_no_ranges_of_the_one_before(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "raw" / "city" / "day", KEY)
    for content in (CONTENT, b"few"):
        snapshot.store_table("ingested", lambda file, some=content: file.write(some) and None)
    assert snapshot.manifest["fingerprints_by_ranges"] == {"ingested": ""}
    assert snapshot.checked_path("ingested").read_bytes() == b"few"
