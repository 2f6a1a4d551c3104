"""Answers are on disk before they are seen, and counted elsewhere: damage and loss are noticed."""

import base64
import io
import itertools
import json
import os
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.results.transcript import AnswerCount, AnswersLost, Transcript

KEY = "ab" * 32
ANSWERS = {
    "number of rows": np.array(7),
    "grid": np.arange(-6, 6).reshape(3, 4),
    "no nodes": np.zeros(0, dtype=np.int64),
    "ends of the range": np.array([2**63 - 1, -(2**63)]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a release that was begun."""
    file = tmp_path / "deep" / "transcript.jsonl"
    Transcript.create(file, KEY)
    return file


@pytest.fixture
def full(path: Path) -> Path:
    """The same, with all answers."""
    stored(Transcript(path))
    return path


def stored(transcript: Transcript) -> Transcript:
    for question, answer in ANSWERS.items():
        transcript.store(question, answer)
    return transcript


def assert_replays(transcript: Transcript, many: int = len(ANSWERS)) -> None:
    """The first ``many`` answers come back, then none."""
    for question, answer in list(ANSWERS.items())[:many]:
        recalled = transcript.recall(question).answer
        assert (recalled.dtype, recalled.shape) == (np.int64, answer.shape)
        assert (recalled == answer).all()
    assert transcript.recall("one more") is None


def test_stored_answers_are_recalled_in_order(full: Path):
    transcript = Transcript(full)
    transcript.require_header(KEY)
    assert len(transcript) == 1 + len(ANSWERS)
    for replayed in (
        transcript,
        Transcript(full).rewind(),
        Transcript.read(full),
        stored(Transcript()).rewind(),
    ):
        assert_replays(replayed)


SCALES = st.none() | st.fractions(min_value=Fraction(1, 10**20)) | st.just(Fraction(5e-324))
NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9)


@settings(max_examples=30)
@given(answers=st.lists(st.tuples(st.text(max_size=20), NUMBERS, SCALES), max_size=6))
def test_any_questions_and_answers_come_back_from_disk(answers, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "t"
    Transcript.create(path, KEY)
    transcript = Transcript(path)
    for question, numbers, scale in answers:
        transcript.store(question, np.array(numbers, dtype=np.int64), scale=scale)
    reopened = Transcript(path)
    assert reopened.chain == transcript.chain
    for question, numbers, scale in answers:
        record = reopened.recall(question)
        assert (record.answer.tolist(), record.scale) == (numbers, scale)


def test_another_question_at_the_same_place_is_refused(full: Path):
    expected = "is to 'number of rows', but the model now asks 'grid'"
    with pytest.raises(OtherQuestion, match=expected):
        Transcript(full).recall("grid")


def test_a_changed_answer_does_not_change_the_record(full: Path):
    transcript = Transcript(full)
    transcript.recall("number of rows").answer[...] += 1
    assert transcript.records[1].answer == 7


def test_the_chain_names_every_record_and_their_order():
    chains = {stored(Transcript()).chain, Transcript().chain}
    for questions in (["grid"], ["grid", "no nodes"], ["no nodes", "grid"], ["grid", "grid"]):
        transcript = Transcript()
        for question in questions:
            transcript.store(question, ANSWERS[question])
        chains.add(transcript.chain)
    assert len(chains) == 6


def test_an_unwritten_answer_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch):
    def full_disk(_: int) -> None:
        raise OSError("no space left")

    transcript = Transcript(path)
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        transcript.store("grid", ANSWERS["grid"])
    assert len(transcript) == 1
    with pytest.raises(FileNotFoundError):
        Transcript(path.parent / "absent").store("grid", ANSWERS["grid"])
    with pytest.raises(OSError, match="no space"):
        Transcript.create(path.parent / "other", KEY)
    assert list(path.parent.iterdir()) == [path]


def test_a_torn_last_record_is_dropped_wherever_it_was_torn(full: Path):
    content = full.read_bytes()
    begin = content.rindex(b"\n", 0, -1) + 1
    for end in range(begin, len(content)):
        full.write_bytes(content[:end])
        assert len(Transcript.read(full)) == len(ANSWERS) - 1
        assert full.read_bytes() == content[:end], "who reads does not write"
        assert_replays(Transcript(full), many=len(ANSWERS) - 1)
        assert full.read_bytes() == content[:begin]
    last = list(ANSWERS)[-1]
    Transcript(full).store(last, ANSWERS[last])
    assert full.read_bytes() == content


def test_a_changed_byte_in_any_whole_record_is_damage(full: Path):
    content = full.read_bytes()
    # Every seventh byte; the last line's own end apart, without which it is a torn one.
    for place in range(0, len(content) - 1, 7):
        changed = bytearray(content)
        changed[place] ^= 1
        full.write_bytes(changed)
        with pytest.raises(Damaged, match="Record"):
            Transcript(full)
        assert full.read_bytes() == changed


CHANGES: dict[str, Callable[[list[bytes]], object]] = {
    "swap": lambda lines: lines.insert(1, lines.pop(2)),
    "drop": lambda lines: lines.pop(1),
    "repeat": lambda lines: lines.insert(1, lines[1]),
    "blank": lambda lines: lines.insert(1, b"\n"),
    "nested": lambda lines: lines.insert(1, b"[" * 100_000 + b"\n"),
    "list": lambda lines: lines.insert(1, b"[1]\n"),
    "another answer": lambda lines: lines.__setitem__(1, with_answer(lines[1], b"other")),
}


def with_answer(line: bytes, answer: bytes) -> bytes:
    record = json.loads(line)
    record["record"]["answer"] = base64.b64encode(answer).decode()
    return json.dumps(record, sort_keys=True).encode() + b"\n"


@pytest.mark.parametrize("change", CHANGES)
def test_records_that_were_not_stored_are_damage(change: str, full: Path):
    lines = full.read_bytes().splitlines(keepends=True)
    CHANGES[change](lines)
    full.write_bytes(b"".join(lines))
    with pytest.raises(Damaged):
        Transcript(full)


@pytest.mark.parametrize("content", [None, b"", b'{"record"'])
def test_a_file_without_its_header_has_lost_answers(content: bytes | None, path: Path):
    Transcript(path).require_header(KEY)
    with pytest.raises(AnswersLost, match="has lost the answers drawn so far"):
        Transcript(path).require_header("cd" * 32)
    with pytest.raises(AnswersLost):
        stored(Transcript()).require_header(KEY)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AnswersLost):
        Transcript(path).require_header(KEY)


def test_create_never_overwrites_and_leaves_nothing_else_behind(full: Path):
    content = full.read_bytes()
    for key in (KEY, "cd" * 32):
        Transcript.create(full, key)
    assert full.read_bytes() == content
    assert list(full.parent.iterdir()) == [full]


def test_a_rewound_transcript_never_writes(full: Path):
    content, transcript = full.read_bytes(), Transcript(full)
    rewound = transcript.rewind()
    assert rewound.chain == transcript.chain
    assert [record.question for record in rewound.records] == list(ANSWERS)
    rewound.store("one more", np.array(1))
    assert full.read_bytes() == content


def test_the_chain_depends_on_the_salt(tmp_path: Path):
    def chain_of(name: str, salt: bytes) -> str:
        Transcript.create(tmp_path / name, KEY, salt=salt)
        transcript = Transcript(tmp_path / name)
        transcript.require_header(KEY)
        transcript.store("how many?", np.array([3]))
        assert Transcript(tmp_path / name).chain == transcript.chain
        return transcript.chain

    assert chain_of("a", b"1" * 32) == chain_of("b", b"1" * 32)
    assert len({chain_of("c", b"2" * 32), chain_of("d", b""), chain_of("a", b"1" * 32)}) == 3


QUESTIONS = ("first", "second", "third", "fourth")


_draws = itertools.count()


class Crash(BaseException):
    """In place of SIGKILL: nothing of ours catches it."""


@pytest.fixture
def count(tmp_path: Path) -> AnswerCount:
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
