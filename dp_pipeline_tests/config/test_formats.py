"""What has another format is refused in one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError, UnknownFormat
from dp_pipeline.config.formats import require_format
from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.config.declarations import declaration, loaded, written


def test_the_format_that_is_read_is_accepted() -> None:
    require_format(1, of="bundle")


@pytest.mark.parametrize("stored", [None, 0, 2, 99, 10**30])
def test_an_unknown_format_is_refused_in_one_line(stored: int | None) -> None:
    actual = "no format" if stored is None else stored
    with pytest.raises(UnknownFormat) as caught:
        require_format(stored, of="bundle 3f55fba")
    assert str(caught.value) == (
        f"bundle 3f55fba: expected format 1, got {actual}: use the dp_pipeline that wrote it; "
        "`dp-pipeline check` lists all formats"
    )


@pytest.mark.parametrize("stored", ["1", 1.0, True, -1, [1], {"format": 1}, float("nan")])
def test_only_integers_are_format_numbers(stored: object) -> None:
    with pytest.raises(UnknownFormat, match="got another value: put back a copy"):
        require_format(stored, of="bundle")


def test_a_data_set_file_may_say_its_format_and_needs_not(tmp_path: Path) -> None:
    assert loaded(tmp_path, format="format: 1") == loaded(tmp_path)


@pytest.mark.parametrize("text", ["0", "1.0", "one", "-1", "true", "01"])
def test_an_unknown_format_of_a_file_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=rf"toy.yaml:2: format: expected 1, got '{text}'"):
        load_spec(written(tmp_path, f"# mine\nformat: {text}\n{declaration()}"))


def test_the_format_of_a_data_set_file_is_read_before_its_fields(tmp_path: Path) -> None:
    path = written(tmp_path, "format: 2\nwhatever: [1]\n" + declaration())
    with pytest.raises(DeclarationError, match="format: expected 1, got '2'") as raised:
        load_spec(path)
    assert "whatever" not in str(raised.value)
