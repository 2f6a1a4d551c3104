"""Whatever is written as YAML is read back as the same texts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.yaml_text import Document, field_text, flow

# What a name of a column can hold: no surrogates, and no character that YAML cannot write.
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text != "TODO")


@settings(derandomize=True, deadline=None, max_examples=40)
@given(text=TEXTS)
def test_a_text_is_read_back(text: str) -> None:
    document = Document.of_text(f"name: {flow(text)}\n", Path("a.yaml"))
    assert document.texts == {"name": text}


@settings(derandomize=True, deadline=None, max_examples=40)
@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
def test_a_list_is_read_back_however_long_it_is(texts: list[str]) -> None:
    lines = field_text("colour", {"levels": texts, "other": texts[0]}, indent=2)
    text = "attributes:\n" + "\n".join(lines) + "\n"
    document = Document.of_text(text, Path("a.yaml"))
    colour = {"levels": texts, "other": texts[0]}
    assert document.texts == {"attributes": {"colour": colour}}


def test_a_field_that_fits_is_one_line_and_a_long_list_is_broken_between_its_items() -> None:
    assert field_text("x", {"bounds": ["0", "8"]}) == ["x: {bounds: [0, 8]}"]
    lines = field_text("street", {"levels": [f"street number {place}" for place in range(40)]})
    assert lines[:2] == ["street:", "  levels:"]
    assert max(map(len, lines)) <= 100
    assert all(line.endswith((",", "]")) for line in lines[2:])
