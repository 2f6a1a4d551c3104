"""Answers are on disk before they are seen, come back in order, and damage is noticed."""

import base64
import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.results.transcript import AnswersLost, Transcript

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
