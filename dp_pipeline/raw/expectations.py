"""Expectations of a snapshot, derived from its declaration without reading a row.

*Structural* expectations depend on the stored file's schema alone, and their failure stops a
snapshot. *Row-dependent* ones depend on rows, and never stop release data: one row could switch a
release on or off, which everyone would see.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.sections import DeclaredExpectation

PERSON = "person id"  # Name of the person's column in frames; no attribute has a space in its name
TIME = "time of a row"  # Name of the column of windows' times in frames
_SECOND = " 2"
HAS_ROWS = "expect_table_row_count_to_be_between"
_PRESENT = "expect_column_values_to_not_be_null"
_IN_SET = "expect_column_values_to_be_in_set"


@dataclass(frozen=True)
class Expectation:
    """An expectation that a snapshot should fulfil.

    name         also the name of its asset check, of letters, digits and _
    description  a sentence for people, about the declaration and not the rows
    structural   whether it depends on the stored schema alone
    blocking     whether its failure stops the snapshot from being prepared
    type         its type in Great Expectations
    arguments    its other arguments there; columns are those of a frame
    share        share of the rows, or of the present values, that have to be as expected
    """

    name: str
    description: str
    structural: bool
    blocking: bool
    type: str
    arguments: Mapping[str, Any]
    share: Fraction = Fraction(1)


def expectations_of(spec: DatasetSpec) -> tuple[Expectation, ...]:
    """Return all expectations that follow from the declaration, without reading any row.

    Row-dependent ones block benchmark data only, and require the declared share ``usable`` of the
    rows. Cells of an attribute that has a level for what is not as declared never block.
    """
    return tuple(_expectations(spec))


def _expectations(spec: DatasetSpec) -> Iterator[Expectation]:
    for name, column in source_columns(spec).items():
        # Two underscores before an attribute, so that none is taken for the person's column.
        ending = {PERSON: "_person_id", TIME: "_window_time"}.get(name, f"__{name}")
        if name.endswith(_SECOND):
            ending = f"_2__{name.removesuffix(_SECOND)}"
        sentence, type_ = f"The source has exactly one column {column!r}.", "expect_column_to_exist"
        yield Expectation(f"column{ending}", sentence, True, True, type_, {"column": name})
        numbers = "dates or times" if column in spec.time_columns else "numbers"
        numbers = "whole numbers" if name == PERSON else numbers
        sentence = f"Column {column!r} is stored as text or as {numbers}."
        arguments = {"column": name, "type_list": ["str", "float64"]}
        type_ = "expect_column_values_to_be_in_type_list"
        yield Expectation(f"type{ending}", sentence, True, True, type_, arguments)
    may_block = not spec.is_release
    sentence = "The table has at least one row."
    yield Expectation("has_rows", sentence, False, may_block, HAS_ROWS, {"min_value": 1})
    for attribute in spec.domain:
        yield from _value_expectations(attribute, may_block=may_block)
    for number, constraint in enumerate(spec.domain.row_constraints, start=1):
        words, column = f"the constraint: {constraint.words}", constraint_column(number)
        name = f"keeps_constraint_{number}"
        yield _row_expectation(spec, name, "keep", words, _IN_SET, column=column, value_set=[True])
    if spec.protection.column is not None:
        words = f"a person id in {spec.protection.column!r}"
        yield _row_expectation(spec, "present_person_id", "have", words, _PRESENT, column=PERSON)
    if spec.windows is not None:
        words, name = f"in {spec.windows.column!r} when it is from", "present_window_time"
        yield _row_expectation(spec, name, "say", words, _IN_SET, column=TIME, value_set=[True])
    for declared in spec.expectations:
        yield _declared_expectation(spec, declared)


def source_columns(spec: DatasetSpec) -> dict[str, str]:
    """Return column of a validation frame → column of the source from which it is read.

    An attribute that is derived from two columns has its name plus " 2" for the second. TIME and
    PERSON are those of windows and persons, where these are declared.
    """
    columns = {
        attribute.name + _SECOND * position: column
        for attribute in spec.domain
        for position, column in enumerate(attribute.inputs)
    }
    if spec.windows is not None:
        columns[TIME] = spec.windows.column
    person = spec.protection.column
    return columns if person is None else {**columns, PERSON: person}


def frame_column(spec: DatasetSpec, column: str) -> str:
    """Return the frame's name of a column in a declared expectation: itself, or PERSON."""
    return column if column in spec.domain.names else PERSON


