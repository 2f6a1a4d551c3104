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


def test_what_was_appended_is_there_again(path: Path) -> None:
    with open_journal(path, HEADER) as journal:
        assert journal.rows == {"a": {"value": 0.1}, "b": {"value": None}}


@pytest.mark.parametrize("torn", range(1, 12))
def test_torn_last_line_is_dropped(path: Path, torn: int) -> None:
    path.write_bytes(path.read_bytes()[:-torn])
    with open_journal(path, HEADER) as journal:
        assert list(journal.rows) == ["a"]
        journal.append("c", {"value": 3})
    with open_journal(path, HEADER) as journal:
        assert journal.rows == {"a": {"value": 0.1}, "c": {"value": 3}}


def test_a_torn_header_is_written_again(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])
    with open_journal(path, HEADER) as journal:
        assert journal.rows == {}
        journal.append("a", {"value": 1})
    with open_journal(path, HEADER) as journal:
        assert list(journal.rows) == ["a"]


def test_a_broken_line_in_the_middle_is_damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"cell": "a"', b'"cell: "a"'))
    before = path.read_bytes()
    with pytest.raises(Damaged, match="Line 2 of"), open_journal(path, HEADER):
        pass
    assert path.read_bytes() == before


def test_a_journal_of_other_code_is_refused_and_stays_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    other = {**HEADER, "code": "2"}
    with pytest.raises(DeclarationError, match=r"code 2, got .* code 1; .*--out"):
        open_journal(path, other).__enter__()
    assert path.read_bytes() == before


def test_a_journal_without_cells_becomes_that_of_other_code(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with open_journal(path, {**HEADER, "code": "2"}) as journal:
        journal.append("a", {"value": 1})
    with open_journal(path, {**HEADER, "code": "2"}) as journal:
        assert list(journal.rows) == ["a"]


def test_two_processes_do_not_write_into_one_journal(path: Path) -> None:
    with (
        open_journal(path, HEADER),
        pytest.raises(DeclarationError, match="expected no other study in this folder"),
    ):
        open_journal(path, HEADER).__enter__()
