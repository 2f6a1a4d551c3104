"""What is expected of a snapshot, derived from its declaration: no row is read for it.

*Structural* expectations are functions of the stored file's schema alone: they
may stop anything. *Row-dependent* ones look at rows, so on data to be released
they never stop anything: one row would switch a release on or off, and that
switch would be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_pipeline.config.dataset import DatasetSpec, DeclaredExpectation
from dp_pipeline.config.domain import Attribute

PERSON = "person id"
"""How the column that names the person is called beside attributes; no attribute has a space."""

TIME = "time of a row"
"""How the column is called whose time says to which window a row belongs."""

_SECOND = " 2"

Rule = Literal["exists", "type", "rows", "present", "levels", "bounds", "kept", "declared"]


@dataclass(frozen=True)
class Expectation:
    """One sentence that a snapshot should fulfil.

    name         of letters, digits and _: also the name of its asset check
    description  the sentence, for people; it says what is declared and nothing of the rows
    structural   whether it is a function of the stored schema alone
    blocking     whether its failure stops the snapshot from being prepared
    rule         what is tested
    attribute    of which attribute, PERSON for the person's column, ``kept_column`` of a
                 constraint, None for the table
    share        of the rows, or of the values that are not missing, that have to be as expected
    declared     what the data set file declares in Great Expectations' words, or None
    """

    name: str
    description: str
    structural: bool
    blocking: bool
    rule: Rule
    attribute: str | None = None
    share: Fraction = Fraction(1)
    declared: DeclaredExpectation | None = None


def expectations_of(spec: DatasetSpec) -> tuple[Expectation, ...]:
    """Every expectation that follows from the declaration; reads nothing, loads nothing.

    Row-dependent ones block on benchmark data only, and want the declared share ``usable`` of
    the rows to be as declared. Unknown texts of an attribute that declares a level for them
    never block: the declaration itself says where they go.
    """
    has_rows = "The table has at least one row."
    declared = [
        *_structural_of_columns(spec),
        Expectation("has_rows", has_rows, False, not spec.is_release, "rows"),
    ]
    for attribute in spec.domain:
        declared += _rows_of(attribute, may_block=not spec.is_release)
    declared += [
        _of_every_row(
            spec,
            f"keeps_constraint_{place}",
            ("keeps", "keep"),
            f"the constraint: {constraint.words}",
            "kept",
            kept_column(place),
        )
        for place, constraint in enumerate(spec.domain.constraints, start=1)
    ]
    if spec.protection.column is not None:
        person = f"a person id in {spec.protection.column!r}"
        declared.append(
            _of_every_row(spec, "present_person_id", ("has", "have"), person, "present", PERSON)
        )
    if spec.windows is not None:
        when = f"in {spec.windows.column!r} when it is from"
        declared.append(
            _of_every_row(spec, "present_window_time", ("says", "say"), when, "kept", TIME)
        )
    declared += [_of_user(spec, one) for one in spec.expectations]
    return tuple(declared)


def source_columns(spec: DatasetSpec) -> dict[str, str]:
    """Attribute, or PERSON, → its source column. An attribute that is derived from two has a
    second name, with a space and a 2 behind it, for the other one.
    """
    columns = {
        attribute.name + _SECOND * place: column
        for attribute in spec.domain
        for place, column in enumerate(attribute.inputs)
    }
    if spec.windows is not None:
        columns[TIME] = spec.windows.column
    person = spec.protection.column
    return columns if person is None else {**columns, PERSON: person}


def frame_column(spec: DatasetSpec, column: str) -> str:
    """How a column that a declared expectation names is called in the frame of rows."""
    return column if column in spec.domain.names else PERSON


def _structural_of_columns(spec: DatasetSpec) -> list[Expectation]:
    declared = []
    for attribute, column in source_columns(spec).items():
        # Two underscores before an attribute: no attribute's name can be taken for the person's.
        end = {PERSON: "_person_id", TIME: "_window_time"}.get(attribute, f"__{attribute}")
        if attribute.endswith(_SECOND):
            end = f"_2__{attribute.removesuffix(_SECOND)}"
        there = f"The source has exactly one column {column!r}."
        numbers = "whole numbers" if attribute == PERSON else "numbers"
        numbers = "dates or times" if attribute != PERSON and column in spec.times else numbers
        stored = f"Column {column!r} is stored as text or as {numbers}."
        declared.append(Expectation(f"column{end}", there, True, True, "exists", attribute))
        declared.append(Expectation(f"type{end}", stored, True, True, "type", attribute))
    return declared


def _rows_of(attribute: Attribute, *, may_block: bool) -> list[Expectation]:
    rule: Rule = "bounds" if attribute.is_numeric else "levels"
    # What is to be discovered, no row can break.
    is_declared = attribute.coordinate is not None or attribute.cells is not None
    sentences = {rule: _known(attribute)} if is_declared else {}
    if not attribute.nullable:
        sentences = {"present": _present(attribute), **sentences}
    blocking = may_block and attribute.on_invalid != "other"
    return [
        Expectation(
            f"{one}__{attribute.name}",
            sentence,
            False,
            blocking,
            one,
            attribute.name,
            share=attribute.usable,
        )
        for one, sentence in sentences.items()
    ]


def kept_column(place: int) -> str:
    """How the frame of rows calls what says whether a row keeps a constraint: no attribute has a
    space in its name.
    """
    return f"constraint {place}"


def _of_every_row(
    spec: DatasetSpec, name: str, verbs: tuple[str, str], rest: str, rule: Rule, column: str
) -> Expectation:
    """What every row should fulfil, or the declared share of the rows.

    verbs   of one row and of several: the sentence is "Every row VERB REST."
    column  of the frame of rows
    """
    rows = f"Every row {verbs[0]}"
    if spec.usable != 1:
        rows = f"{_at_least(spec.usable)} of the rows {verbs[1]}"
    blocks = not spec.is_release
    return Expectation(name, f"{rows} {rest}.", False, blocks, rule, column, share=spec.usable)


def _present(attribute: Attribute) -> str:
    name, some = attribute.name, _at_least(attribute.usable)
    if attribute.usable != 1:
        return f"{some} of the rows have a {_noun(attribute)} in {name}."
    if attribute.is_numeric:
        return f"Every value of {name} is a {_noun(attribute)}; none is missing."
    return f"No value of {name} is missing."


def _noun(attribute: Attribute) -> str:
    if attribute.clock is not None:
        return "date" if attribute.clock.kind == "date" else "time"
    return "number" if attribute.is_numeric else "value"


def _known(attribute: Attribute) -> str:
    """What is said of the values that are not missing."""
    name, some = attribute.name, _at_least(attribute.usable)
    what = "one of the declared levels"
    if attribute.coordinate is not None:
        what = "between {} and {}".format(*attribute.range)
        what = f"a {_noun(attribute)} {what}" if attribute.nullable else what
    if attribute.usable != 1:
        return f"Of the values of {name} that are not missing, {some.lower()} are {what}."
    if attribute.nullable:
        return f"Every value of {name} is missing or {what}."
    if attribute.is_numeric:
        return f"Every {_noun(attribute)} of {name} lies {what}."
    return f"Every value of {name} is {what}."


def _at_least(share: Fraction) -> str:
    return f"At least {float(share * 100):g} %"


def _of_user(spec: DatasetSpec, declared: DeclaredExpectation) -> Expectation:
    """What the data set file declares in Great Expectations' words."""
    columns = tuple(declared.columns.values())
    # As of other checks on rows: no attribute's name can be taken for the person's column.
    ends = [f"__{one}" if one in spec.domain.names else "_person_id" for one in columns]
    name = f"__{declared.name}" if declared.name else ""
    said = ", ".join(f"{key} {value}" for key, value in declared.arguments.items())
    sentence = f"{declared.type} of {' and '.join(columns)}{said and ': ' + said}."
    if declared.mostly != 1:
        sentence += f" {_at_least(declared.mostly)} of the values that are not missing."
    return Expectation(
        f"{declared.type}{''.join(ends)}{name}",
        sentence,
        False,
        declared.is_critical and not spec.is_release,
        "declared",
        share=declared.mostly,
        declared=declared,
    )
