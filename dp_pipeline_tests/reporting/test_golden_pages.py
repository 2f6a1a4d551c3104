"""What cards and reports say, word by word."""

import re

import pytest

from dp_pipeline_tests.reporting.golden_pages import GOLDEN, golden_texts

TEXTS = dict(golden_texts())


def test_every_golden_text_is_that_of_a_page():
    assert {path.name for path in GOLDEN.iterdir()} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_page_equals_its_golden_text(name: str):
    assert TEXTS[name] == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_no_template_leaves_a_gap_in_a_sentence(name: str):
    for line in TEXTS[name].splitlines():
        assert not re.search(r" [.,;:](\s|$)|\( | \)|,\w|(?<!0)\.\.|;;", line), line
