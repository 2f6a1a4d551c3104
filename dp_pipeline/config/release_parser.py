"""Sections of a data set file about releases: protection and ceiling, publications, and evaluation
with its targets.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.fields import FormChoice, below, not_among, require, require_mapping
from dp_pipeline.config.sections import Publication, Target
from dp_pipeline.config.windows import Within


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


class Evaluation(fields.Section):
    """Private quality numbers, measured with each release.

    epsilon  Their ε, in addition to that of each release.
    """

    epsilon: fields.Epsilon


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


def require_nominal(name: str, domain: Domain, *field: str) -> None:
    """Raise FieldError, for the place ``field``, unless the attribute has declared levels."""
    nominal = [attribute.name for attribute in domain if isinstance(attribute.cells, Levels)]
    if name not in nominal:
        raise not_among(name, nominal, expected="an attribute with levels", field=field)
