"""Section ``constraints`` of a data set file: combinations of cells that rows may or may not have.

A constraint names cells: levels, or intervals that begin and end where bins do.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.constraints import MAX_CONSTRAINT_CELLS, Box, Constraint
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.encoding import Bins, Names
from dp_pipeline.config.errors import FieldError
from dp_pipeline.config.fields import below, not_among, require
from dp_pipeline.config.implied_map import Codes, all_codes, free_codes, implied_map

Combination = dict[str, tuple[str, ...]]
"""Attribute → texts, each of which names some of its cells."""

Given = TypeVar("Given")
Parsed = TypeVar("Parsed")

MAX_COMBINATIONS_IN_WORDS = 3
_CELLS = {"anyOf": [fields.TEXT, {"type": "array", "items": fields.TEXT, "minItems": 1}]}
_COMBINATION = {"type": "object", "additionalProperties": _CELLS, "minProperties": 1}
_COMBINATIONS = {"type": "array", "items": _COMBINATION, "minItems": 1}
_MAP = {"type": "object", "additionalProperties": _CELLS}
_DECIDED = {"anyOf": [fields.TEXT, {"type": "object", "additionalProperties": _MAP}]}


def _parse_items(items: Sequence[Given], parse: Callable[[Given], Parsed]) -> tuple[Parsed, ...]:
    parsed = []
    for index, item in enumerate(items):
        with below(index):
            parsed.append(parse(item))
    return tuple(parsed)


def _put_in_list(kind: type) -> BeforeValidator:
    """Return the validator that puts a single ``kind`` into a list."""
    return BeforeValidator(lambda value: [value] if isinstance(value, kind) else value)


def _nest_only_list(value: object) -> list[object]:
    items = fields.require_list(value)
    return [items] if all(isinstance(item, dict) for item in items) else [*items]


def _coarser(value: object) -> object:
    # None stands for the map that the declarations of both columns imply.
    return {value: None} if isinstance(value, str) else value


_Combination = fields.MappingOf[Annotated[fields.NonEmpty[fields.Item], _put_in_list(str)]]
_Combinations = Annotated[tuple[_Combination, ...], BeforeValidator(fields.require_list)]
_ONE_OR_SEVERAL = {"anyOf": [_COMBINATION, _COMBINATIONS]}
_OneOrSeveral = Annotated[_Combinations, _put_in_list(dict), WithJsonSchema(_ONE_OR_SEVERAL)]
_CoarserColumns = Annotated[fields.MappingOf[_Combination | None], BeforeValidator(_coarser)]


class ConstraintsSection(fields.Section):
    """The declared combinations of levels or bins that rows may or may not have.

    never    Combinations that no row has: [{age: "[0, 16)", marital: [Married, Widowed]}].
    only     Lists of combinations: every row has one combination of each list.
    depends  Columns that decide coarser ones: {city: {county: {Graz: Styria, Linz: Upper}}}.
    at_most_one  Levels that at most one part of a unit has, where units have parts: {status: head}.
    """

    never: _OneOrSeveral = ()
    only: Annotated[
        tuple[_Combinations, ...],
        BeforeValidator(_nest_only_list),
        WithJsonSchema({"type": "array", "items": _ONE_OR_SEVERAL}),
    ] = ()
    depends: Annotated[
        fields.MappingOf[_CoarserColumns],
        WithJsonSchema({"type": "object", "additionalProperties": _DECIDED}),
        Field(default_factory=dict),
    ]
    at_most_one: _OneOrSeveral = ()

    @model_validator(mode="after")
    def _require_some(self) -> Self:
        some = self.never or self.only or self.depends or self.at_most_one
        require(some, "never, only, depends or at_most_one", "none of them")
        return self

    def constrain(self, domain: Domain) -> Domain:
        """Return ``domain`` with the declared constraints after its own, and those of its parts.

        FieldError for an unknown attribute or cell, a constraint without cells, one that forbids
        nothing or everything, and one over too many cells.
        """
        with below("never"):
            never = _parse_items(self.never, lambda combination: _never(combination, domain))
        with below("only"):
            only = _parse_items(self.only, lambda combinations: _only(combinations, domain))
        depends = []
        for fine, maps in self.depends.items():
            with below("depends", fine):
                depends += [_depends(fine, coarse, map_, domain) for coarse, map_ in maps.items()]
        with below("at_most_one"):
            single = _parse_items(self.at_most_one, lambda each: _single(each, domain))
        parts = domain.parts and replace(domain.parts, single=single)
        constraints = (*domain.constraints, *never, *only, *depends)
        return replace(domain, constraints=constraints, parts=parts)


def _single(combination: Combination, domain: Domain) -> tuple[str, Codes]:
    own = domain.parts.attributes if domain.parts else ()
    ((name, texts), *others) = combination.items()
    require(not others, "levels of one attribute of a part", "several attributes")
    if name not in own:
        raise not_among(name, own, expected="an attribute of the parts of units")
    with below(name):
        codes = _codes(domain[name], texts)
        require(len(codes) < domain[name].size, "some levels", "all of them")
        return name, codes


def _never(combination: Combination, domain: Domain) -> Constraint:
    names = _require_attributes(combination, domain)
    box = _box(combination, names, domain)
    words = f"never {_words(combination)}"
    return _require_effect(Constraint(words, names, (box,), is_only=False), domain)


def _words(combination: Combination) -> str:
    return " with ".join(f"{name} {' or '.join(texts)}" for name, texts in combination.items())


def _box(combination: Combination, names: Names, domain: Domain) -> Box:
    """Return, for each of ``names``, the codes that a combination lists; all if it lists none."""
    codes = []
    for name in names:
        with below(name):
            attribute = domain[name]
            texts = combination.get(name)
            codes.append(all_codes(attribute) if texts is None else _codes(attribute, texts))
    return tuple(codes)


def _only(combinations: Sequence[Combination], domain: Domain) -> Constraint:
    names = _require_attributes([name for each in combinations for name in each], domain)
    boxes = _parse_items(combinations, lambda combination: _box(combination, names, domain))
    # Missing values may be with any, unless a combination names them.
    stated = {name for each in combinations for name, texts in each.items() if MISSING in texts}
    free = [name for name in names if domain[name].nullable and name not in stated]
    boxes += tuple(_box({name: (MISSING,)}, names, domain) for name in free)
    words = f"only {len(combinations)} combinations of {' and '.join(names)}"
    if len(combinations) <= MAX_COMBINATIONS_IN_WORDS:
        words = f"only {' or '.join(map(_words, combinations))}"
    return _require_effect(Constraint(words, names, boxes, is_only=True), domain)


def _depends(fine: str, coarse: str, map_: Combination | None, domain: Domain) -> Constraint:
    names = _require_attributes([fine, coarse], domain)
    if map_ is None:
        coarse_codes = implied_map(domain[fine], domain[coarse])
        expected = f"a map, {{{coarse}: {{LEVEL: LEVEL, …}}}}, where the columns do not imply it"
        require(coarse_codes, expected, coarse)
        free = dict.fromkeys(free_codes(domain[fine]), all_codes(domain[coarse]))
        coarse_codes = free | coarse_codes
    else:
        with below(coarse):
            coarse_codes = _written_map(domain[fine], domain[coarse], map_)
    boxes: list[Box] = []
    for decided in sorted(set(coarse_codes.values())):
        deciding = tuple(code for code, codes in coarse_codes.items() if codes == decided)
        boxes.append((deciding, decided) if names[0] == fine else (decided, deciding))
    words = f"{fine} decides {coarse}"
    return _require_effect(Constraint(words, names, tuple(boxes), is_only=True), domain)


def _written_map(fine: Attribute, coarse: Attribute, map_: Combination) -> dict[int, Codes]:
    """Return code of ``fine`` → allowed codes of ``coarse``, from a declared map of texts.

    ``other`` and missing values that the map does not name may be with any: a cell that is missing
    costs no row. FieldError for a level of ``fine`` that the map has twice or lacks.
    """
    missing: Codes = ()
    if coarse.nullable and not any(MISSING in texts for texts in map_.values()):
        missing = (coarse.missing_code,)
    coarse_codes: dict[int, Codes] = {}
    for text, texts in map_.items():
        with below(text):
            for code in _codes(fine, (text,)):
                got = f"{fine.labels()[code]} twice"
                require(code not in coarse_codes, "every cell once", got)
                coarse_codes[code] = _codes(coarse, texts) + missing
    coarse_codes = dict.fromkeys(free_codes(fine), all_codes(coarse)) | coarse_codes
    unmapped = [label for code, label in enumerate(fine.labels()) if code not in coarse_codes]
    got = f"one without {', '.join(unmapped[:3])}"
    require(not unmapped, f"a map with every level of {fine.name}", got)
    return coarse_codes


def proposed_dependences(domain: Domain) -> list[tuple[str, str]]:
    """Return pairs (attribute, one derived from it) that ``depends`` could still declare."""
    related_sets = [constraint.attributes for constraint in domain.constraints]
    pairs = []
    for coarse in domain:
        for fine in domain if coarse.derived is not None else ():
            if any({fine.name, coarse.name} <= set(names) for names in related_sets):
                continue
            try:
                _depends(fine.name, coarse.name, None, domain)
            except FieldError:
                continue
            pairs.append((fine.name, coarse.name))
    return pairs


def _require_attributes(chosen: Iterable[str], domain: Domain) -> Names:
    """Return the different names in declared order.

    FieldError for fewer than two, for an unknown one, and for one without declared cells.
    """
    names = [attribute.name for attribute in domain if attribute.cells is not None]
    chosen = tuple(dict.fromkeys(chosen))
    for name in chosen:
        if name not in names:
            raise not_among(name, names, expected="attributes with declared levels or bins")
    require(len(chosen) > 1, "two attributes or more", ", ".join(chosen) or "none")
    return tuple(name for name in names if name in chosen)


def _require_effect(constraint: Constraint, domain: Domain) -> Constraint:
    count, limit = domain.cell_count(constraint.attributes), MAX_CONSTRAINT_CELLS
    require(count <= limit, f"at most {limit} cells over its attributes", str(count))
    mask = constraint.mask(domain.shape(constraint.attributes))
    require(not mask.all(), "a constraint that forbids a combination", "one that forbids none")
    require(mask.any(), "a constraint that allows a combination", "one that forbids all")
    return constraint


def _codes(attribute: Attribute, texts: Sequence[str]) -> Codes:
    return tuple(sorted({code for text in texts for code in _codes_of_text(attribute, text)}))


def _codes_of_text(attribute: Attribute, text: str) -> Codes:
    labels = attribute.labels()
    if attribute.nullable and text == MISSING:
        return (attribute.missing_code,)
    if isinstance(attribute.cells, Bins):
        if text in dict(attribute.names).values():
            return (labels.index(text),)
        return _codes_of_interval(attribute, attribute.cells, text.strip())
    level = dict(attribute.aliases).get(text, text)
    if level not in labels:
        raise not_among(text, labels, expected=f"a level of {attribute.name}")
    return (labels.index(level),)


def _codes_of_interval(attribute: Attribute, bins: Bins, text: str) -> Codes:
    """Return the codes of the bins in an interval, or of the bin that is a single integer.

    FieldError for other texts, for an interval that cuts a bin, and for one without a bin.
    """
    interval = re.fullmatch(r"\[([^,]*),([^,]*)([)\]])", text)
    if interval is None:
        number = _number(attribute, text)
        codes = [code for code in range(bins.size) if _integers(bins, code) == (number, number)]
        expected = f'an interval of {attribute.name}, such as "{attribute.labels()[0]}"'
        require(_has_integers(attribute) and codes, expected, repr(text[:60]))
        return tuple(codes)
    is_closed = interval[3] == "]"
    low, high = _end(attribute, interval[1]), _end(attribute, interval[2], is_last=is_closed)
    # An interval without a high end contains the last edge of the bins.
    is_closed = is_closed or high is None
    low = bins.edges[0] if low is None else low
    high = bins.edges[-1] if high is None else high
    codes = []
    for code in range(bins.size):
        ends = _integers(bins, code)
        if _has_integers(attribute) and ends[0] <= ends[1]:
            inside = [low <= end and (end < high or (is_closed and end == high)) for end in ends]
        else:
            lower, upper = bins.edges[code : code + 2]
            # Only the last bin has its upper edge; elsewhere a closed end is in the next bin.
            has_upper_edge = code == bins.size - 1
            is_below = upper <= high if has_upper_edge or not is_closed else upper < high
            inside = [low <= lower and is_below, low < upper and lower < high]
        expected = f"ends where bins of {attribute.name} end"
        got = f"an end inside {attribute.labels()[code]}"
        require(inside[0] == inside[1], expected, got)
        codes += [code] * inside[0]
    require(codes, f"an interval of {attribute.name} with a bin in it", "an interval with none")
    return tuple(codes)


def _end(attribute: Attribute, text: str, *, is_last: bool = False) -> float | None:
    """Return an end of an interval as a number; None for an empty text, which means no end.

    FieldError for any other text that is no number, or no date where the attribute has dates.
    """
    number = _number(attribute, text.strip(), is_last=is_last) if text.strip() else None
    kind = "a number" if attribute.clock is None else "a date"
    is_end = number is not None or not text.strip()
    require(is_end, f"{kind} or nothing as an end", repr(text[:60]))
    return number


def _number(attribute: Attribute, text: str, *, is_last: bool = False) -> float | None:
    clock = attribute.clock
    if clock is None:
        return fields.finite(text)
    return clock.upper_bound(text) if is_last else clock.lower_bound(text)


def _has_integers(attribute: Attribute) -> bool:
    return attribute.is_integer or attribute.clock is not None


def _integers(bins: Bins, code: int) -> tuple[int, int]:
    low, high = bins.edges[code : code + 2]
    return math.ceil(low), math.floor(high) if code == bins.size - 1 else math.ceil(high) - 1


def constrained_domain(declared: object, domain: Domain) -> Domain:
    """Return ``domain`` with further constraints, declared as in a data set file.

    declared   the section ``constraints``, of mappings, lists and single values

    DeclarationError for the first mistake.
    """
    try:
        return ConstraintsSection.model_validate(_as_texts(declared)).constrain(domain)
    except ValidationError as errors:
        error = fields.field_errors(errors)[0]
    except FieldError as field_error:
        error = field_error
    place = ".".join(("constraints", *map(str, error.field)))
    raise FieldError(error.expected, error.got, of=place, hint=error.hint) from None


def _as_texts(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _as_texts(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_as_texts(member) for member in value]
    return str(value)
