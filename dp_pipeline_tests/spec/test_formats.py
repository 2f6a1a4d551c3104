"""What has another format is refused in one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.spec.errors import DeclarationError, UnknownFormat
from dp_pipeline.spec.formats import require_format
from dp_pipeline.spec.parser import load_spec
from dp_pipeline_tests.spec.declarations import declaration, loaded, written


def refusal(stored: object) -> str:
    with pytest.raises(UnknownFormat) as caught:
        require_format(stored, 2, of="bundle 3f55fba", older="draw it anew")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_format_that_is_read_is_accepted() -> None:
    require_format(2, 2, of="bundle", older="draw it anew")


@pytest.mark.parametrize("stored", [3, 99, 10**30])
def test_a_newer_format_asks_for_an_upgrade(stored: int) -> None:
    line = refusal(stored)
    assert line.startswith(f"bundle 3f55fba: expected format 2, got {stored}: made by a newer")
    assert "upgrade" in line
    assert "dp-pipeline doctor" in line


@pytest.mark.parametrize("stored", [None, 0, 1])
def test_an_older_format_says_what_can_be_done(stored: int | None) -> None:
    got = "none" if stored is None else stored
    assert f"got {got}: made by an older dp_pipeline: draw it anew" in refusal(stored)


@pytest.mark.parametrize("stored", ["2", 2.0, True, -1, [2], {"format": 2}, float("nan")])
def test_what_is_no_number_of_a_format_is_not_taken_for_one(stored: object) -> None:
    assert "got what is no format's number" in refusal(stored)


def test_a_data_set_file_may_say_its_format_and_needs_not(tmp_path: Path) -> None:
    assert loaded(tmp_path, format="format: 1") == loaded(tmp_path)


@pytest.mark.parametrize("text", ["0", "1.0", "one", "-1", "true", "01"])
def test_an_unknown_format_of_a_data_set_file_is_refused_with_its_line(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError, match=rf"toy.yaml:2: format: expected 1, got '{text}'"):
        load_spec(written(tmp_path, f"# mine\nformat: {text}\n{declaration()}"))


def test_a_newer_data_set_file_is_known_as_such_before_its_new_fields(tmp_path: Path) -> None:
    path = written(tmp_path, "format: 2\nwhatever: [1]\n" + declaration())
    with pytest.raises(
        DeclarationError, match="made for a newer dp_pipeline, so upgrade"
    ) as raised:
        load_spec(path)
    assert "whatever" not in str(raised.value)
