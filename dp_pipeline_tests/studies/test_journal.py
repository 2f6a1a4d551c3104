"""A journal keeps whole lines, drops a torn one, and is one process's and one code's."""

from pathlib import Path

import pytest

from benchmarks.papers.study import open_journal
from dp_pipeline.config.errors import Damaged, DeclarationError

HEADER = {"study": "counting", "code": "1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with two cells."""
    path = tmp_path / "results.jsonl"
    with open_journal(path, HEADER) as journal:
        journal.append("a", {"value": 0.1})
        journal.append("b", {"value": None})
    return path


def rows_of(path: Path, code: str = "1") -> dict[str, object]:
    with open_journal(path, {**HEADER, "code": code}) as journal:
        return dict(journal.rows)


def append(path: Path, cell: str, code: str = "1") -> None:
    with open_journal(path, {**HEADER, "code": code}) as journal:
        journal.append(cell, {"value": 3})


def test_what_was_appended_is_there_again(path: Path) -> None:
    assert rows_of(path) == {"a": {"value": 0.1}, "b": {"value": None}}


@pytest.mark.parametrize("torn", range(1, 12))
def test_torn_last_line_is_dropped(path: Path, torn: int) -> None:
    path.write_bytes(path.read_bytes()[:-torn])
    assert list(rows_of(path)) == ["a"]
    append(path, "c")
    assert rows_of(path) == {"a": {"value": 0.1}, "c": {"value": 3}}


def test_a_torn_header_is_written_again(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])
    assert rows_of(path) == {}
    append(path, "a")
    assert list(rows_of(path)) == ["a"]


def test_a_broken_line_in_the_middle_is_damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"cell": "a"', b'"cell: "a"'))
    before = path.read_bytes()
    with pytest.raises(Damaged, match="Line 2 of"):
        rows_of(path)
    assert path.read_bytes() == before


def test_a_journal_of_other_code_is_refused_and_stays_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(DeclarationError, match=r"code 2, got .* code 1; .*--out"):
        rows_of(path, "2")
    assert path.read_bytes() == before


def test_a_journal_without_cells_becomes_that_of_other_code(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    append(path, "a", "2")
    assert list(rows_of(path, "2")) == ["a"]


def test_two_processes_do_not_write_into_one_journal(path: Path) -> None:
    with (
        open_journal(path, HEADER),
        pytest.raises(DeclarationError, match="expected no other study in this folder"),
    ):
        rows_of(path)
