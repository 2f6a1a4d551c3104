"""Which models a drafted data set file proposes, and what the schedule would publish."""

from __future__ import annotations

from dp_pipeline.schema import skeleton_words as words
from dp_pipeline.schema.skeleton_columns import Attributes, may_be_axis, may_have_cells

_PLACES = (("lat", "lon"), ("lat", "lng"), ("latitude", "longitude"), ("x", "y"))
"""Names of two numbers that are a place."""


def models(attributes: Attributes, *, is_open: bool) -> str:
    """The lines of ``models`` and ``publish``.

    is_open   whether kinds of columns are still to be decided: then a model may not fit later
    """
    axes = [name for name, column in attributes.items() if may_be_axis(column)]
    has_map = len(axes) > 1
    has_table = any(may_have_cells(column) for column in attributes.values())
    published = "one_shot" if has_table else "htree_kmeans"
    return (
        "models:\n"
        + (_map(axes, is_open=is_open) if has_map else "")
        + (_table(is_open=is_open) if has_table else "")
        + f"{words.PUBLISH}publish: {{model: {published}, epsilon: 0.5}}\n"
    )


def _map(axes: list[str], *, is_open: bool) -> str:
    chosen = next((pair for pair in _PLACES if set(pair) <= set(axes)), None)
    columns = f", columns: {' '.join(chosen)}" if chosen else ""
    hint = words.MAYBE_MAP if is_open else ""
    return f"{words.MAP}{hint}  htree_kmeans: {{k: 8{columns}}}\n"


def _table(*, is_open: bool) -> str:
    return f"{words.TABLE}{words.MAYBE_TABLE if is_open else ''}  one_shot:\n"