def constraint_column(number: int) -> str:
    """Return the name of the frame column that says which rows meet a constraint."""
    return f"constraint {number}"


def _value_expectations(attribute: Attribute, *, may_block: bool) -> Iterator[Expectation]:
    is_blocking = may_block and not attribute.keeps_rows

    def expect(prefix: str, sentence: str, type_: str, **arguments: Any) -> Expectation:
        name, arguments = f"{prefix}__{attribute.name}", {"column": attribute.name, **arguments}
        return Expectation(name, sentence, False, is_blocking, type_, arguments, attribute.usable)

    if not attribute.nullable:
        noun = _noun(attribute)
        sentence = f"No value of {attribute.name} is missing."
        if attribute.usable != 1:
            share = _at_least(attribute.usable)
            sentence = f"{share} of the rows have a {noun} in {attribute.name}."
        elif attribute.is_numeric:
            sentence = f"Every value of {attribute.name} is a {noun}; none is missing."
        yield expect("present", sentence, _PRESENT)
    # Rows have nothing to break in parts that are still to be discovered.
    if attribute.coordinate is not None:
        ends = {"min_value": attribute.coordinate.lower, "max_value": attribute.coordinate.upper}
        type_ = "expect_column_values_to_be_between"
        yield expect("bounds", _value_sentence(attribute), type_, **ends)
    elif isinstance(attribute.cells, Levels):
        levels = list(attribute.cells.values)
        yield expect("levels", _value_sentence(attribute), _IN_SET, value_set=levels)


def _row_expectation(
    spec: DatasetSpec, name: str, verb: str, words: str, type_: str, **arguments: Any
) -> Expectation:
    """Return an expectation that every row, or the declared share of the rows, has to meet.

    verb    plural verb of the sentence "Every row VERB WORDS."
    """
    subject = f"Every row {'has' if verb == 'have' else verb + 's'}"
    if spec.usable != 1:
        subject = f"{_at_least(spec.usable)} of the rows {verb}"
    sentence = f"{subject} {words}."
    return Expectation(name, sentence, False, not spec.is_release, type_, arguments, spec.usable)


def _noun(attribute: Attribute) -> str:
    if attribute.clock is not None:
        return "date" if attribute.clock.kind == "date" else "time"
    return "number" if attribute.is_numeric else "value"


def _value_sentence(attribute: Attribute) -> str:
    name, share = attribute.name, _at_least(attribute.usable)
    values = "one of the declared levels"
    if attribute.coordinate is not None:
        values = "between {} and {}".format(*attribute.range)
        values = f"a {_noun(attribute)} {values}" if attribute.nullable else values
    if attribute.usable != 1:
        return f"Of the values of {name} that are not missing, {share.lower()} are {values}."
    if attribute.nullable:
        return f"Every value of {name} is missing or {values}."
    if attribute.is_numeric:
        return f"Every {_noun(attribute)} of {name} lies {values}."
    return f"Every value of {name} is {values}."


def _at_least(share: Fraction) -> str:
    return f"At least {float(share * 100):g} %"


def _declared_expectation(spec: DatasetSpec, declared: DeclaredExpectation) -> Expectation:
    columns = tuple(declared.columns.values())
    # Two underscores before an attribute, so that none is taken for the person's column.
    endings = [f"__{name}" if name in spec.domain.names else "_person_id" for name in columns]
    frame_columns = {key: frame_column(spec, c) for key, c in declared.columns.items()}
    suffix = f"__{declared.name}" if declared.name else ""
    arguments = ", ".join(f"{key} {value}" for key, value in declared.arguments.items())
    sentence = f"{declared.type} of {' and '.join(columns)}{arguments and ': ' + arguments}."
    if declared.mostly != 1:
        sentence += f" {_at_least(declared.mostly)} of the values that are not missing."
    return Expectation(
        f"{declared.type}{''.join(endings)}{suffix}",
        sentence,
        False,
        declared.is_critical and not spec.is_release,
        declared.type,
        {**frame_columns, **declared.arguments},
        declared.mostly,
    )
