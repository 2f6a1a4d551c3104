"""What docs/your_own_data.md says of rows that are not as declared is what preparation does."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from dp_pipeline.config.encoding import INVALID
from dp_pipeline.raw.values import level_codes, valid_numbers
from dp_pipeline_tests.config.declarations import declaration, loaded

OTHER = "levels: [red, blue, rest], other: rest"


def prepared(folder: Path, rule: str, attribute: str, cell: str | None) -> float | str | None:
    """One cell after preparation: its number or level; None where its row is left out."""
    here = ", on_invalid: other" if rule == "other" else ""
    spec = loaded(
        folder,
        rule=f"on_invalid: {'drop' if rule == 'other' else rule}",
        attributes=f"attributes:\n  odd: {{{attribute}{here}}}\n  x: {{bounds: [0, 8], bins: 4}}",
    )
    odd, column = spec.domain["odd"], pa.chunked_array([pa.array([cell], pa.string())])
    if odd.coordinate is not None:
        (number,) = valid_numbers(odd, column)
        return None if math.isnan(number) else float(number)
    (code,) = level_codes(odd, column)
    return None if code == INVALID else odd.labels()[code]


@pytest.mark.parametrize(
    ("attribute", "cell", "clipped", "dropped"),
    [
        ("bounds: [0, 120], bins: 4", "130", 120.0, None),
        ("bounds: [0, 120], bins: 4", "12", 12.0, 12.0),
        ("bounds: [0, 120], bins: 4", "old", None, None),
        (OTHER, "green", "rest", None),
        ("levels: [red, blue]", "green", None, None),
        (OTHER, None, "rest", None),
        ("levels: [red, blue]", None, None, None),
        ("levels: [red, blue], nullable: true", None, "missing", "missing"),
    ],
)
def test_a_cell_becomes_what_the_table_says(
    attribute: str, cell: str | None, clipped: object, dropped: object, tmp_path: Path
) -> None:
    assert prepared(tmp_path, "clip", attribute, cell) == clipped
    assert prepared(tmp_path, "drop", attribute, cell) == dropped


def test_one_attribute_may_keep_what_others_drop(tmp_path: Path) -> None:
    assert prepared(tmp_path, "other", OTHER, "green") == "rest"
    assert prepared(tmp_path, "other", OTHER, None) == "rest"


def test_another_choice_is_another_release(tmp_path: Path) -> None:
    clip, drop = (loaded(tmp_path, rule=f"on_invalid: {rule}") for rule in ("clip", "drop"))
    assert clip.digest != drop.digest
    assert loaded(tmp_path).digest == clip.digest
    assert "on_invalid" not in declaration()
