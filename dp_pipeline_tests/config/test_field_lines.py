"""Lines of fields, and decisions that nobody has made."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.yaml_text import Document
from dp_pipeline_tests.config.declarations import declaration, written

MODELS = "models:\n  dpqt_kmeans:\n    k: 2\n  independent:"


@pytest.fixture
def lines(tmp_path: Path) -> Document:
    return Document.read(written(tmp_path, declaration(models=MODELS)))


def line_of(lines: Document, *field: str) -> int:
    error = lines.located(DeclarationError("wrong"), *field)
    path, line, message = str(error).rsplit(":", 2)
    assert (path, message) == (str(lines.path), " wrong")
    return int(line)


def test_a_mistake_gets_the_line_of_its_field(lines: Document) -> None:
    text = lines.path.read_text().splitlines()
    for field in (("models", "dpqt_kmeans", "k"), ("models", "independent"), ("partitions",)):
        assert text[line_of(lines, *field) - 1].strip().startswith(f"{field[-1]}:")


def test_a_field_that_is_not_there_has_the_line_of_the_one_around_it(lines: Document) -> None:
    assert line_of(lines, "models", "dpqt_kmeans", "starts") == line_of(
        lines, "models", "dpqt_kmeans"
    )
    assert line_of(lines, "evaluation", "epsilon") == 1


def test_a_level_may_be_called_todo(tmp_path: Path) -> None:
    """A column of tasks has one."""
    attributes = (
        "attributes:\n  state: {levels: [TODO, doing, done], other: TODO, aliases: {open: TODO}}"
    )
    spec = load_spec(written(tmp_path, declaration(attributes=attributes, models="models: {x: }")))
    assert spec.domain["state"].labels() == ("TODO", "doing", "done")
