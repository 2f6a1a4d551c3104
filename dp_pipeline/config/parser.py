"""The parser of data set files, from which the JSON Schema of editors is made too.

It reads YAML and returns a DatasetSpec, or raises one line with file, line and field. Each section
checks itself; ``DataSetFile.spec`` checks rules across sections. Models, methods and their
parameters are checked where they are built.
"""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from dp_pipeline.config import fields, reading_parser, sections
from dp_pipeline.config.about import NOTHING_SAID, AboutSection
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.attribute_parser import Attributes, Numeric
from dp_pipeline.config.constraint_parser import ConstraintsSection
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Domain, Protection
from dp_pipeline.config.encoding import Point
from dp_pipeline.config.expectation_parser import Expectations, declared_expectations
from dp_pipeline.config.fields import below, locate_errors, require
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.config.level_texts import with_levels_of_files
from dp_pipeline.config.parts_parser import PartsSection, domain_of_parts, parts_of, source_of_parts
from dp_pipeline.config.sections import GroupSection, KAnonymity, PersonSection
from dp_pipeline.config.source import FILES, Sample, Source
from dp_pipeline.config.source_parser import AnySource, source_of
from dp_pipeline.config.yaml_text import Document, Place

_OWNER = re.compile(r"team:\S+|[A-Za-z0-9][\w.%+-]*@([A-Za-z0-9-]+\.)+[A-Za-z]{2,7}", re.ASCII)
Owner = Annotated[str, fields.text_that(_OWNER.fullmatch, "an e-mail address or team:NAME")]


def _format(text: str) -> int:
    require(text == str(FORMAT), str(FORMAT), f"{text[:9]!r}")
    return FORMAT


Format = fields.Scalar(_format, str(FORMAT), {"enum": [FORMAT, str(FORMAT)]})
_ROW_SECTIONS = ("windows", "k_anonymity", "discover", "evaluation", "point", "targets", "one_hot")
"""Sections about rows, which would have another meaning for parts."""


