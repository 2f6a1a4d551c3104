"""Sections of a data set file about releases: protection and ceiling, publications, evaluation with
its targets, k-anonymity and expectations.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.config.fields import FormChoice, below, not_among, require, require_mapping
from dp_pipeline.config.windows import MAX_SPAN, Within


class OneRowSection(fields.Section):
    """Each person has at most one row."""

    unit: Literal["one_row"]


class PersonSection(fields.Section):
    """All rows with one value of a column are one person.

    column   The column whose value names the person.
    at_most  The most rows of one person that are used; of each window, where there are windows.
    within   Whether a person's rows of one `window` are protected, or of all, for `ever`.
    """

    unit: Literal["rows_of_person"]
    column: fields.Text
    at_most: fields.Count
    within: Within | None = None


class GroupSection(fields.Section):
    """All rows with one value of a column are the parts of one unit, such as a household.

    key  The column whose value names the unit.
    """

    unit: Literal["group"]
    key: fields.Text


AnyProtection = OneRowSection | PersonSection | GroupSection
_FORMS: Mapping[str, type[AnyProtection]]
_FORMS = {"one_row": OneRowSection, "rows_of_person": PersonSection, "group": GroupSection}


def protection_section(value: object) -> AnyProtection:
    section, units = require_mapping(value), tuple(_FORMS)
    if section.get("unit") not in units:
        raise not_among(section.get("unit"), units, field=("unit",))
    return _FORMS[section["unit"]].model_validate(section)


ProtectionForm = Annotated[AnyProtection, FormChoice(AnyProtection, protection_section)]


class Ceiling(fields.Section):
    """The most ε that these persons may ever cost.

    total        The most for ever, over all models, partitions and snapshots.
    each_window  The most of one window, where there are windows.
    per_month    The most in one calendar month.
    delta        The most δ of discoveries for ever; by default that of ten, up to 1e-6.
    """

    total: fields.Epsilon | None = None
    each_window: fields.Epsilon | None = None
    per_month: fields.Epsilon | None = None
    delta: fields.Delta | None = None

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        require(self.total or self.each_window, "total or each_window", "neither", "total")
        for name in ("per_month", "each_window"):
            part = getattr(self, name)
            if self.total is not None and part is not None:
                expected = f"at most the total, {epsilon_text(self.total)}"
                require(part <= self.total, expected, epsilon_text(part), name)
        return self


class Publication(fields.Section):
    """A model and an ε that the schedule releases regularly.

    model    One of `models`.
    epsilon  One of `partitions`.
    span     The number of windows of one release, where there are windows.
    """

    model: fields.Text
    epsilon: fields.Epsilon
    span: Annotated[int, fields.integer(1, MAX_SPAN)] = 1


def publication_sections(value: object) -> tuple[Publication, ...]:
    """Return the parsed sections of ``publish``, which is one mapping or a list of them."""
    items = value if isinstance(value, (list, tuple)) else [value]
    sections = []
    for index, item in enumerate(items):
        with below(*((index,) if items is value else ())):
            sections.append(Publication.model_validate(require_mapping(item)))
    return tuple(sections)


_Several = tuple[Publication, ...]
Publications = Annotated[_Several, FormChoice(Publication | _Several, publication_sections)]


class Evaluation(fields.Section):
    """Private quality numbers, measured with each release.

    epsilon  Their ε, in addition to that of each release.
    """

    epsilon: fields.Epsilon


@dataclass(frozen=True)
class Target:
    """A declared binary class of rows, which a classifier predicts from the other attributes.

    attribute   an attribute with levels
    positive    the levels that mean yes: at least one, and not all
    without     attributes that classifiers must not see, because they imply the answer
    """

    attribute: str
    positive: tuple[str, ...]
    without: tuple[str, ...] = ()

    def codes(self, domain: Domain) -> tuple[int, ...]:
        """Return the codes of the positive levels, ascending; DeclarationError for other levels."""
        levels = domain[self.attribute].labels()
        if not set(self.positive) <= set(levels):
            raise DeclarationError(
                f"The positive levels of target {self.attribute!r} must be levels of that "
                "attribute: correct `targets`"
            )
        return tuple(sorted(levels.index(level) for level in self.positive))

    def inputs(self, attributes: tuple[str, ...]) -> tuple[str, ...]:
        """Return ``attributes`` but the target and those that classifiers must not see."""
        return tuple(name for name in attributes if name not in {self.attribute, *self.without})

    def classification_task(
        self, codes: Mapping[str, NDArray[Any]], domain: Domain
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return (attribute → codes that a classifier sees, whether each row is positive (n,)).

        codes   attribute → codes of rows (n,), those of the target's attribute among them
        """
        inputs = {name: codes[name] for name in self.inputs(tuple(codes))}
        return inputs, np.isin(codes[self.attribute], self.codes(domain))


class TargetSection(fields.Section):
    """Levels of an attribute that a classifier has to predict from the other attributes.

    positive  The levels that mean yes: some, but not all.
    without   Attributes that classifiers must not see, because they imply the answer.
    """

    positive: fields.NonEmpty[fields.Item]
    without: fields.ListOf[fields.Item] = ()

    def declared(self, name: str, domain: Domain) -> Target:
        """Return the target of the attribute ``name``.

        FieldError for an attribute without declared levels, for unknown, repeated or all levels,
        and for attributes in ``without`` that are unknown or have no cells.
        """
        require_nominal(name, domain, "targets", name)
        positive, levels = self.positive, domain[name].labels()
        unknown = next((level for level in positive if level not in levels), None)
        if unknown is not None:
            place = ("targets", name, "positive")
            raise not_among(unknown, levels, expected=f"levels of {name}", field=place)
        is_part = len(set(positive)) == len(positive) < len(levels)
        expected, got = f"some but not all levels of {name}, each once", ", ".join(positive)
        require(is_part, expected, got, "targets", name, "positive")
        expected = f"other attributes than {name} that have levels, bins or edges"
        got = ", ".join(each for each in self.without if each not in {*domain.discrete} - {name})
        require(not got, expected, got, "targets", name, "without")
        return Target(name, positive, self.without)


