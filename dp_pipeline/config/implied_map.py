"""What one column of a declaration says about another that is read from the same one: bins about
wider bins, a time about its year, month, weekday and hour, a number about its product, and a text
about its first letters.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.clock import ClockBins, part_of_time
from dp_pipeline.config.domain import MISSING, Attribute
from dp_pipeline.config.encoding import Bins, Levels, number_of
from dp_pipeline.config.reading import PARTS_OF_TIME

Codes = tuple[int, ...]


def implied_map(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    """Return code of ``fine`` → codes of ``coarse`` that can occur with it in a row.

    {} if the declarations of both do not imply them. The level ``other`` and missing values of
    ``fine`` have no entry.
    """
    maps = (_map_of_bins, _map_of_prefixes, _map_of_values)
    return next((code_map for map_ in maps if (code_map := map_(fine, coarse))), {})


def all_codes(attribute: Attribute) -> Codes:
    return tuple(range(attribute.size))


def free_codes(attribute: Attribute) -> Codes:
    """Return the codes of the level ``other`` and of missing values, where they exist."""
    labels = attribute.labels()
    names = [attribute.other, MISSING if attribute.nullable else None]
    return tuple(labels.index(name) for name in names if name is not None)


def _map_of_bins(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    is_same = (fine.column, fine.signs, fine.clock) == (coarse.column, coarse.signs, coarse.clock)
    if not is_same or not isinstance(fine.cells, Bins) or not isinstance(coarse.cells, Bins):
        return {}
    edges, cuts = fine.cells.edges, coarse.cells.edges
    # A number outside of the coarser one's bounds is in its first or last bin, or missing.
    is_nested = set(cuts[1:-1]) <= set(edges) and edges[0] <= cuts[0] and cuts[-1] <= edges[-1]
    # A text that is missing for the coarser attribute alone has none of its bins.
    if not is_nested or not set(coarse.missing) <= set(fine.missing):
        return {}
    places = np.searchsorted(cuts[1:-1], edges[:-1], side="right")
    cells: dict[int, Codes] = {code: (int(place),) for code, place in enumerate(places)}
    for code in cells if coarse.on_invalid == "keep" else ():
        is_end = fine.on_invalid == "clip" and code in (0, len(edges) - 2)
        if is_end or edges[code] < cuts[0] or edges[code + 1] > cuts[-1]:
            cells[code] += (coarse.missing_code,)
    return cells


def _map_of_prefixes(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    derived = coarse.derived
    is_prefix = derived is not None and derived.is_text and derived.inputs == (fine.column,)
    if derived is None or not is_prefix or fine.derived or not isinstance(fine.cells, Levels):
        return {}
    levels, cells = fine.cells.values, {}
    for code in set(range(len(levels))) - set(free_codes(fine)):
        aliases = (text for text, level in fine.aliases if level == levels[code])
        texts = {levels[code], *aliases}
        prefixes = ("" if text in derived.missing else text[: derived.letters] for text in texts)
        cells[code] = tuple(sorted({cell for text in prefixes for cell in _cell_of(coarse, text)}))
    return cells if all(cells.values()) else {}


def _cell_of(attribute: Attribute, text: str) -> Codes:
    """Return, in a tuple, the code that a text in a row gets; () if its row is dropped."""
    if not isinstance(attribute.cells, Levels):
        return ()
    levels, text = attribute.cells.values, text.strip()
    level = dict(attribute.aliases).get(text, text)
    if level in levels:
        return (levels.index(level),)
    is_missing = attribute.nullable and level in {"", *attribute.missing}
    if is_missing or attribute.on_invalid == "keep":
        return (attribute.missing_code,)
    is_other = attribute.on_invalid == "other" and attribute.other is not None
    return (levels.index(str(attribute.other)),) if is_other else ()


def _map_of_values(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    """Return bin → the codes that its values have in an attribute derived from them; {} if the
    declarations do not imply them for every bin.

    Where ``fine`` clips values to its bounds, the first and the last bin have all codes.
    """
    derived, bins = coarse.derived, fine.cells
    if derived is None or fine.derived is not None or derived.inputs != (fine.column,):
        return {}
    if not isinstance(bins, Bins) or not set(derived.missing) <= set(fine.missing):
        return {}
    if isinstance(bins, ClockBins):
        # A day tells nothing of the hour.
        is_hour_of_day = derived.function == "hour" and bins.clock.kind == "date"
        is_same_clock = derived.clock == replace(bins.clock, kind="timestamp")
        is_read_alike = derived.function in PARTS_OF_TIME and is_same_clock and not is_hour_of_day
    else:
        is_read_alike = derived.function == "product" and derived.signs == fine.signs
    if not is_read_alike:
        return {}
    cells = {}
    for code in range(bins.size):
        if fine.on_invalid == "clip" and code in (0, bins.size - 1):
            # Values outside of the bounds are in the first and the last bin.
            cells[code] = all_codes(coarse)
            continue
        low, high = bins.edges[code : code + 2]
        if isinstance(bins, ClockBins):
            walls = bins.clock.wall_times(np.array([low, np.ceil(high) - 1]))
            values = _parts_between(derived.function, walls)
            codes = {cell for value in values for cell in _cells_between(coarse, value, value)}
        else:
            ends = sorted((low * derived.factor, high * derived.factor))
            codes = {*_cells_between(coarse, *ends)}
        cells[code] = tuple(sorted(codes))
    return cells if all(cells.values()) else {}


def _parts_between(part: str, walls: NDArray[np.datetime64]) -> list[int]:
    """Return every value of a part of time between two local times, ends included."""
    unit = {"hour": "h", "weekday": "D", "month": "M", "year": "Y"}[part]
    # A clock may be put back between them. After a day, a week or a year all values were met.
    first, last = sorted(walls.astype(f"datetime64[{unit}]").astype(np.int64).tolist())
    last = last if part == "year" else min(last, first + 24)
    steps = np.arange(first, last + 1).astype(f"datetime64[{unit}]")
    return [int(value) for value in np.unique(part_of_time(part, steps))]


def _cells_between(attribute: Attribute, low: float, high: float) -> Codes:
    """Return the codes of numbers from ``low`` to ``high``; () if their rows are dropped.

    () for an attribute with levels, unless ``low`` is ``high``.
    """
    if isinstance(attribute.cells, Levels):
        numbers = {number_of(level): level for level in reversed(attribute.cells.values)}
        return _cell_of(attribute, numbers.get(low, str(low))) if low == high else ()
    assert isinstance(attribute.cells, Bins)
    ends = attribute.cells.edges[0], attribute.cells.edges[-1]
    first, last = attribute.cells.encode(np.clip(np.array([low, high]), *ends)).tolist()
    is_inside = ends[0] <= low and high <= ends[1]
    if is_inside or attribute.on_invalid == "clip":
        return tuple(range(first, last + 1))
    outside = (attribute.missing_code,) if attribute.nullable else ()
    return (*range(first, last + 1), *outside) if high >= ends[0] and low <= ends[1] else outside
