"""Box: a set of codes in every column. What a class of rows is released as, where not by bits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dp_pipeline.anonymity.coded_rows import Column

Box = tuple[tuple[int, ...], ...]
"""Ascending codes, one tuple a column; never an empty one."""

_INTERVAL = re.compile(r"([\[(][^,]*), ([^,]*[\])])")


def whole_box(columns: Iterable[Column]) -> Box:
    """The box that holds every row there could be."""
    return tuple(tuple(range(column.size)) for column in columns)


def text_of(codes: Sequence[int], column: Column) -> str:
    """What a reader sees of a set of codes: ``any``, an interval, the levels or those it lacks.

    >>> ages = Column("age", ("[0, 20)", "[20, 40)", "[40, 60]", "?"), ordered=True, missing=3)
    >>> [text_of(codes, ages) for codes in ((1,), (0, 1), (1, 2, 3), (0, 1, 2, 3))]
    ['[20, 40)', '[0, 40)', '[20, 60] or ?', 'any']
    >>> jobs = Column("job", ("baker", "cook", "smith"))
    >>> text_of((0,), jobs), text_of((0, 2), jobs)
    ('baker', 'not cook')
    """
    if len(codes) == column.size:
        return "any"
    if not column.ordered:
        lacks = [code for code in range(column.size) if code not in codes]
        return f"not {_set(lacks, column)}" if len(lacks) < len(codes) else _set(codes, column)
    values = [code for code in codes if code != column.missing]
    parts = [_values(values, column)] if values else []
    missing = [column.levels[code] for code in codes if code == column.missing]
    return " or ".join(parts + missing)


def _values(values: Sequence[int], column: Column) -> str:
    """Values of an ordered column: one interval where they follow one another."""
    if len(values) == 1 or values[-1] - values[0] != len(values) - 1:
        return _set(values, column)
    low, high = column.levels[values[0]], column.levels[values[-1]]
    lower, upper = _INTERVAL.fullmatch(low), _INTERVAL.fullmatch(high)
    return f"{lower[1]}, {upper[2]}" if lower and upper else f"{low} to {high}"


def _set(codes: Sequence[int], column: Column) -> str:
    levels = [column.levels[code] for code in codes]
    return levels[0] if len(levels) == 1 else "{" + ", ".join(levels) + "}"
