"""The fields of a data set file, stated once: for the parser, and for the JSON Schema of editors.

YAML in; a DatasetSpec out, or one line about the mistake with file, line and field. A section is
checked by its class; fields that need more than one section, or the purpose, by
``DataSetFile.spec``. Models and methods, and their parameters, are checked where they are built.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.amounts import epsilon_text, parse_delta
from dp_pipeline.config.attribute_parser import AnyAttribute, with_levels_of_files
from dp_pipeline.config.constraint_parser import ConstraintsSection
from dp_pipeline.config.dataset import (
    PARTITIONS,
    DatasetSpec,
    KAnonymity,
    Publication,
    Target,
    parse_k,
)
from dp_pipeline.config.discovered_domain import BETA, Discover
from dp_pipeline.config.domain import Domain, OneRow, Protection, RowsOfPerson
from dp_pipeline.config.encoding import Levels, Point
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.config.expectation_parser import Expectations, declared_expectations
from dp_pipeline.config.fields import (
    FormChoice,
    below,
    locate_errors,
    not_among,
    require,
    require_mapping,
)
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.config.reading_parser import (
    DEFAULT_READING,
    DeriveSection,
    ReadingSection,
    WindowsSection,
)
from dp_pipeline.config.source import FILES, Sample, Source
from dp_pipeline.config.source_parser import AnySource, source_of
from dp_pipeline.config.windows import MAX_SPAN, Within
from dp_pipeline.config.yaml_text import Document

Delta = Annotated[Fraction, fields.Scalar(parse_delta, "δ", fields.NUMBER)]


class OneRowSection(fields.Section):
    """Nobody has more than one row."""

    unit: Literal["one_row"]


class PersonSection(fields.Section):
    """All rows with one value of a column are one person.

    column   The column whose value names the person.
    at_most  Rows of one person that count; of one window, where there are windows.
    within   What is protected together: a person's rows of one `window`, or of all, for `ever`.
    """

    unit: Literal["rows_of_person"]
    column: fields.Text
    at_most: fields.Count
    within: Within | None = None


_AnyProtection = OneRowSection | PersonSection


def _protection(value: object) -> _AnyProtection:
    section, units = require_mapping(value), ("one_row", "rows_of_person")
    if section.get("unit") not in units:
        raise not_among(section.get("unit"), units, field=("unit",))
    form = OneRowSection if section["unit"] == "one_row" else PersonSection
    return form.model_validate(section)


class Ceiling(fields.Section):
    """The most ε that these persons may ever cost.

    total        For ever, over all models, partitions and snapshots.
    each_window  Of one window, where there are windows.
    per_month    In one calendar month.
    delta        Of all discoveries of levels together, for ever; by default that of one of them.
    """

    total: fields.Epsilon | None = None
    each_window: fields.Epsilon | None = None
    per_month: fields.Epsilon | None = None
    delta: Delta | None = None

    @model_validator(mode="after")
    def _require_consistent(self) -> Ceiling:
        require(self.total or self.each_window, "a value", "nothing", "total")
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

    positive: Annotated[fields.ListOf[fields.Item], fields.array(fields.TEXT, minItems=1)]
    without: fields.ListOf[fields.Item] = ()


class Evaluation(fields.Section):
    """Buys private numbers of quality with each release.

    epsilon  What they cost, on top of each release.
    """

    epsilon: fields.Epsilon


class DiscoverSection(fields.Section):
    """The cost of discovering levels, bounds and quantiles, once a snapshot.

    epsilon  Of all discoveries together, beside the releases.
    delta    Of all discovered levels together; bounds and quantiles need none.
    beta     The chance that noise puts a bound where no row is.
    """

    epsilon: fields.Epsilon
    delta: Delta | None = None
    beta: Annotated[Fraction, fields.Scalar(parse_delta, "β", fields.NUMBER)] = BETA

    def declared(self, domain: Domain) -> Discover:
        """Return the budget; FieldError where the domain needs none, or needs another δ."""
        undeclared = {
            attribute.name: attribute.undeclared
            for attribute in domain
            if attribute.undeclared is not None
        }
        require(undeclared, "an attribute with `discover` or `quantiles`", "none")
        texts = [name for name, parts in undeclared.items() if parts.levels is not None]
        expected = (
            f"a δ for the levels of {', '.join(texts)}, such as delta: 0.000000001; or a public "
            "list, `levels: {file: levels.txt}`; or the levels that you know and `other`"
        )
        require(self.delta is not None or not texts, expected, "none", "delta")
        expected = "no δ where no levels are discovered: bounds and quantiles need none"
        require(self.delta is None or texts, expected, "one", "delta")
        return Discover(self.epsilon, self.delta, self.beta)


class PublishSection(fields.Section):
    """What the schedule publishes.

    model    One of `models`.
    epsilon  One of `partitions`.
    span     The number of windows of one release, where there are windows.
    """

    model: fields.Text
    epsilon: fields.Epsilon
    span: fields.Count = 1


def _publications(value: object) -> tuple[PublishSection, ...]:
    """Return one publication, or those of a list: of each window, where there are windows."""
    items = value if isinstance(value, (list, tuple)) else [value]
    sections = []
    for index, item in enumerate(items):
        with below(*((index,) if items is value else ())):
            sections.append(PublishSection.model_validate(require_mapping(item)))
    return tuple(sections)


def _suppressed(text: str) -> Fraction | None:
    return Fraction(text) if re.fullmatch(r"0|0?\.[0-9]{1,9}", text) else None


_OWNER = re.compile(r"team:\S+|[A-Za-z0-9][\w.%+-]*@([A-Za-z0-9-]+\.)+[A-Za-z]{2,7}", re.ASCII)


def _format(text: str) -> int:
    require(text == str(FORMAT), str(FORMAT), f"{text[:9]!r}")
    return FORMAT


Format = fields.Scalar(_format, str(FORMAT), {"enum": [FORMAT, str(FORMAT)]})
Parameters = fields.MappingOf[fields.MappingOf[fields.Text]]
"""Model or method → its parameters; the schema lists those that there are."""


class KAnonymitySection(fields.Section):
    """k-anonymous tables, without any ε.

    methods          Methods that make tables k-anonymous, with their parameters.
    attributes       The quasi-identifiers, which are released beside the label.
    partitions       The K that may be requested.
    sensitive_label  Whether a row's label is a secret.
    diversity        Different labels in each class.
    suppress         The share of the rows that may be left out.
    seed             The seed of the methods that draw.
    """

    methods: Parameters
    attributes: fields.Text | None = None
    partitions: (
        Annotated[fields.ListOf[fields.Item], fields.array(fields.integer(0).schema, minItems=1)]
        | None
    ) = None
    sensitive_label: fields.Switch = True
    diversity: fields.Count | None = None
    suppress: Annotated[
        Fraction, fields.Scalar(_suppressed, "a decimal number from 0 to below 1", fields.NUMBER)
    ] = Fraction(0)
    seed: fields.Index = 0

    def declared(self, domain: Domain, label: str, *, is_release: bool) -> KAnonymity:
        """Return the releases, in the order of the file.

        label        the attribute that is predicted: it is released, and no quasi-identifier
        is_release   whether rows are sensitive: then every K has to guarantee something

        Raises FieldError for attributes without cells, and for a diversity of more labels than
        there are.
        """
        require(self.methods, "at least one method", "none", "methods")
        names_with_cells = tuple(name for name in domain.discrete if name != label)
        names = names_with_cells if self.attributes is None else tuple(self.attributes.split())
        unknown = next((name for name in names if name not in names_with_cells), "")
        expected = (
            f"attributes with cells, each once: {', '.join(names_with_cells) or 'there is none'}"
        )
        is_good = names and len(set(names)) == len(names) and not unknown
        got, near = ", ".join(names) or "none", did_you_mean(unknown, names_with_cells)
        require(is_good, expected, got, "attributes", hint=near)
        levels = domain[label].size
        is_possible = self.diversity is None or self.diversity <= levels
        expected = f"at most the label's {levels} levels"
        require(is_possible, expected, str(self.diversity), "diversity")
        partitions = self._partitions(2 if is_release else 0)
        return KAnonymity(**{**dict(self), "attributes": names, "partitions": partitions})

    def _partitions(self, least: int) -> tuple[int, ...]:
        if self.partitions is None:
            return tuple(k for k in PARTITIONS if k >= least)
        try:
            partitions = tuple(map(parse_k, self.partitions))
        except DeclarationError:
            partitions = ()
        expected = f"one K or more in ascending order, each of at least {least}"
        is_ascending = list(partitions) == sorted(set(partitions))
        is_good = partitions and is_ascending and partitions[0] >= least
        require(is_good, expected, ", ".join(self.partitions) or "none", "partitions")
        return partitions


class DataSetFile(fields.Section):
    """A data set file of dp_pipeline.

    format               The format of this file; absent means 1.
    name                 The name of this file.
    title                A title for people, in place of the name.
    description          A description for people.
    population           Persons under one privacy account, for ever.
    purpose              Public rows, or sensitive ones.
    protection           What one person is.
    relation             What neighbouring data sets differ by.
    ceiling              The most ε that these persons may ever cost.
    source               Where the rows are.
    on_invalid           What becomes of a number outside of its bounds.
    reading              How cells are read: decimal comma, texts of missing values, zone.
    derive               Columns that are a public function of one row.
    windows              Rows partitioned into time windows, each with a budget of its own.
    attributes           The columns that are read, each a number, a category, a date or a time.
    constraints          Which cells of several columns there are together in one row.
    usable               The share of the rows that checks want to be as declared.
    expectations         More checks on rows, in Great Expectations' words.
    point                The axes of a map, to the right and upwards: [longitude, latitude].
    one_hot              Whether codes are stored as bits too.
    label                The attribute with the true classes.
    targets              What classifiers learn from a synthetic table.
    nominal_rows         A number of rows to plan with; need not be true.
    partitions           The ε that may be requested, ascending.
    models               The models that are released, with their parameters.
    publish              What the schedule publishes: one model, or a list of them for each window.
    refresh              The schedule opens a new snapshot each week, and pays.
    updates              Anyone may see when the rows change.
    evaluation           Buys private numbers of quality with each release.
    owners               E-mail addresses, or team:NAME.
    distinct_population  Why a shared source is about other persons.
    delta                The δ of a population that pays in ρ.
    k_anonymity          k-anonymous tables, without any ε.
    allow_not_dp         Sensitive rows may be released under a guarantee without an ε.
    discover             The cost of discovering what attributes do not declare.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["purpose"], "properties": {"purpose": {"const": "release"}}},
            "then": {"required": ["ceiling"]},
            "dependentRequired": {"refresh": ["publish"], "k_anonymity": ["label"]},
        }
    )

    format: Annotated[int, Format] = FORMAT
    name: fields.Name
    title: fields.Text | None = None
    description: fields.Text
    population: fields.Name
    purpose: Literal["benchmark", "release"]
    protection: Annotated[_AnyProtection, FormChoice(_AnyProtection, _protection)]
    relation: Literal["add_remove", "replace_one"] = "add_remove"
    ceiling: Ceiling | None = None
    source: AnySource
    on_invalid: Literal["clip", "drop"] = "clip"
    reading: ReadingSection = DEFAULT_READING
    derive: fields.MappingOf[DeriveSection] = Field(default_factory=dict)
    windows: WindowsSection | None = None
    attributes: Annotated[
        dict[fields.Name, AnyAttribute],
        BeforeValidator(require_mapping),
        Field(json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    ]
    constraints: ConstraintsSection | None = None
    usable: fields.Share = Fraction(1)
    expectations: Expectations = ()
    point: Annotated[fields.ListOf[fields.Item], fields.PAIR] | None = None
    one_hot: fields.Switch = False
    label: fields.Text | None = None
    targets: fields.MappingOf[TargetSection] = Field(default_factory=dict)
    nominal_rows: fields.Count | None = None
    partitions: fields.NonEmpty[fields.Epsilon]
    models: Parameters
    publish: (
        Annotated[
            tuple[PublishSection, ...],
            FormChoice(PublishSection | tuple[PublishSection, ...], _publications),
        ]
        | None
    ) = None
    refresh: Literal["weekly"] | None = None
    updates: Literal["public"] | None = None
    evaluation: Evaluation | None = None
    owners: fields.NonEmpty[
        Annotated[str, fields.text_that(_OWNER.fullmatch, "an e-mail address or team:NAME")]
    ] = ()
    distinct_population: fields.Text | None = None
    delta: Delta | None = None
    k_anonymity: KAnonymitySection | None = None
    allow_not_dp: fields.Switch = False
    discover: DiscoverSection | None = None

    def spec(self, path: Path) -> DatasetSpec:
        """Return the declaration of the file ``path``; FieldError for inconsistent fields."""
        require(self.name == path.stem, "the file's own name", repr(self.name), "name")
        require(self.attributes, "at least one attribute", "none", "attributes")
        require(self.models, "at least one model", "none", "models")
        is_ascending = list(self.partitions) == sorted(set(self.partitions))
        listed = ", ".join(map(epsilon_text, self.partitions))
        require(is_ascending, "one ε or more in ascending order", listed, "partitions")
        is_unique = len(set(self.owners)) == len(self.owners)
        require(is_unique, "each owner once", "the same owner twice", "owners")
        domain = self._domain()
        protection: Protection = OneRow()
        if isinstance(self.protection, PersonSection):
            each = self.windows.every if self.windows else ""
            protection = RowsOfPerson(self.protection.column, self.protection.at_most, each)
        if self.label is not None:
            _require_nominal(self.label, domain, "label")
        if self.k_anonymity is not None:
            self._require_k_anonymous(domain, protection)
        same = {name: value for name, value in self if name in DatasetSpec.__dataclass_fields__}
        converted = {
            "title": self.title or self.name,
            "protection": protection,
            "ceiling": self.ceiling.total if self.ceiling else None,
            "source": self._source(path.parent, domain),
            "domain": domain,
            **self._windows(),
            **self._published(),
            "evaluation": self.evaluation.epsilon if self.evaluation else None,
            "targets": tuple(_target(*item, domain) for item in self.targets.items()),
            "k_anonymity": self._k_anonymity(domain),
            "per_month": self.ceiling.per_month if self.ceiling else None,
            "ceiling_delta": self.ceiling.delta if self.ceiling else None,
            "updates_public": self.updates is not None,
            "expectations": declared_expectations(
                self.expectations, domain, protection.column, is_release=self._is_release
            ),
            "point": self._point(domain),
            "discover": self._discover(domain),
        }
        spec = DatasetSpec(**{**same, **converted})
        _require_consistent(spec)
        return spec

    @property
    def _is_release(self) -> bool:
        return self.purpose == "release"

    def _published(self) -> dict[str, Any]:
        """Return what the schedule publishes: of the current rows, or of each window."""
        publications = tuple(Publication(**dict(section)) for section in self.publish or ())
        span = max((publication.span for publication in publications), default=1)
        field, is_single = ("publish", "span"), span == 1
        expected = "no span of several windows without `windows`"
        require(is_single or self.windows is not None, expected, str(span), *field)
        require(span <= MAX_SPAN, f"a span of at most {MAX_SPAN} windows", str(span), *field)
        # The noise hides a person's rows of one window; noise that hides those of m costs ρ m².
        expected = "no span of several windows beside `delta`, as ρ of windows do not add up"
        require(is_single or self.delta is None, expected, str(span), *field)
        if self.windows is not None:
            models = [publication.model for publication in publications]
            is_unique = models and len(set(models)) == len(models)
            got = ", ".join(models) or "none"
            require(is_unique, "a list of models, each once", got, "publish")
            return {"publish": None, "publications": publications}
        require(len(publications) < 2, "one model, without `windows`", "several", "publish")
        return {"publish": publications[0] if publications else None}

    def _windows(self) -> dict[str, Any]:
        """Return the windows and their protection; FieldError for what does not go with them."""
        within = getattr(self.protection, "within", None)
        each = self.ceiling.each_window if self.ceiling else None
        if self.windows is None:
            require(within is None, "no `within` without `windows`", "one", "protection", "within")
            require(each is None, "no each_window without `windows`", "one", "ceiling")
            return {"windows": None}
        with below("windows"):
            windows = self.windows.declared(self.reading)
        expected = "add_remove beside `windows`: a row that is replaced may be of another window"
        require(self.relation == "add_remove", expected, self.relation, "relation")
        for name in ("refresh", "updates", "k_anonymity", "discover"):
            is_absent = getattr(self, name) is None
            require(is_absent, f"no `{name}` beside `windows`", "one", name)
        if isinstance(self.protection, PersonSection):
            expected = "window or ever, which says whose rows are protected together"
            require(within, expected, "nothing", "protection", "within")
        return {"windows": windows, "within": within or "window", "each_window": each}

    def _domain(self) -> Domain:
        functions = {name: section.derived(self.reading) for name, section in self.derive.items()}
        attributes = []
        for name, section in self.attributes.items():
            with below("attributes", name):
                attribute = section.attribute(name, self.on_invalid, self.reading)
                derived = functions.get(attribute.column)
                is_good = derived is None or attribute.clock is None
                require(is_good, "levels or bounds of numbers: it is derived", "a type", "type")
            usable = section.usable or self.usable
            attributes.append(replace(attribute, usable=usable, derived=derived))
        columns = {attribute.column for attribute in attributes}
        for name, function in functions.items():
            field, is_plain = ("derive", name), functions.keys().isdisjoint(function.inputs)
            require(name in columns, f"an attribute on the column {name!r}", "none", *field)
            require(is_plain, "columns of the source", "a derived one", *field)
        domain = Domain(tuple(attributes))
        if self.constraints is None:
            return domain
        with below("constraints"):
            return replace(domain, constraints=self.constraints.declared(domain))

    def _source(self, folder: Path, domain: Domain) -> Source:
        with below("source"):
            source = source_of(self.source, folder, is_release=self._is_release)
            sample = getattr(self.source, "sample", None)
            if sample is None:
                return source
            # A row's place in a sample depends on the other rows, so no protection would hold.
            is_public = not self._is_release
            require(is_public, "every row of sensitive data", "a sample of them", "sample")
            _require_nominal(sample.by, domain, "sample", "by")
            return replace(source, sample=Sample(**dict(sample)))

    def _require_k_anonymous(self, domain: Domain, protection: Protection) -> None:
        """Require a label, one row a person, and on sensitive rows that the file allows it."""
        field, label = "k_anonymity", self.label or ""
        require(label, "a `label` beside it, for rows to predict", "none", field)
        expected = "a label that is never missing: a missing one would pass for another label"
        require(not domain[label].nullable, expected, f"{label} with `nullable: true`", field)
        expected = "at most one row of a person beside it, for K rows to be K persons"
        require(protection.rows == 1, expected, str(protection), field)
        expected = "`allow_not_dp: true` for k-anonymous releases of sensitive rows"
        got = "false" if "allow_not_dp" in self.model_fields_set else "none"
        require(self.allow_not_dp or not self._is_release, expected, got, field)

    def _k_anonymity(self, domain: Domain) -> KAnonymity | None:
        if self.k_anonymity is None:
            return None
        with below("k_anonymity"):
            label = self.label or ""
            return self.k_anonymity.declared(domain, label, is_release=self._is_release)

    def _discover(self, domain: Domain) -> Discover | None:
        if self.discover is not None:
            with below("discover"):
                return self.discover.declared(domain)
        names = ", ".join(attribute.name for attribute in domain if attribute.undeclared)
        expected = f"the cost of discovering {names}: `discover: {{epsilon: 0.1}}`"
        require(not names, expected, "nothing", "discover")
        return None

    def _point(self, domain: Domain) -> Point | None:
        """Return two axes; an attribute that is no number, or may be missing, is none."""
        if self.point is None:
            return None
        axes = ", ".join(domain.numeric) or "there is none"
        expected = f"[x, y], two attributes that are numbers and never missing: {axes}"
        is_place = len(self.point) == len({*self.point} & {*domain.numeric}) == 2
        require(is_place, expected, ", ".join(self.point) or "none", "point")
        return self.point[0], self.point[1]


def _require_nominal(name: str, domain: Domain, *field: str) -> None:
    """Require declared levels: bins of a number that is clustered would be no truth."""
    nominal = [attribute.name for attribute in domain if isinstance(attribute.cells, Levels)]
    if name not in nominal:
        raise not_among(name, nominal, expected="an attribute with levels", field=field)


def _target(name: str, section: TargetSection, domain: Domain) -> Target:
    _require_nominal(name, domain, "targets", name)
    positive, levels = section.positive, domain[name].labels()
    is_part = positive and len(set(positive)) == len(positive) and set(positive) < set(levels)
    expected, got = f"some but not all levels of {name}, each once", ", ".join(positive) or "none"
    require(is_part, expected, got, "targets", name, "positive")
    is_other = set(section.without) <= set(domain.discrete) - {name}
    expected, got = f"other attributes with cells than {name}", ", ".join(section.without)
    require(is_other, expected, got, "targets", name, "without")
    return Target(name, positive, section.without)


def _require_consistent(spec: DatasetSpec) -> None:
    """Raise FieldError for fields of a declaration that do not go together."""
    published = spec.publications or ((spec.publish,) if spec.publish else ())
    for publication in published:
        model, epsilon = publication.model, publication.epsilon
        expected, near = f"a model of {', '.join(spec.models)}", did_you_mean(model, spec.models)
        require(model in spec.models, expected, model, "publish", hint=near)
        expected = f"ε from {', '.join(spec.partition_keys)}"
        require(epsilon in spec.partitions, expected, epsilon_text(epsilon), "publish")
    expected = "publish, which says what a new snapshot is for"
    require(spec.refresh is None or published, expected, "nothing", "refresh")
    person_column = spec.protection.column
    columns = {column for attribute in spec.domain for column in attribute.inputs}
    is_apart = person_column is None or person_column not in columns
    require(is_apart, f"no attribute on the person's column {person_column!r}", "one", "attributes")
    for column in sorted(columns):
        is_unique = len({*spec.signs_of(column)}) < 2
        require(is_unique, f"one decimal sign of the column {column!r}", "two", "attributes")
    # A query has no stamp to watch: only its rows would show that they changed.
    is_watched = not spec.updates_public or spec.source.kind in FILES
    expected = f"a source that is watched without reading its rows: {' or '.join(FILES)}"
    require(is_watched, expected, spec.source.kind, "updates")
    if spec.per_month is not None and spec.delta is None:
        largest = max(spec.partitions) + (spec.evaluation or Fraction(0))
        expected = f"a per_month of at least {epsilon_text(largest)} for one release"
        require(largest <= spec.per_month, expected, epsilon_text(spec.per_month), "ceiling")
    _require_ceiling(spec)


def _require_ceiling(spec: DatasetSpec) -> None:
    """Raise FieldError for a missing ceiling of sensitive rows, or one that is too low."""
    by_window = spec.within == "window"
    limit, name = (spec.each_window, "an each_window") if by_window else (spec.ceiling, "a total")
    if limit is None:
        require(not spec.is_release, f"{name} for data to be released", "nothing", "ceiling")
        return
    if spec.is_release or spec.windows:
        # A cost in ρ depends on the model: ``models.build_model`` adds it up.
        cost = spec.cost_of_everything
        purpose = "what is published of each window" if spec.windows else "all models at all ε"
        expected = f"{name} of at least {epsilon_text(cost)} for {purpose}"
        is_enough = spec.delta is not None or cost <= limit
        require(is_enough, expected, epsilon_text(limit), "ceiling")


def load_spec(path: Path) -> DatasetSpec:
    """Read one data set file.

    Raises DeclarationError with file, line, field, what was expected and what was got.
    """
    document = Document.read(path)
    with locate_errors(document):
        if "format" in document.texts:
            # Checked first: the fields of another format may mean something else.
            with below("format"):
                Format.read(document.texts["format"])
        texts = with_levels_of_files(document.texts, path.parent)
        return DataSetFile.model_validate(texts).spec(path)
