"""Every mistake of the table is refused in one line, at its place and in its words."""

import re

import pytest

from dp_pipeline_tests.config.mistakes import GOOD, TABLE, Case, cases, table_text


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.lines[0]} {case.refusal}"[:90])
def test_a_mistake_is_refused_in_the_words_of_the_table(case, tmp_path, monkeypatch):
    monkeypatch.delenv("DP_PIPELINE_DATA", raising=False)
    assert case.refused(tmp_path) == case.refusal


@pytest.mark.parametrize("good", GOOD)
def test_the_files_without_a_mistake_are_accepted(good, tmp_path):
    assert Case(good, (), "").refused(tmp_path) == ""


def test_every_refusal_states_what_was_expected_and_got():
    table = cases()
    for case in table:
        words = r"> (\d+|-) .*\b(expected .+, got|must|has|is)\b.+"
        assert re.fullmatch(words, case.refusal), case.refusal
        # The file has the name of the data set, and no password is repeated.
        assert not re.search(r"\btoy\b|s3cret", re.sub("`.+?`", "", case.refusal)), case.refusal
    assert table_text(table) == TABLE.read_text(encoding="utf-8")
