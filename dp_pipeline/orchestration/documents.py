"""Quality rows as JSON values: what the evaluation asset hands to the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dp_pipeline.reporting.rows import QualityRow


def to_documents(rows: Sequence[QualityRow]) -> list[dict[str, Any]]:
    """Rows as JSON values."""
    return [{**vars(row), "epsilon": str(row.epsilon)} for row in rows]


def from_documents(documents: Sequence[Mapping[str, Any]]) -> list[QualityRow]:
    """Rows of JSON values."""
    return [QualityRow(**{**one, "epsilon": Fraction(one["epsilon"])}) for one in documents]
