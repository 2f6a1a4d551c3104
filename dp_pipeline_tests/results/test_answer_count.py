"""Answers are counted outside of their file: whichever of the two is put back, it is noticed."""

import io
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.config.errors import Damaged
from dp_pipeline.results.transcript import AnswerCount, Transcript

KEY = "ab" * 32
QUESTIONS = ("first", "second", "third", "fourth")


_draws = itertools.count()


class Crash(BaseException):
    """In place of SIGKILL: nothing of ours catches it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a release that was begun."""
    file = tmp_path / "released" / "transcript.jsonl"
    Transcript.create(file, KEY)
    return file


@pytest.fixture
def count(tmp_path: Path) -> AnswerCount:
    """Its count, begun."""
    counted = AnswerCount(tmp_path / "counts" / KEY)
    counted.create()
    return counted


def opened(path: Path, count: AnswerCount) -> Transcript:
    transcript = Transcript(path)
    transcript.require_header(KEY)
    transcript.count_answers_in(count)
    return transcript


def draw(path: Path, count: AnswerCount, seen: list[tuple[str, int]], many: int = 4) -> None:
    """What a model does: every answer that it sees is noted; a new one is another number."""
    transcript = opened(path, count)
    for question in QUESTIONS[:many]:
        record = transcript.recall(question)
        if record is None:
            record = transcript.store(question, np.array([next(_draws)]))
        seen.append((question, int(record.answer[0])))


def cut(path: Path, answers: int) -> None:
    """Leave so many answers, whole to the end of a line."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: 1 + answers]))


def test_the_count_is_synced_second(path: Path, count: AnswerCount, monkeypatch):
    synced: list[tuple[str, bytes]] = []

    def fsync(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        (file,) = (each for each in (path, count.path) if each.stat().st_ino == inode)
        synced.append((file.name, file.read_bytes()))

    transcript = opened(path, count)
    monkeypatch.setattr(os, "fsync", fsync)
    transcript.store("first", np.array([7]))
    assert synced[0] == (path.name, path.read_bytes())
    assert b"first" in synced[0][1]
    assert synced[1:] == [(count.path.name, b"00000000000000000001\n")]


@pytest.mark.parametrize(("answers", "counted"), [(0, 3), (1, 3), (2, 3), (3, 0)])
def test_answers_cut_off_or_an_older_count_are_noticed(answers, counted, path, count):
    draw(path, count, [], many=3)
    cut(path, answers)
    count.write(counted)
    with pytest.raises(Damaged, match=f"must hold the {counted} answers .* but it holds {answers}"):
        opened(path, count)


def test_a_torn_answer_is_lost_only_where_it_was_counted(path: Path, count: AnswerCount):
    draw(path, count, [], many=2)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(Damaged, match=r"must hold the 2 answers .*, but it holds 1"):
        opened(path, count)
    path.write_bytes(content + b'{"chain": "0')
    draw(path, count, [])
    assert count.read() == 4


@pytest.mark.parametrize("content", [None, b"", b"3\n", b"0000000000000000000x\n", b"0" * 40])
def test_a_broken_count_is_noticed(content: bytes | None, path: Path, count: AnswerCount):
    draw(path, count, [], many=2)
    if content is None:
        count.remove()
    else:
        count.path.write_bytes(content)
    with pytest.raises(Damaged, match="must hold the number of answers drawn so far"):
        opened(path, count)


def crash_in_append(share: float) -> Callable[[pytest.MonkeyPatch], None]:
    """Crash once this share of the answer is written."""

    class TornFile(io.FileIO):
        def write(self, line: bytes) -> int:  # type: ignore[override]
            super().write(line[: int(share * len(line))])
            raise Crash

    return lambda patch: patch.setattr(os, "fdopen", TornFile)


def crash_in_count(*, is_written: bool) -> Callable[[pytest.MonkeyPatch], None]:
    write = AnswerCount.write

    def counted(self: AnswerCount, answers: int) -> None:
        if is_written:
            write(self, answers)
        raise Crash

    return lambda patch: patch.setattr(AnswerCount, "write", counted)


CRASHES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], int]] = {
    "before the answer is written": (crash_in_append(0), 0),
    "while it is written": (crash_in_append(0.5), 0),
    "between answer and count": (crash_in_count(is_written=False), 1),
    "after the count": (crash_in_count(is_written=True), 1),
}
"""How a process ends at one answer, and how many more answers are on disk then."""


@pytest.mark.parametrize("done", range(3))
@pytest.mark.parametrize("crash", CRASHES)
def test_after_a_crash_one_answer_is_seen(crash: str, done: int, path: Path, count: AnswerCount):
    seen: list[tuple[str, int]] = []
    draw(path, count, seen, many=done)
    begin, other_answers = CRASHES[crash]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        begin(patch)
        draw(path, count, seen)
    assert len(Transcript(path)) - 1 == done + other_answers
    for _ in range(2):
        draw(path, count, seen)
    assert len(set(seen)) == len(QUESTIONS), "somebody saw two answers to one question"
    assert count.read() == len(QUESTIONS) == len(Transcript(path)) - 1


def test_an_answer_a_resumed_run_saw_is_counted_first(path: Path, count: AnswerCount):
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        crash_in_count(is_written=False)(patch)
        draw(path, count, [])
    assert count.read() == 0
    assert opened(path, count).recall("first") is not None
    cut(path, 0)
    with pytest.raises(Damaged, match="must hold the 1 answers"):
        opened(path, count)


def test_a_count_is_private_created_once_and_removed(path: Path, count: AnswerCount):
    draw(path, count, [], many=2)
    count.create()
    assert count.read() == 2
    assert list(count.path.parent.iterdir()) == [count.path]
    assert stat.S_IMODE(count.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(count.path.parent.stat().st_mode) == 0o700
    for _ in range(2):
        count.remove()
    assert list(count.path.parent.iterdir()) == []
