"""Sections of a data set file about releases: protection and ceiling, discovery, publication,
evaluation with its targets, and k-anonymity.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.amounts import epsilon_text, parse_delta
from dp_pipeline.config.discovered_domain import BETA, Discover
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import did_you_mean
from dp_pipeline.config.fields import FormChoice, below, not_among, require, require_mapping
from dp_pipeline.config.sections import PARTITIONS, KAnonymity, Target
from dp_pipeline.config.windows import MAX_SPAN, Within

Delta = Annotated[Fraction, fields.Scalar(parse_delta, "δ", fields.NUMBER)]


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
    delta: Delta | None = None

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


class DiscoverSection(fields.Section):
    """The cost of discovering levels, bounds and quantiles, once for each snapshot.

    epsilon  The ε of all discoveries together, in addition to the releases.
    delta    The δ of all discovered levels together; bounds and quantiles need none.
    beta     The chance that noise gives a bound beyond all rows.
    """

    epsilon: fields.Epsilon
    delta: Delta | None = None
    beta: Annotated[Fraction, fields.Scalar(parse_delta, "β", fields.NUMBER)] = BETA

    def declared(self, domain: Domain) -> Discover:
        """Return the declared budget of a discovery.

        FieldError if nothing is to be discovered, and for a δ without levels or levels without δ.
        """
        open_ = [attribute for attribute in domain if attribute.undeclared is not None]
        require(open_, "an attribute with `discover` or `quantiles`", "no such attribute")
        texts = [each.name for each in open_ if each.undeclared and not each.undeclared.is_number]
        expected = (
            f"a δ for the levels of {', '.join(texts)}, such as delta: 0.000000001; or a public "
            "list, `levels: {file: levels.txt}`; or all known levels and `other`"
        )
        require(self.delta is not None or not texts, expected, "no `delta`", "delta")
        expected = "no δ without levels to discover: bounds and quantiles need none"
        got = f"{float(self.delta or 0):g}"
        require(self.delta is None or texts, expected, got, "delta")
        return Discover(self.epsilon, self.delta, self.beta)


class PublishSection(fields.Section):
    """The models and ε that the schedule publishes.

    model    One of `models`.
    epsilon  One of `partitions`.
    span     The number of windows of one release, where there are windows.
    """

    model: fields.Text
    epsilon: fields.Epsilon
    span: Annotated[int, fields.integer(1, MAX_SPAN)] = 1


def publication_sections(value: object) -> tuple[PublishSection, ...]:
    """Return the parsed sections of ``publish``, which is one mapping or a list of them."""
    items = value if isinstance(value, (list, tuple)) else [value]
    sections = []
    for index, item in enumerate(items):
        with below(*((index,) if items is value else ())):
            sections.append(PublishSection.model_validate(require_mapping(item)))
    return tuple(sections)


_Several = tuple[PublishSection, ...]
Publications = Annotated[_Several, FormChoice(PublishSection | _Several, publication_sections)]
_SUPPRESS = fields.Scalar(
    lambda text: Fraction(text) if re.fullmatch(r"0|0?\.[0-9]{1,9}", text) else None,
    "a decimal number from 0 to below 1",
    fields.NUMBER,
)
Parameters = fields.NonEmptyMapping[fields.MappingOf[fields.Text]]
"""Type of model or method → parameter → text."""


class KAnonymitySection(fields.Section):
    """k-anonymous tables, without any ε.

    methods          Methods that make tables k-anonymous, with their parameters.
    attributes       The quasi-identifiers, which are released with the label.
    partitions       The K that may be requested.
    sensitive_label  Whether a row's label is a secret.
    diversity        The least number of different labels in each class.
    suppress         The share of the rows that may be left out.
    seed             The seed of methods with random choices.
    """

    methods: Parameters
    attributes: fields.Text | None = None
    partitions: fields.Ascending[Annotated[int, fields.integer(0, 10**9 - 1)]] | None = None
    sensitive_label: fields.Switch = True
    diversity: fields.Count | None = None
    suppress: Annotated[Fraction, _SUPPRESS] = Fraction(0)
    seed: fields.Index = 0

    def declared(self, domain: Domain, label: str, *, is_release: bool) -> KAnonymity:
        """Return the declared k-anonymous releases.

        label        the attribute that is predicted; it is released, but no quasi-identifier
        is_release   whether rows are sensitive, so that every K has to be at least 2

        FieldError for attributes without cells or named twice, for a K that is too small, and for
        a diversity of more labels than exist.
        """
        names_with_cells = tuple(name for name in domain.discrete if name != label)
        names = names_with_cells if self.attributes is None else tuple(self.attributes.split())
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
        least = 2 if is_release else 0
        partitions = self.partitions or tuple(k for k in PARTITIONS if k >= least)
        expected, got = f"only K of at least {least}", str(partitions[0])
        require(partitions[0] >= least, expected, got, "partitions")
        return KAnonymity(**{**dict(self), "attributes": names, "partitions": partitions})


def require_nominal(name: str, domain: Domain, *field: str) -> None:
    """Raise FieldError, for the place ``field``, unless the attribute has declared levels."""
    nominal = [attribute.name for attribute in domain if isinstance(attribute.cells, Levels)]
    if name not in nominal:
        raise not_among(name, nominal, expected="an attribute with levels", field=field)
