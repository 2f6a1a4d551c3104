"""Section ``constraints`` of a data set file: what of several columns there is together in one row.

A constraint is about cells: a set of levels, or an interval that begins and ends where bins do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.constraints import MOST_CONSTRAINED_CELLS, Box, Constraint
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.encoding import Bins, Levels, Names
from dp_pipeline.config.errors import DeclarationError, Refused
from dp_pipeline.config.fields import a_mapping, below, not_among, require

Combination = dict[str, tuple[str, ...]]
"""Attribute → texts, each of which says some of its cells."""

Codes = tuple[int, ...]

_CELLS = {"anyOf": [fields.TEXT, {"type": "array", "items": fields.TEXT, "minItems": 1}]}
_COMBINATION = {"type": "object", "additionalProperties": _CELLS, "minProperties": 1}
_COMBINATIONS = {"type": "array", "items": _COMBINATION, "minItems": 1}
_MAP = {"type": "object", "additionalProperties": _CELLS}
_DECIDED = {"anyOf": [fields.TEXT, {"type": "object", "additionalProperties": _MAP}]}


def _texts(value: object) -> tuple[str, ...]:
    """One text, or a list of them."""
    if isinstance(value, str):
        return (value,)
    texts = fields.a_list(value)
    is_plain = texts and all(isinstance(one, str) for one in texts)
    require(is_plain, "a level, an interval, or a list of such", "something else")
    return tuple(texts)


def _combination(value: object) -> Combination:
    found = {}
    for name, texts in a_mapping(value).items():
        with below(name):
            found[name] = _texts(texts)
    return found


def _combinations(value: object) -> tuple[Combination, ...]:
    """A list of combinations; one by itself is a list of one."""
    if isinstance(value, dict):
        return (_combination(value),)
    found = []
    for place, one in enumerate(fields.a_list(value)):
        with below(place):
            found.append(_combination(one))
    return tuple(found)


def _alternatives(value: object) -> tuple[tuple[Combination, ...], ...]:
    """A list of lists of combinations; one list of them by itself is a list of one."""
    lists = fields.a_list(value)
    if all(isinstance(one, dict) for one in lists):
        return (_combinations(lists),)
    found = []
    for place, one in enumerate(lists):
        with below(place):
            found.append(_combinations(fields.a_list(one)))
    return tuple(found)


def _decisions(value: object) -> dict[str, dict[str, Combination | None]]:
    """Finer attribute → coarser one → its map, or None where the declaration says it."""
    found: dict[str, dict[str, Combination | None]] = {}
    for fine, decided in a_mapping(value).items():
        with below(fine):
            if isinstance(decided, str):
                found[fine] = {decided: None}
            else:
                found[fine] = {}
                for coarse, map_ in a_mapping(decided).items():
                    with below(coarse):
                        found[fine][coarse] = _combination(map_)
    return found


class ConstraintsSection(fields.Section):
    """What of several columns there is together in one row.

    never    Combinations that no row has: [{age: "[0, 16)", marital: [Married, Widowed]}].
    only     Lists of combinations: every row has one of each list.
    depends  Columns that decide coarser ones: {city: {county: {Graz: Styria, Linz: Upper}}}.
    """

    never: Annotated[
        tuple[Combination, ...],
        BeforeValidator(_combinations),
        WithJsonSchema({"anyOf": [_COMBINATION, _COMBINATIONS]}),
    ] = ()
    only: Annotated[
        tuple[tuple[Combination, ...], ...],
        BeforeValidator(_alternatives),
        WithJsonSchema({"type": "array", "items": {"anyOf": [_COMBINATION, _COMBINATIONS]}}),
    ] = ()
    depends: Annotated[
        dict[str, dict[str, Combination | None]],
        BeforeValidator(_decisions),
        WithJsonSchema({"type": "object", "additionalProperties": _DECIDED}),
        Field(default_factory=dict),
    ]

    @model_validator(mode="after")
    def _says_some(self) -> ConstraintsSection:
        says = self.never or self.only or self.depends
        require(says, "never, only or depends", "none")
        return self

    def declared(self, domain: Domain) -> tuple[Constraint, ...]:
        """The constraints over the declared cells; Refused for what is about no cells, for one
        that forbids nothing or everything, and for one over too many cells.
        """
        found = []
        for place, one in enumerate(self.never):
            with below("never", place):
                found.append(_never(one, domain))
        for place, several in enumerate(self.only):
            with below("only", place):
                found.append(_only(several, domain))
        for fine, decided in self.depends.items():
            with below("depends", fine):
                found += [_depends(fine, *one, domain) for one in decided.items()]
        return tuple(found)


def _never(one: Combination, domain: Domain) -> Constraint:
    said = " with ".join(_words(name, texts) for name, texts in one.items())
    names = _ordered(one, domain)
    box = _box(one, names, domain)
    return _checked(Constraint(f"never {said}", names, (box,), is_only=False), domain)


def _box(one: Combination, names: Names, domain: Domain) -> Box:
    """Codes of each attribute; all of them where the combination does not name it."""
    codes = []
    for name in names:
        with below(name):
            every = tuple(range(domain[name].size))
            codes.append(_codes(domain[name], one[name]) if name in one else every)
    return tuple(codes)


def _only(several: Sequence[Combination], domain: Domain) -> Constraint:
    """An attribute that a combination does not name may be anything there."""
    names = _ordered({name: () for one in several for name in one}, domain)
    boxes = []
    for place, one in enumerate(several):
        with below(place):
            boxes.append(_box(one, names, domain))
    words = f"only {len(several)} combinations of {' and '.join(names)}"
    if len(several) <= SHORT:
        words = "only " + " or ".join(
            " with ".join(_words(name, texts) for name, texts in one.items()) for one in several
        )
    return _checked(Constraint(words, names, tuple(boxes), is_only=True), domain)


SHORT = 3
"""Combinations that are said in words."""


def _depends(fine: str, coarse: str, map_: Combination | None, domain: Domain) -> Constraint:
    names = _ordered({fine: (), coarse: ()}, domain)
    if map_ is None:
        codes = _declared_map(domain[fine], domain[coarse])
    else:
        with below(coarse):
            codes = _written_map(domain[fine], domain[coarse], map_)
    boxes: list[Box] = []
    for decided in sorted(set(codes.values())):
        from_ = tuple(code for code, to in codes.items() if to == decided)
        boxes.append((from_, decided) if names[0] == fine else (decided, from_))
    return _checked(Constraint(f"{fine} decides {coarse}", names, tuple(boxes), True), domain)


def _written_map(fine: Attribute, coarse: Attribute, map_: Combination) -> dict[int, Codes]:
    """Codes of the finer attribute → those of the coarser one; what the map does not name of
    ``other`` and missing values may be with any.
    """
    found: dict[int, Codes] = {}
    for text, texts in map_.items():
        with below(text):
            for code in _codes(fine, (text,)):
                require(code not in found, "every cell once", "one twice")
                found[code] = _codes(coarse, texts)
    free = _free(fine)
    left = [label for code, label in enumerate(fine.labels()) if code not in {*found, *free}]
    some = ", ".join(left[:3])
    require(not left, f"every level of {fine.name}", f"none of {some} in it")
    return {code: every for code in free for every in [tuple(range(coarse.size))]} | found


def _free(fine: Attribute) -> Codes:
    """The cells of unknown texts and of missing values."""
    labels = fine.labels()
    names = [fine.other, MISSING if fine.nullable else None]
    return tuple(labels.index(name) for name in names if name is not None)


def _declared_map(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    """The map that the declaration says: both are bins of one column, or the coarser one is the
    first letters of the finer one.
    """
    found = _of_one_column(fine, coarse) or _of_first_letters(fine, coarse)
    expected = f"a map, {{{coarse.name}: {{LEVEL: LEVEL, …}}}}, where the columns do not say it"
    require(found, expected, coarse.name)
    every = tuple(range(coarse.size))
    return dict.fromkeys(_free(fine), every) | found


def _of_one_column(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    same = (
        fine.column == coarse.column and fine.signs == coarse.signs and fine.clock == coarse.clock
    )
    if not same or not isinstance(fine.cells, Bins) or not isinstance(coarse.cells, Bins):
        return {}
    edges, cuts = fine.cells.edges, coarse.cells.edges
    # A number outside of the coarser one's bounds is in its first or last bin.
    is_nested = set(cuts[1:-1]) <= set(edges) and edges[0] <= cuts[0] and cuts[-1] <= edges[-1]
    # What the coarser one alone calls missing is in none of its bins.
    if not is_nested or not set(coarse.missing) <= set(fine.missing):
        return {}
    places = np.searchsorted(cuts[1:-1], edges[:-1], side="right")
    return {code: (int(place),) for code, place in enumerate(places)}


def _of_first_letters(fine: Attribute, coarse: Attribute) -> dict[int, Codes]:
    """The cells that the spellings of every level begin with, but for unknown texts; nothing where
    a level begins with none.
    """
    how = coarse.derived
    is_first = how is not None and how.is_text and how.inputs == (fine.column,)
    if how is None or not is_first or fine.derived or not isinstance(fine.cells, Levels):
        return {}
    levels, cells = fine.cells.values, {}
    for code in set(range(len(levels))) - set(_free(fine)):
        spellings = {levels[code], *(text for text, to in fine.aliases if to == levels[code])}
        firsts = {"" if text in how.missing else text[: how.letters] for text in spellings}
        cells[code] = tuple(sorted({cell for text in firsts for cell in _cell_read(coarse, text)}))
    return cells if all(cells.values()) else {}


def _cell_read(attribute: Attribute, text: str) -> Codes:
    """The cell that a text of a row is read into; none where its row is left out."""
    if not isinstance(attribute.cells, Levels):
        return ()
    levels, text = attribute.cells.values, text.strip()
    level = dict(attribute.aliases).get(text, text)
    if level in levels:
        return (levels.index(level),)
    if attribute.nullable and level in {"", *attribute.missing}:
        return (attribute.missing_code,)
    is_other = attribute.on_invalid == "other" and attribute.other is not None
    return (levels.index(str(attribute.other)),) if is_other else ()


def _ordered(one: Mapping[str, object], domain: Domain) -> Names:
    """The attributes in declared order; Refused for fewer than two, and for one without cells that
    are declared.
    """
    cells = [a.name for a in domain if a.cells is not None]
    for name in one:
        if name not in cells:
            raise not_among(name, cells, expected="attributes with declared levels or bins")
    require(len(one) > 1, "two attributes or more", ", ".join(one) or "none")
    return tuple(name for name in cells if name in one)


def _words(name: str, texts: Iterable[str]) -> str:
    return f"{name} {' or '.join(texts)}"


def _checked(one: Constraint, domain: Domain) -> Constraint:
    cells, most = domain.cell_count(one.attributes), MOST_CONSTRAINED_CELLS
    require(cells <= most, f"at most {most} cells over its attributes", str(cells))
    mask = one.mask(domain.shape(one.attributes))
    require(not mask.all(), "a combination that it forbids", "none")
    require(mask.any(), "a combination that is left", "none")
    return one


def _codes(attribute: Attribute, texts: Sequence[str]) -> Codes:
    """Cells that texts say."""
    return tuple(sorted({code for text in texts for code in _cells_of(attribute, text)}))


def _cells_of(attribute: Attribute, text: str) -> Codes:
    labels = attribute.labels()
    if attribute.nullable and text == MISSING:
        return (attribute.missing_code,)
    if isinstance(attribute.cells, Bins):
        return _bins_of(attribute, attribute.cells, text.strip())
    level = dict(attribute.aliases).get(text, text)
    if level not in labels:
        raise not_among(text, labels, expected=f"a level of {attribute.name}")
    return (labels.index(level),)


def _bins_of(attribute: Attribute, bins: Bins, text: str) -> Codes:
    """The bins of an interval, or of a whole number that is alone in its bin."""
    expected = f'an interval of {attribute.name}, such as "{attribute.labels()[0]}"'
    ends = re.fullmatch(r"\[([^,]*),([^,]*)([)\]])", text)
    if ends is None:
        number = _number(attribute, text)
        fits = [code for code in range(bins.size) if _whole_ends(bins, code) == (number, number)]
        require(_is_whole(attribute) and fits, expected, repr(text[:60]))
        return tuple(fits)
    is_closed = ends[3] == "]"
    low, high = _end(attribute, ends[1]), _end(attribute, ends[2], is_last=is_closed)
    return _inside(attribute, bins, low, high, is_closed=is_closed or high is None)


def _end(attribute: Attribute, text: str, *, is_last: bool = False) -> float | None:
    """An end of an interval, None where it is left open; a day that is its last is all of it."""
    number = _number(attribute, text.strip(), is_last=is_last) if text.strip() else None
    what = "a number" if attribute.clock is None else "a date"
    is_end = number is not None or not text.strip()
    require(is_end, f"{what} or nothing as an end", repr(text[:60]))
    return number


def _number(attribute: Attribute, text: str, *, is_last: bool = False) -> float | None:
    clock = attribute.clock
    if clock is None:
        return fields.finite(text)
    return clock.last(text) if is_last else clock.first(text)


def _inside(
    attribute: Attribute, bins: Bins, low: float | None, high: float | None, *, is_closed: bool
) -> Codes:
    """The bins inside of an interval; Refused where one is inside and outside of it."""
    low = bins.edges[0] if low is None else low
    high = bins.edges[-1] if high is None else high
    found = []
    for code in range(bins.size):
        if _is_whole(attribute) and _has_whole(bins, code):
            ends = _whole_ends(bins, code)
            inside = [low <= end and (end < high or (is_closed and end == high)) for end in ends]
        else:
            first, last = bins.edges[code : code + 2]
            is_upper = code == bins.size - 1
            # Only the last bin has its upper edge: a closed end is a number of the next one.
            over = last <= high if is_upper or not is_closed else last < high
            inside = [low <= first and over, low < last and first < high]
        label = attribute.labels()[code]
        is_one = inside[0] == inside[1]
        require(is_one, f"ends where bins of {attribute.name} end", f"one inside of {label}")
        found += [code] * inside[0]
    require(found, f"an interval of {attribute.name} with a bin in it", "one with none")
    return tuple(found)


def _is_whole(attribute: Attribute) -> bool:
    return attribute.whole or attribute.clock is not None


def _has_whole(bins: Bins, code: int) -> bool:
    first, last = _whole_ends(bins, code)
    return first <= last


def _whole_ends(bins: Bins, code: int) -> tuple[int, int]:
    """The first and the last whole number of a bin; the last below the first where it has none."""
    low, high = bins.edges[code : code + 2]
    return math.ceil(low), math.floor(high) if code == bins.size - 1 else math.ceil(high) - 1


def constraints_of(declared: object, domain: Domain) -> tuple[Constraint, ...]:
    """The constraints of an estimator's mapping, in the words of a data set file.

    DeclarationError in one line for what the file's section would refuse.
    """
    try:
        return ConstraintsSection.model_validate(_as_texts(declared)).declared(domain)
    except ValidationError as error:
        refused = fields.refusals_of(error)[0]
    except Refused as one:
        refused = one
    place = ".".join(("constraints", *map(str, refused.field)))
    raise DeclarationError(
        f"{place}: expected {refused.expected}, got {refused.got}{refused.hint}"
    ) from None


def _as_texts(value: object) -> object:
    """As YAML would give it: every value a text."""
    if isinstance(value, Mapping):
        return {str(key): _as_texts(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_texts(one) for one in value]
    return str(value)