def require_nominal(name: str, domain: Domain, *field: str) -> None:
    """Raise FieldError, for the place ``field``, unless the attribute has declared levels."""
    nominal = [attribute.name for attribute in domain if isinstance(attribute.cells, Levels)]
    if name not in nominal:
        raise not_among(name, nominal, expected="an attribute with levels", field=field)


PARTITIONS = (0, 2, 5, 10, 20, 50)
"""The K that the papers use."""


_SUPPRESS = fields.Scalar(
    lambda text: Fraction(text) if re.fullmatch(r"0|0?\.[0-9]{1,9}", text) else None,
    "a decimal number from 0 to below 1",
    fields.NUMBER,
)
_NAMES = fields.Scalar(lambda text: tuple(text.split()), "names", fields.TEXT)
Parameters = fields.NonEmptyMapping[fields.MappingOf[fields.Text]]
"""Type of model or method → parameter → text."""


class KAnonymity(fields.Section):
    """k-anonymous tables, without any ε.

    methods          Methods that make tables k-anonymous, with their parameters.
    attributes       The quasi-identifiers, which are released with the label.
    partitions       The K that may be requested.
    sensitive_label  Whether a row's label is a secret.
    diversity        The least number of different labels in each class.
    suppress         The share of the rows that may be left out.
    seed             The seed of methods with random choices.

    >>> KAnonymity(methods={"kjig": {}}, attributes="age job").partition("5", of="adult")
    5
    """

    methods: Parameters
    attributes: Annotated[tuple[str, ...], _NAMES] = ()
    partitions: fields.Ascending[Annotated[int, fields.integer(0, 10**9 - 1)]] = PARTITIONS
    sensitive_label: fields.Switch = True
    diversity: fields.Count | None = None
    suppress: Annotated[Fraction, _SUPPRESS] = Fraction(0)
    seed: fields.Index = 0

    def with_defaults(self, domain: Domain, label: str, *, is_release: bool) -> Self:
        """Return the section with the attributes and K of its data set where it names none.

        label        the attribute that is predicted; it is released, but no quasi-identifier
        is_release   whether rows are sensitive, so that every K has to be at least 2

        FieldError for attributes without cells or named twice, for a K that is too small, and for
        a diversity of more labels than exist.
        """
        names_with_cells = tuple(name for name in domain.discrete if name != label)
        names = self.attributes if "attributes" in self.model_fields_set else names_with_cells
        expected = "an attribute besides the label that has levels, bins or edges"
        require(names_with_cells, expected, "none in `attributes:`", "attributes")
        unknown = next((name for name in names if name not in names_with_cells), "")
        expected = f"attributes with cells, each once: {', '.join(names_with_cells)}"
        is_good = names and len(set(names)) == len(names) and not unknown
        got, near = ", ".join(names) or "none", did_you_mean(unknown, names_with_cells)
        got = repr(unknown) if unknown else got
        require(is_good, expected, got, "attributes", hint=near)
        levels = domain[label].size
        is_possible = self.diversity is None or self.diversity <= levels
        expected = f"at most the label's {levels} levels"
        require(is_possible, expected, str(self.diversity), "diversity")
        # A class of fewer than two rows guarantees nothing.
        least, partitions = 2 if is_release else 0, self.partitions
        if "partitions" not in self.model_fields_set:
            partitions = tuple(k for k in partitions if k >= least)
        expected, got = f"only K of at least {least}", str(partitions[0])
        require(partitions[0] >= least, expected, got, "partitions")
        return self.model_copy(update={"attributes": names, "partitions": partitions})

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The canonical texts of the declared K, ascending."""
        return tuple(map(str, self.partitions))

    def partition(self, text: str, *, of: str) -> int:
        """Return a declared K of data set ``of`` from its text; DeclarationError for another."""
        k = parse_k(text)
        if k not in self.partitions:
            # Sensitive rows may not list a K below 2.
            advice = "list it under `k_anonymity.partitions` to release at it" if k > 1 else ""
            raise DeclarationError(
                f"{of}: the K of a table must be one of {', '.join(self.partition_keys)}, not "
                f"{k}: {advice or 'name one of these'}"
            )
        return k


def parse_k(text: str) -> int:
    """Return a K from its text; DeclarationError unless it is an integer of at most nine digits.

    >>> parse_k("20")
    20
    """
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise DeclarationError(f"K: expected an integer from 0 to 999999999, got {text[:60]!r}")
    return int(text)


Argument = float | int | bool | str | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class DeclaredExpectation:
    """A declared expectation about rows, in the terms of Great Expectations.

    columns      argument that names a column → attribute, or the person's column
    arguments    argument → value, without the columns
    mostly       share of the values that have to be as expected
    is_critical  whether its failure stops rows of a benchmark; never sensitive ones
    name         distinguishes it from another of the same type and columns; may be empty
    """

    type: str
    columns: Mapping[str, str]
    arguments: Mapping[str, Argument]
    mostly: Fraction = Fraction(1)
    is_critical: bool = False
    name: str = ""
