"""Values of single sections of a data set file: k-anonymous releases, targets, expectations and
publications.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config import fields
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.config.fields import require
from dp_pipeline.config.windows import MAX_SPAN

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


class Publication(fields.Section):
    """A model and an ε that the schedule releases regularly.

    model    One of `models`.
    epsilon  One of `partitions`.
    span     The number of windows of one release, where there are windows.
    """

    model: fields.Text
    epsilon: fields.Epsilon
    span: Annotated[int, fields.integer(1, MAX_SPAN)] = 1
