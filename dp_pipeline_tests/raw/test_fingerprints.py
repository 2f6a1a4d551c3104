"""A file is the one that was stored exactly if its bytes are, however many threads look."""

import hashlib
import hmac

import pytest

from dp_pipeline.raw import fingerprints
from dp_pipeline.raw.fingerprints import fingerprint_of, fingerprint_of_content, fingerprints_of

KEY = b"k" * 32
CONTENT = bytes(range(37))
"""Of four ranges, the last one shorter."""


@pytest.fixture(autouse=True)
def _short_ranges(monkeypatch):
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 10)
    # A range is read in several parts.
    monkeypatch.setattr(fingerprints, "_BYTES_A_READ", 4)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize(
    "other",
    [
        *(CONTENT[:at] + b"!" + CONTENT[at + 1 :] for at in (0, 9, 10, 19, 25, 36)),
        CONTENT[10:20] + CONTENT[:10] + CONTENT[20:],
        CONTENT[:-1],
        CONTENT[:30],
        CONTENT[:10],
        CONTENT + b"\0",
        b"".join(hashlib.sha256(CONTENT[at : at + 10]).digest() for at in range(0, 37, 10)),
        b"",
    ],
)
def test_another_file_has_another_fingerprint(path, other):
    stored = fingerprint_of(path, KEY)
    path.write_bytes(other)
    assert fingerprint_of(path, KEY) != stored


@pytest.mark.parametrize("size", [0, 9, 10, 11, 20, 37])
def test_a_file_and_its_content_have_one_fingerprint(path, size):
    path.write_bytes(CONTENT[:size])
    actual = fingerprint_of(path, KEY)
    assert fingerprint_of_content(CONTENT[:size], KEY) == actual
    assert fingerprints_of([path, path], KEY) == [actual, actual]
    assert fingerprint_of(path, b"another key") != actual


def test_a_file_of_one_range_is_known_by_its_digest(path):
    path.write_bytes(b"few")
    digest = hashlib.sha256(b"few").digest()
    assert fingerprint_of(path, KEY) == hmac.new(KEY, digest, "sha256").hexdigest()


def test_ranges_of_another_size_give_another_fingerprint(path, monkeypatch):
    stored = fingerprint_of(path, KEY)
    monkeypatch.setattr(fingerprints, "BYTES_A_RANGE", 20)
    assert fingerprint_of(path, KEY) != stored
