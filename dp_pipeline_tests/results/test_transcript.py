"""Answers are on disk before they are seen, come back in order, and damage is noticed."""

from __future__ import annotations

import base64
import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.results.transcript import Transcript

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


def full_disk(_: int) -> None:
    """In place of os.fsync."""
    raise OSError("no space left")


def stored(transcript: Transcript) -> Transcript:
    for question, answer in ANSWERS.items():
        transcript.store(question, answer)
    return transcript


def assert_replays(transcript: Transcript, many: int = len(ANSWERS)) -> None:
    """The first ``many`` answers come back, then none."""
    for question, answer in list(ANSWERS.items())[:many]:
        record = transcript.recall(question)
        assert record is not None
        recalled = record.answer
        assert (recalled.dtype, recalled.shape) == (np.int64, answer.shape)
        assert (recalled == answer).all()
    assert transcript.recall("one more") is None


# Storing and recalling.


def test_stored_answers_are_recalled_in_order_from_disk(full: Path) -> None:
    reopened = Transcript(full)
    reopened.require_header(KEY)
    assert len(reopened) == 1 + len(ANSWERS)
    assert_replays(reopened)


def test_a_transcript_in_memory_replays_like_one_on_disk(full: Path) -> None:
    assert_replays(stored(Transcript()).rewind())
    assert_replays(Transcript(full).rewind())


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    answers=st.lists(
        st.tuples(
            st.text(max_size=20),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9),
            st.none() | st.fractions(min_value=Fraction(1, 10**20)) | st.just(Fraction(5e-324)),
        ),
        max_size=6,
    )
)
def test_any_questions_and_answers_come_back_from_disk(
    answers: list[tuple[str, list[int], Fraction | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "t"
    Transcript.create(path, KEY)
    transcript = Transcript(path)
    for question, numbers, scale in answers:
        transcript.store(question, np.array(numbers, dtype=np.int64), scale=scale)
    reopened = Transcript(path)
    assert reopened.chain == transcript.chain
    records = [reopened.recall(question) for question, _, _ in answers]
    assert [(one.answer.tolist(), one.scale) for one in records] == [one[1:] for one in answers]


def test_an_interrupted_release_goes_on_where_it_stopped(path: Path) -> None:
    first = Transcript(path)
    first.store("number of rows", ANSWERS["number of rows"])
    second = Transcript(path)
    assert second.recall("number of rows").answer == 7
    assert second.recall("grid") is None
    for question in list(ANSWERS)[1:]:
        second.store(question, ANSWERS[question])
    assert_replays(Transcript(path))


def test_another_question_at_the_same_place_is_refused(full: Path) -> None:
    with pytest.raises(OtherQuestion, match="expected 'number of rows' next, got 'grid'"):
        Transcript(full).recall("grid")


def test_a_changed_answer_does_not_change_the_record(full: Path) -> None:
    transcript = Transcript(full)
    answer = transcript.recall("number of rows").answer
    answer += 1
    assert transcript.records[1].answer == 7


def test_the_chain_names_every_record_and_their_order() -> None:
    chains = {stored(Transcript()).chain, Transcript().chain}
    for questions in (["grid"], ["grid", "no nodes"], ["no nodes", "grid"], ["grid", "grid"]):
        transcript = Transcript()
        for question in questions:
            transcript.store(question, ANSWERS[question])
        chains.add(transcript.chain)
    assert len(chains) == 6


# On disk before it is seen.


def test_an_answer_is_fsynced_in_the_file_when_store_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def fsync(descriptor: int) -> None:
        assert os.fstat(descriptor).st_ino == path.stat().st_ino
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    transcript = Transcript(path)
    transcript.store("grid", ANSWERS["grid"])
    assert synced == [path.read_bytes()]
    assert b"grid" in synced[0]


def test_an_answer_that_could_not_be_written_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = Transcript(path)
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        transcript.store("grid", ANSWERS["grid"])
    assert len(transcript) == 1


def test_answers_are_not_stored_without_a_file_that_was_begun(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Transcript(tmp_path / "absent").store("grid", ANSWERS["grid"])


# Damage.


def test_a_torn_last_record_is_dropped_wherever_it_was_torn(full: Path) -> None:
    content = full.read_bytes()
    begin = content.rindex(b"\n", 0, -1) + 1
    for end in range(begin, len(content)):
        full.write_bytes(content[:end])
        assert_replays(Transcript(full), many=len(ANSWERS) - 1)
        assert full.read_bytes() == content[:begin]


def test_after_a_torn_record_the_file_is_made_whole(full: Path) -> None:
    content = full.read_bytes()
    full.write_bytes(content[:-5])
    last = list(ANSWERS)[-1]
    Transcript(full).store(last, ANSWERS[last])
    assert full.read_bytes() == content


def test_a_changed_byte_in_any_whole_record_is_damage(full: Path) -> None:
    content = full.read_bytes()
    # Every seventh byte; the last line's own end apart, without which it is a torn one.
    for place in range(0, len(content) - 1, 7):
        changed = bytearray(content)
        changed[place] ^= 1
        full.write_bytes(changed)
        with pytest.raises(Damaged, match="expected record"):
            Transcript(full)
        assert full.read_bytes() == changed


@pytest.mark.parametrize("change", ["swap", "drop", "repeat", "blank", "nested", "list"])
def test_records_that_were_not_stored_are_damage(change: str, full: Path) -> None:
    lines = full.read_bytes().splitlines(keepends=True)
    match change:
        case "swap":
            lines[1], lines[2] = lines[2], lines[1]
        case "drop":
            del lines[1]
        case "repeat":
            lines.insert(1, lines[1])
        case "blank":
            lines.insert(1, b"\n")
        case "nested":
            lines.insert(1, b"[" * 100_000 + b"\n")
        case "list":
            lines.insert(1, b"[1]\n")
    full.write_bytes(b"".join(lines))
    with pytest.raises(Damaged):
        Transcript(full)


def test_an_answer_put_in_another_ones_place_is_damage(full: Path) -> None:
    lines = full.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[1])
    record["record"]["answer"] = base64.b64encode(b"other").decode()
    lines[1] = json.dumps(record, sort_keys=True).encode() + b"\n"
    full.write_bytes(b"".join(lines))
    with pytest.raises(Damaged, match="record 2"):
        Transcript(full)


# The header.


def test_a_file_begun_for_another_release_is_refused(path: Path) -> None:
    Transcript(path).require_header(KEY)
    with pytest.raises(Damaged, match="expected the answers drawn so far"):
        Transcript(path).require_header("cd" * 32)


@pytest.mark.parametrize("content", [None, b"", b'{"record"'])
def test_a_release_whose_file_is_lost_or_empty_has_lost_answers(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "lost"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Damaged):
        Transcript(path).require_header(KEY)


def test_a_transcript_without_header_has_not_begun() -> None:
    with pytest.raises(Damaged):
        stored(Transcript()).require_header(KEY)


def test_create_never_overwrites_and_leaves_nothing_else_behind(full: Path) -> None:
    content = full.read_bytes()
    Transcript.create(full, KEY)
    Transcript.create(full, "cd" * 32)
    assert full.read_bytes() == content
    assert list(full.parent.iterdir()) == [full]


def test_create_makes_the_whole_file_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        Transcript.create(tmp_path / "t", KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_rewound_transcript_never_writes(full: Path) -> None:
    content = full.read_bytes()
    rewound = Transcript(full).rewind()
    rewound.store("one more", np.array(1))
    assert full.read_bytes() == content
    assert len(Transcript(full)) == 1 + len(ANSWERS)


def test_a_rewound_transcript_has_the_same_chain_and_no_header(full: Path) -> None:
    transcript = Transcript(full)
    assert transcript.rewind().chain == transcript.chain
    assert [one.question for one in transcript.rewind().records] == list(ANSWERS)


def test_a_salted_digest_tells_nobody_the_answers(tmp_path: Path):
    def chain_of(name: str, salt: bytes) -> str:
        Transcript.create(tmp_path / name, KEY, salt=salt)
        transcript = Transcript(tmp_path / name)
        transcript.require_header(KEY)
        transcript.store("how many?", np.array([3]))
        assert Transcript(tmp_path / name).chain == transcript.chain
        return transcript.chain

    assert chain_of("a", b"1" * 32) == chain_of("b", b"1" * 32)
    assert chain_of("c", b"2" * 32) != chain_of("a", b"1" * 32)
    assert chain_of("d", b"") != chain_of("a", b"1" * 32)