class DataSetFile(fields.Section):
    """A data set file of dp_pipeline.

    format               The format of this file; absent means 1.
    name                 The name of this file.
    title                A title for people, in place of the name.
    description          A description for people.
    population           The name of the persons who share one privacy account, for ever.
    purpose              Public rows (benchmark), or sensitive ones (release).
    protection           The rows that belong to one person.
    relation             The difference between neighbouring data sets.
    ceiling              The most ε that these persons may ever cost.
    source               Where the rows are.
    on_invalid           A wrong cell is missing (keep), clipped, or drops its row (drop).
    nullable             Whether cells that are not as declared have a separate level, missing.
    reading              How cells are read: decimal comma, texts of missing values, zone.
    derive               Columns that are a public function of one row.
    windows              Rows partitioned into time windows, each with a budget of its own.
    attributes           The columns that are read, each a number, a category, a date or a time.
    parts                The parts of each unit, such as the persons of a household.
    constraints          Combinations of cells that rows may or may not have.
    usable               The share of the rows that checks require to be as declared.
    expectations         More checks on rows, in Great Expectations' words.
    point                The axes of a map, to the right and upwards: [longitude, latitude].
    one_hot              Whether codes of levels are stored as bits too.
    label                The attribute with the true classes.
    targets              What classifiers learn from a synthetic table.
    nominal_rows         A number of rows, or units with parts, to plan with; need not be true.
    partitions           The ε that may be requested, ascending.
    models               The models that are released, with their parameters.
    publish              What the schedule publishes: one model, or a list of them for each window.
    refresh              weekly, if the schedule opens a new snapshot each week.
    updates              public, if anyone may see when the rows change.
    evaluation           Private numbers of quality, paid with each release.
    owners               E-mail addresses, or team:NAME.
    about                Publisher, contact, licence, citation, and the day of the rows.
    distinct_population  Why a shared source is about other persons.
    delta                The δ of a population that pays in ρ.
    k_anonymity          k-anonymous tables, without any ε.
    allow_not_dp         Whether sensitive rows may be released without an ε.
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
    protection: sections.ProtectionForm
    relation: Literal["add_remove", "replace_one"] = "add_remove"
    ceiling: sections.Ceiling | None = None
    source: AnySource
    on_invalid: Literal["keep", "clip", "drop"] = "keep"
    nullable: fields.Switch | None = None
    reading: reading_parser.ReadingSection = reading_parser.DEFAULT_READING
    derive: fields.MappingOf[reading_parser.DeriveSection] = Field(default_factory=dict)
    windows: reading_parser.WindowsSection | None = None
    attributes: Attributes
    parts: fields.MappingOf[PartsSection] | None = None
    constraints: ConstraintsSection | None = None
    usable: fields.Share = Fraction(1)
    expectations: Expectations = ()
    point: Annotated[fields.ListOf[fields.Item], fields.PAIR] | None = None
    one_hot: fields.Switch = False
    label: fields.Text | None = None
    targets: fields.MappingOf[sections.TargetSection] = Field(default_factory=dict)
    nominal_rows: fields.Count | None = None
    partitions: fields.Ascending[fields.Epsilon]
    models: sections.Parameters
    publish: sections.Publications | None = None
    refresh: Literal["weekly"] | None = None
    updates: Literal["public"] | None = None
    evaluation: sections.Evaluation | None = None
    owners: fields.NonEmpty[Owner] = ()
    about: AboutSection = NOTHING_SAID
    distinct_population: fields.Text | None = None
    delta: fields.Delta | None = None
    k_anonymity: KAnonymity | None = None
    allow_not_dp: fields.Switch = False
    discover: Discover | None = None

    def spec(self, path: Path) -> DatasetSpec:
        """Return the declaration of the file at ``path``; FieldError for inconsistent fields."""
        require(self.name == path.stem, "the file's own name", repr(self.name), "name")
        is_unique = len(set(self.owners)) == len(self.owners)
        require(is_unique, "each owner once", "the same owner twice", "owners")
        domain = self._domain()
        protection = Protection()
        if isinstance(self.protection, PersonSection):
            each = self.windows.every if self.windows else ""
            protection = Protection(self.protection.column, self.protection.at_most, each)
        elif isinstance(self.protection, GroupSection) and domain.parts is not None:
            protection = Protection(self.protection.key, domain.parts.at_most, is_unit=True)
        if self.label is not None:
            sections.require_nominal(self.label, domain, "label")
        k_anonymity = self._k_anonymity(domain, protection)
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
            "targets": tuple(
                section.declared(name, domain) for name, section in self.targets.items()
            ),
            "k_anonymity": k_anonymity,
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
        publications = self.publish or ()
        span = max((publication.span for publication in publications), default=1)
        field, is_single = ("publish", "span"), span == 1
        expected = "no span of several windows without `windows`"
        require(is_single or self.windows is not None, expected, str(span), *field)
        # Noise that hides a person's rows of m windows costs m² times the ρ of one.
        expected = "no span of several windows with `delta`, as ρ of windows do not add up"
        require(is_single or self.delta is None, expected, str(span), *field)
        if self.windows is not None:
            models = [publication.model for publication in publications]
            is_unique = models and len(set(models)) == len(models)
            got = ", ".join(models) or "none"
            require(is_unique, "a list of models, each once", got, "publish")
            return {"publish": None, "publications": publications}
        require(len(publications) < 2, "one model, without `windows`", "a list", "publish")
        return {"publish": publications[0] if publications else None}

    def _windows(self) -> dict[str, Any]:
        within = getattr(self.protection, "within", None)
        each = self.ceiling.each_window if self.ceiling else None
        if self.windows is None:
            expected = "no `within` without `windows`"
            require(within is None, expected, str(within), "protection", "within")
            got = "" if each is None else epsilon_text(each)
            require(each is None, "no each_window without `windows`", got, "ceiling")
            return {"windows": None}
        with below("windows"):
            windows = self.windows.declared(self.reading)
        expected = "add_remove with `windows`: a replaced row may be of another window"
        require(self.relation == "add_remove", expected, self.relation, "relation")
        for name in ("refresh", "updates", "k_anonymity", "discover"):
            is_absent = getattr(self, name) is None
            require(is_absent, f"no `{name}` with `windows`", "both", name)
        if isinstance(self.protection, PersonSection):
            expected = "window or ever, for which rows of a person are protected together"
            require(within, expected, "nothing", "protection", "within")
        return {"windows": windows, "within": within or "window", "each_window": each}

    def _domain(self) -> Domain:
        functions = {name: section.derived(self.reading) for name, section in self.derive.items()}
        attributes, parts = [], self._parts()
        place: Place = ("attributes",)
        entries = [(place, *each) for each in self.attributes.items()]
        if parts is not None:
            place = ("parts", parts[0], "attributes")
            entries += [(place, *each) for each in parts[1].attributes.items()]
        for place, name, section in entries:
            nullable = False if name in self._complete_names else self.nullable
            with below(*place, name):
                read = section.with_default(nullable).attribute
                attribute = read(name, self.on_invalid, self.reading)
                derived = functions.get(attribute.column)
                kind = attribute.clock.kind if attribute.clock and derived else ""
                require(not kind, "no type, as the column is derived", kind, "type")
            usable = section.usable or self.usable
            attributes.append(replace(attribute, usable=usable, derived=derived))
        columns = {attribute.column for attribute in attributes}
        for name, function in functions.items():
            field, is_plain = ("derive", name), functions.keys().isdisjoint(function.inputs)
            expected = f"an attribute on the column {name!r}"
            require(name in columns, expected, "no such attribute", *field)
            require(is_plain, "columns of the source", ", ".join(function.inputs), *field)
        domain = Domain(tuple(attributes))
        if parts is not None and isinstance(self.protection, GroupSection):
            domain = domain_of_parts(domain, parts[1].declared(parts[0]), self.protection.key)
        if self.constraints is None:
            return domain
        with below("constraints"):
            return self.constraints.constrain(domain)

    def _parts(self) -> tuple[str, PartsSection] | None:
        is_group = isinstance(self.protection, GroupSection)
        if self.parts is None:
            expected = "`parts` with their attributes, for a unit that is a group of rows"
            require(not is_group, expected, "none", "parts")
            return None
        expected = "`unit: group` with a `key`, whose rows are the parts of one unit"
        require(is_group, expected, "another unit", "protection", "unit")
        for name in _ROW_SECTIONS:
            require(not getattr(self, name), f"no `{name}` with `parts`", "one", name)
        return parts_of(self.parts)

    @property
    def _complete_names(self) -> tuple[str, ...]:
        """The attributes without a default level for missing values: a k-anonymous label, and axes.

        A missing label would pass for another label of its class.
        """
        label = (self.label,) if self.k_anonymity is not None and self.label else ()
        numbers = [name for name, each in self.attributes.items() if isinstance(each, Numeric)]
        axes: list[str] = []
        for parameters in self.models.values():
            if "columns" in parameters:
                axes += parameters["columns"].split()
            elif "k" in parameters:
                # A clustering without `columns` has every number as an axis.
                axes += numbers
        return (*label, *(self.point or ()), *axes)

    def _source(self, folder: Path, domain: Domain) -> Source:
        is_release = self._is_release
        with below("source"):
            source = source_of(self.source, folder, is_release=is_release)
            sample = getattr(self.source, "sample", None)
            if sample is not None:
                # A row's place in a sample depends on the other rows: no protection would hold.
                expected = "every row of sensitive data"
                require(not is_release, expected, "a sample of them", "sample")
                sections.require_nominal(sample.by, domain, "sample", "by")
                source = replace(source, sample=Sample(**dict(sample)))
        parts = self._parts()
        return source_of_parts(source, *parts, folder, is_release=is_release) if parts else source

    def _k_anonymity(self, domain: Domain, protection: Protection) -> KAnonymity | None:
        if self.k_anonymity is None:
            return None
        field, label = "k_anonymity", self.label or ""
        require(label, "a `label` for rows to predict", "no `label`", field)
        expected = "a label that is never missing: a missing one would pass for another label"
        require(not domain[label].nullable, expected, f"{label} with `nullable: true`", field)
        expected = "at most one row of a person, for K rows to be K persons"
        require(protection.rows == 1, expected, str(protection), field)
        expected = "`allow_not_dp: true` for k-anonymous releases of sensitive rows"
        got = "false" if "allow_not_dp" in self.model_fields_set else "no such field"
        require(self.allow_not_dp or not self._is_release, expected, got, field)
        with below(field):
            return self.k_anonymity.with_defaults(domain, label, is_release=self._is_release)

    def _discover(self, domain: Domain) -> Discover | None:
        if self.discover is not None:
            with below("discover"):
                self.discover.require_fitting(domain)
            return self.discover
        names = ", ".join(attribute.name for attribute in domain if attribute.undeclared)
        has_levels = any(each.undeclared and each.undeclared.levels for each in domain)
        cost = "epsilon: 0.1, delta: 0.000000001" if has_levels else "epsilon: 0.1"
        expected = f"the cost of discovering {names}: `discover: {{{cost}}}`"
        require(not names, expected, "nothing", "discover")
        return None

    def _point(self, domain: Domain) -> Point | None:
        if self.point is None:
            return None
        axes = ", ".join(domain.numeric) or "there is none"
        expected = f"[x, y], two attributes that are numbers and never missing: {axes}"
        is_place = len(self.point) == len({*self.point} & {*domain.numeric}) == 2
        require(is_place, expected, ", ".join(self.point) or "none", "point")
        return self.point[0], self.point[1]


def _require_consistent(spec: DatasetSpec) -> None:
    """Raise FieldError for fields of a declaration that contradict each other."""
    published = spec.publications or ((spec.publish,) if spec.publish else ())
    for publication in published:
        model, epsilon = publication.model, publication.epsilon
        # Either name may be the misspelt one: models are known to a layer above alone.
        expected = f"a model of {', '.join(spec.models)}"
        remedy = ": declare it under `models`, or publish one that is declared there"
        require(model in spec.models, expected, model, "publish", hint=remedy)
        expected = f"ε from {', '.join(spec.partition_keys)}"
        require(epsilon in spec.partitions, expected, epsilon_text(epsilon), "publish")
    expected = "publish, for a new snapshot to be released"
    require(spec.refresh is None or published, expected, "nothing", "refresh")
    person_column = spec.protection.column
    read = [each for each in spec.domain if not each.is_size]
    columns = {column for attribute in read for column in attribute.inputs}
    is_apart = person_column is None or person_column not in columns
    expected = f"no attribute on the person's column {person_column!r}"
    require(is_apart, expected, "an attribute on it", "attributes")
    for column in sorted(columns):
        for kind in ("decimal", "thousands"):
            signs = sorted({getattr(each, kind) for each in spec.signs_of(column)})
            expected = f"one {kind} sign of the column {column!r} in all its attributes"
            got = " and ".join(repr(sign) if sign else "none" for sign in signs)
            require(len(signs) < 2, expected, got, "attributes")
    # A query has no time stamp: only its rows would show that they changed.
    is_watched = not spec.updates_public or spec.source.kind in FILES
    expected = f"a source that is watched without reading its rows: {' or '.join(FILES)}"
    require(is_watched, expected, spec.source.kind, "updates")
    if spec.per_month is not None and spec.delta is None:
        largest = max(spec.partitions) + (spec.evaluation or Fraction(0))
        expected = f"a per_month of at least {epsilon_text(largest)} for one release"
        require(largest <= spec.per_month, expected, epsilon_text(spec.per_month), "ceiling")
    _require_ceiling(spec)


def _require_ceiling(spec: DatasetSpec) -> None:
    """Raise FieldError if sensitive rows have no ceiling, or one in ε below ``cost_of_everything``.

    With ``within: window`` it is the ceiling of each window. One in ρ is compared by
    ``models.build_model``; that of a benchmark only if the benchmark has windows.
    """
    by_window = spec.within == "window"
    limit, name = (spec.each_window, "an each_window") if by_window else (spec.ceiling, "a total")
    if limit is None:
        require(not spec.is_release, f"{name} for data to be released", "nothing", "ceiling")
        return
    if spec.is_release or spec.windows:
        # A cost in ρ depends on the model: ``models.build_model`` adds it up.
        cost = spec.cost_of_everything
        purpose = "all publications of each window" if spec.windows else "all models at all ε"
        expected = f"{name} of at least {epsilon_text(cost)} for {purpose}{spec.extras}"
        is_enough = spec.delta is not None or cost <= limit
        require(is_enough, expected, epsilon_text(limit), "ceiling")


def load_spec(path: Path) -> DatasetSpec:
    """Return the declaration of a data set file; DeclarationError with the first wrong line."""
    document = Document.read(path)
    with locate_errors(document):
        if "format" in document.texts:
            # Checked first: the fields of another format may mean something else.
            with below("format"):
                Format.read(document.texts["format"])
        texts = with_levels_of_files(document.texts, path.parent)
        return DataSetFile.model_validate(texts).spec(path)
