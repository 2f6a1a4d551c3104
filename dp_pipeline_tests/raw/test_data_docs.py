"""Great Expectations' suite and pages: for the steward alone, and no value of a row in them."""

import json
import os
import socket
import stat
from datetime import date

import pytest

from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.data_docs import FOLDER, INDEX, write_data_docs
from dp_pipeline.raw.retirement import retire
from dp_pipeline_tests.raw.written import ingested, written_spec

SECRETS = ("8675309", "Xanthippe")
ROWS = {"age": [SECRETS[0], "5"], "sex": [SECRETS[1], "f"]}


@pytest.fixture
def spec(tmp_path):
    line = "{type: expect_column_values_to_match_regex, column: sex, regex: '^[fm]$', mostly: 0.9}"
    return written_spec(
        tmp_path,
        "{age: {bounds: [0, 100]}, sex: {levels: [f, m]}}",
        purpose="release",
        more=f"usable: 0.75\nexpectations: [{line}]",
    )


def test_suite_and_pages_hold_no_row(spec, tmp_path, monkeypatch):
    def refused(*_):
        raise AssertionError("nobody is asked over the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    snapshot = ingested(tmp_path, ROWS)
    before = snapshot.manifest
    mask = os.umask(0)
    try:
        folder = write_data_docs(spec, snapshot)
    finally:
        os.umask(mask)
    assert folder == snapshot.folder / FOLDER
    assert (folder / INDEX).is_file()
    assert snapshot.manifest == before, "this validates nothing"
    suite = json.loads((folder / "people_rows.json").read_text())
    expectations = suite["expectations"]
    assert "expect_column_values_to_match_regex" in {each["type"] for each in expectations}
    assert {each["severity"] for each in expectations} == {"warning"}
    assert {each["kwargs"].get("mostly") for each in expectations} == {None, 0.75, 0.9}
    pages = list(folder.rglob("*.html"))
    assert len(pages) == 5, "an index, two suites and what came of each"
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
        if path.is_file():
            assert not any(secret.encode() in path.read_bytes() for secret in SECRETS), path
    for page in pages:
        text = page.read_text()
        assert text.index("Content-Security-Policy") < text.index("https://"), page
        assert '<html lang="en">' in text, page


@pytest.mark.chain
def test_they_are_written_anew_and_go_with_the_rows(spec, tmp_path):
    snapshot = ingested(tmp_path, ROWS)
    folder = write_data_docs(spec, snapshot)
    (folder / "old").touch()
    assert write_data_docs(spec, snapshot) == folder
    assert not (folder / "old").exists()
    names = {path.name for path in snapshot.folder.iterdir()}
    assert names == {"manifest.json", "ingested.parquet", FOLDER}
    retire(snapshot, population=spec.population, on=date(2026, 1, 1))
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
    with pytest.raises(NotPrepared):
        write_data_docs(spec, snapshot)
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]


def test_no_row_is_read_under_another_schema(spec, tmp_path):
    folder = write_data_docs(spec, ingested(tmp_path, {"age": ["1"]}))
    assert (folder / "people_schema.json").is_file()
    assert not (folder / "people_rows.json").exists()
