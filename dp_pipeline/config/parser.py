"""What a data set file may say, stated once: for the parser, and for the JSON Schema of editors.

YAML in; a DatasetSpec out, or one line about the mistake with file, line and field. What one
section says is checked by its class; what needs more than one, or the purpose, by
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
from dp_pipeline.config.discovered import BETA, Discover
from dp_pipeline.config.domain import Domain, OneRow, Protection, RowsOfPerson
from dp_pipeline.config.encoding import Levels, Point
from dp_pipeline.config.errors import DeclarationError, Refused, did_you_mean
from dp_pipeline.config.fields import OneForm, a_mapping, below, not_among, placed, require
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.config.reading_parser import (
    AS_IT_IS,
    DeriveSection,
    Expectations,
    ReadingSection,
    WindowsSection,
    declared_expectations,
)
from dp_pipeline.config.source import Sample, Source
from dp_pipeline.config.source_parser import AnySource, source_of
from dp_pipeline.config.windows import MOST_TOGETHER, Within
from dp_pipeline.config.yaml_text import Document

WATCHED = ("csv", "parquet")
"""Kinds of sources that say by themselves whether they changed: files, here or behind a URL."""


class WholeRow(fields.Section):
    """Nobody has more than one row."""

    unit: Literal["one_row"]


class Person(fields.Section):
    """All rows with one value of a column are one person.

    column   Whose value names the person.
    at_most  Rows of one person that count; of one window, where rows are cut.
    within   What is promised of windows: a person's rows of one `window`, or of all, for `ever`.
    """

    unit: Literal["rows_of_person"]
    column: fields.Text
    at_most: fields.Count
    within: Within | None = None


def _protection(value: object) -> WholeRow | Person:
    section, units = a_mapping(value), ("one_row", "rows_of_person")
    if section.get("unit") not in units:
        raise not_among(section.get("unit"), units, field=("unit",))
    return (WholeRow if section["unit"] == "one_row" else Person).model_validate(section)


class Ceiling(fields.Section):
    """The most ε that these persons may ever cost.

    total        For ever, over all models, partitions and snapshots.
    each_window  Of one window, where rows are cut.
    per_month    In one calendar month.
    delta        Of all discoveries of levels together, for ever; that of one of them if not said.
    """

    total: fields.Epsilon | None = None
    each_window: fields.Epsilon | None = None
    per_month: fields.Epsilon | None = None
    delta: Annotated[Fraction, fields.Scalar(parse_delta, "δ", fields.NUMBER)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Ceiling:
        require(self.total or self.each_window, "a value", "nothing", "total")
        for name in ("per_month", "each_window"):
            part = getattr(self, name)
            if self.total is not None and part is not None:
                expected = f"at most the total, {epsilon_text(self.total)}"
                require(part <= self.total, expected, epsilon_text(part), name)
        return self


class TargetSection(fields.Section):
    """Which levels of an attribute a classifier is to tell from the others.

    positive  The levels that mean yes: some, but not all.
    without   Attributes that classifiers must not see, because they say the same in other words.
    """

    positive: Annotated[fields.Listed[fields.Item], fields.array(fields.TEXT, minItems=1)]
    without: fields.Listed[fields.Item] = ()


class Evaluation(fields.Section):
    """Buys private numbers of quality with each release.

    epsilon  What they cost, on top of each release.
    """

    epsilon: fields.Epsilon


class DiscoverSection(fields.Section):
    """What looks that discover levels, bounds and quantiles may cost, once a snapshot.

    epsilon  Of all of them together, on top of each release.
    delta    Of all discovered levels together; bounds and quantiles need none.
    beta     The chance that noise puts a bound where no row is.
    """

    epsilon: fields.Epsilon
    delta: Annotated[Fraction, fields.Scalar(parse_delta, "δ", fields.NUMBER)] | None = None
    beta: Annotated[Fraction, fields.Scalar(parse_delta, "β", fields.NUMBER)] = BETA

    def declared(self, domain: Domain) -> Discover:
        """What may be spent; Refused for a domain that leaves nothing, or no levels, to discover,
        and for one that leaves levels without a δ.
        """
        wanted = {one.name: one.undeclared for one in domain if one.undeclared is not None}
        require(wanted, "an attribute that says `discover` or `quantiles`", "none")
        texts = [name for name, one in wanted.items() if one.levels is not None]
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
    span     How many windows one release is of, where rows are cut: the last of them and those
             before it.
    """

    model: fields.Text
    epsilon: fields.Epsilon
    span: fields.Count = 1


def _publications(value: object) -> tuple[PublishSection, ...]:
    """One, or a list of them: of each window, where rows are cut."""
    listed = value if isinstance(value, (list, tuple)) else [value]
    found = []
    for at, one in enumerate(listed):
        with below(*((at,) if listed is value else ())):
            found.append(PublishSection.model_validate(a_mapping(one)))
    return tuple(found)


def _suppressed(text: str) -> Fraction | None:
    return Fraction(text) if re.fullmatch(r"0|0?\.[0-9]{1,9}", text) else None


def _owner(text: str) -> str | None:
    form = r"team:\S+|[A-Za-z0-9][\w.%+-]*@([A-Za-z0-9-]+\.)+[A-Za-z]{2,7}"
    return text if re.fullmatch(form, text, re.ASCII) else None


def _format(text: str) -> int:
    require(text == str(FORMAT), str(FORMAT), f"{text[:9]!r}")
    return FORMAT


Format = fields.Scalar(_format, str(FORMAT), {"enum": [FORMAT, str(FORMAT)]})
Parameters = fields.Named[fields.Named[fields.Text]]
"""Model or method → its parameters; the schema lists those that there are."""


class KAnonymitySection(fields.Section):
    """k-anonymous tables, without any ε.

    methods          How tables are made k-anonymous.
    attributes       Those released beside the label, with spaces between them.
    partitions       The K that may be asked for.
    sensitive_label  Whether a row's label is what nobody should learn.
    diversity        Different labels in each class.
    suppress         Share of the rows that may be left out.
    seed             Of the methods that draw.
    """

    methods: Parameters
    attributes: fields.Text | None = None
    partitions: (
        Annotated[fields.Listed[fields.Item], fields.array(fields.whole(0).schema, minItems=1)]
        | None
    ) = None
    sensitive_label: fields.Switch = True
    diversity: fields.Count | None = None
    suppress: Annotated[
        Fraction, fields.Scalar(_suppressed, "a decimal number from 0 to below 1", fields.NUMBER)
    ] = Fraction(0)
    seed: fields.Index = 0

    def declared(self, domain: Domain, label: str, *, is_release: bool) -> KAnonymity:
        """The releases, in the order of the file.

        label        the attribute that is predicted: it is released, and no quasi-identifier
        is_release   whether rows are sensitive: then every K has to promise something; so do those
                     that go without saying

        Refused for attributes without cells, and for more different labels in a class than there
        are.
        """
        require(self.methods, "at least one method", "none", "methods")
        cells = [one.name for one in domain if one.has_cells]
        known, most = tuple(one for one in cells if one != label), domain[label].size
        names = known if self.attributes is None else tuple(self.attributes.split())
        unknown = next((name for name in names if name not in known), "")
        expected = f"attributes with cells, each once: {', '.join(known) or 'there is none'}"
        is_good = names and len(set(names)) == len(names) and not unknown
        got, near = ", ".join(names) or "none", did_you_mean(unknown, known)
        require(is_good, expected, got, "attributes", hint=near)
        is_possible = self.diversity is None or self.diversity <= most
        expected = f"at most the label's {most} levels"
        require(is_possible, expected, str(self.diversity), "diversity")
        partitions = self._partitions(2 if is_release else 0)
        return KAnonymity(**{**dict(self), "attributes": names, "partitions": partitions})

    def _partitions(self, least: int) -> tuple[int, ...]:
        if self.partitions is None:
            return tuple(k for k in PARTITIONS if k >= least)
        try:
            found = tuple(map(parse_k, self.partitions))
        except DeclarationError:
            found = ()
        expected = f"ascending K of at least {least}, each once, at least one"
        is_good = found and list(found) == sorted(set(found)) and found[0] >= least
        require(is_good, expected, ", ".join(self.partitions) or "none", "partitions")
        return found


class DataSetFile(fields.Section):
    """A data set file of dp_pipeline.

    format               Of what is written here; absent means 1.
    name                 The name of this file.
    title                For people, in place of the name.
    description          For people.
    population              Persons under one privacy account, for ever.
    purpose              Public rows, or sensitive ones.
    protection           What one person is.
    relation             What neighbouring data sets differ by.
    ceiling              The most ε that these persons may ever cost.
    source               Where the rows are.
    on_invalid           What becomes of a number outside of its bounds.
    reading              How cells are read: decimal comma, words for nothing, zone.
    derive               Columns that are a public function of one row.
    windows              Rows cut by their time, each window with a budget of its own.
    attributes           The columns that are read, each a number, a category, a date or a time.
    constraints          What of several columns there is together in one row.
    usable               Which share of the rows checks want to be as declared.
    expectations         More checks on rows, in Great Expectations' words.
    point                What a map draws to the right and upwards: [longitude, latitude].
    one_hot              Whether codes are stored as bits too.
    label                The attribute with the true classes.
    targets              What classifiers learn from a synthetic table.
    nominal_rows         A number of rows to plan with; need not be true.
    partitions           The ε that may be asked for, ascending.
    models               What is released.
    publish              What the schedule publishes: one model, or a list of them for each window.
    refresh              The schedule opens a new snapshot each week, and pays.
    updates              When the rows change may be seen by anyone.
    evaluation           Buys private numbers of quality with each release.
    owners               E-mail addresses, or team:NAME.
    distinct_population  Why a shared source is about other persons.
    delta                The δ of a population that pays in ρ.
    k_anonymity          k-anonymous tables, without any ε.
    allow_not_dp         Sensitive rows may be released under a promise without an ε.
    discover             What it may cost to discover what attributes leave open.
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
    protection: Annotated[WholeRow | Person, OneForm(WholeRow | Person, _protection)]
    relation: Literal["add_remove", "replace_one"] = "add_remove"
    ceiling: Ceiling | None = None
    source: AnySource
    on_invalid: Literal["clip", "drop"] = "clip"
    reading: ReadingSection = AS_IT_IS
    derive: fields.Named[DeriveSection] = Field(default_factory=dict)
    windows: WindowsSection | None = None
    attributes: Annotated[
        dict[fields.Name, AnyAttribute],
        BeforeValidator(a_mapping),
        Field(json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    ]
    constraints: ConstraintsSection | None = None
    usable: fields.Share = Fraction(1)
    expectations: Expectations = ()
    point: Annotated[fields.Listed[fields.Item], fields.pair(fields.TEXT)] | None = None
    one_hot: fields.Switch = False
    label: fields.Text | None = None
    targets: fields.Named[TargetSection] = Field(default_factory=dict)
    nominal_rows: fields.Count | None = None
    partitions: fields.Several[fields.Epsilon]
    models: Parameters
    publish: (
        Annotated[
            tuple[PublishSection, ...],
            OneForm(PublishSection | tuple[PublishSection, ...], _publications),
        ]
        | None
    ) = None
    refresh: Literal["weekly"] | None = None
    updates: Literal["public"] | None = None
    evaluation: Evaluation | None = None
    owners: fields.Several[
        Annotated[str, fields.Scalar(_owner, "an e-mail address or team:NAME", fields.TEXT)]
    ] = ()
    distinct_population: fields.Text | None = None
    delta: Annotated[Fraction, fields.Scalar(parse_delta, "δ", fields.NUMBER)] | None = None
    k_anonymity: KAnonymitySection | None = None
    allow_not_dp: fields.Switch = False
    discover: DiscoverSection | None = None

    def spec(self, path: Path) -> DatasetSpec:
        """What the file ``path`` declares; Refused for fields that do not go together."""
        is_release = self.purpose == "release"
        require(self.name == path.stem, "the file's own name", repr(self.name), "name")
        require(self.attributes, "at least one attribute", "none", "attributes")
        require(self.models, "at least one model", "none", "models")
        is_ascending = list(self.partitions) == sorted(set(self.partitions))
        listed = ", ".join(map(epsilon_text, self.partitions))
        require(is_ascending, "ascending ε, each once, at least one", listed, "partitions")
        is_once = len(set(self.owners)) == len(self.owners)
        require(is_once, "one or more, each once", str(len(self.owners)), "owners")
        domain = self._domain()
        protection: Protection = OneRow()
        if isinstance(self.protection, Person):
            each = self.windows.every if self.windows else ""
            protection = RowsOfPerson(self.protection.column, self.protection.at_most, each)
        if self.label is not None:
            _require_nominal(self.label, domain, "label")
        if self.k_anonymity is not None:
            self._require_k_anonymous(domain, protection)
        alike = {name: one for name, one in self if name in DatasetSpec.__dataclass_fields__}
        different = {
            "title": self.title or self.name,
            "protection": protection,
            "ceiling": self.ceiling.total if self.ceiling else None,
            "source": self._source(path.parent, domain),
            "domain": domain,
            **self._windows(),
            **self._published(),
            "evaluation": self.evaluation.epsilon if self.evaluation else None,
            "targets": tuple(_target(name, one, domain) for name, one in self.targets.items()),
            "k_anonymity": self._k_anonymity(domain),
            "per_month": self.ceiling.per_month if self.ceiling else None,
            "ceiling_delta": self.ceiling.delta if self.ceiling else None,
            "updates_public": self.updates is not None,
            "expectations": declared_expectations(
                self.expectations, domain, protection.column, is_release=is_release
            ),
            "point": self._point(domain),
            "discover": self._discover(domain),
        }
        spec = DatasetSpec(**{**alike, **different})
        _require_together(spec)
        return spec

    def _published(self) -> dict[str, Any]:
        """What the schedule publishes: of the current rows, or of each window."""
        made = tuple(Publication(**dict(one)) for one in self.publish or ())
        most = max((one.span for one in made), default=1)
        expected = "no span of several windows where rows are not cut by `windows`"
        require(most == 1 or self.windows is not None, expected, str(most), "publish", "span")
        expected = f"a span of at most {MOST_TOGETHER} windows"
        require(most <= MOST_TOGETHER, expected, str(most), "publish", "span")
        # The noise hides a person's rows of one window; what hides those of m costs ρ m² times.
        expected = "no span of several windows beside `delta`, as ρ of windows do not add up"
        require(most == 1 or self.delta is None, expected, str(most), "publish", "span")
        if self.windows is not None:
            expected, models = "a list of models, each once", [one.model for one in made]
            is_once = made and len(set(models)) == len(models)
            require(is_once, expected, ", ".join(models) or "none", "publish")
            return {"publish": None, "publications": made}
        require(len(made) < 2, "one model, as rows are not cut by `windows`", "several", "publish")
        return {"publish": made[0] if made else None}

    def _windows(self) -> dict[str, Any]:
        """How rows are cut, and what is promised of it; Refused for what does not go with it."""
        within = getattr(self.protection, "within", None)
        each = self.ceiling.each_window if self.ceiling else None
        if self.windows is None:
            is_plain = within is None
            require(is_plain, "no `within` where rows are not cut", "one", "protection", "within")
            require(each is None, "no limit of a window where rows are not cut", "one", "ceiling")
            return {"windows": None}
        with below("windows"):
            windows = self.windows.declared(self.reading)
        is_added = self.relation == "add_remove"
        expected = "add_remove beside `windows`: a row that is replaced may be of another window"
        require(is_added, expected, self.relation, "relation")
        for name in ("refresh", "updates", "k_anonymity", "discover"):
            said = getattr(self, name) is not None
            require(not said, f"no `{name}` beside `windows`", "one", name)
        if isinstance(self.protection, Person):
            expected = "window or ever, which says whose rows are protected together"
            require(within, expected, "nothing", "protection", "within")
        return {"windows": windows, "within": within or "window", "each_window": each}

    def _domain(self) -> Domain:
        derived = {name: one.derived(self.reading) for name, one in self.derive.items()}
        attributes = []
        for name, one in self.attributes.items():
            with below("attributes", name):
                made = one.attribute(name, self.on_invalid, self.reading)
                function = derived.get(made.column)
                is_known = function is None or made.clock is None
                require(is_known, "levels or bounds of numbers: it is derived", "a type", "type")
            attributes.append(replace(made, usable=one.usable or self.usable, derived=function))
        read = {one.column for one in attributes}
        for name, function in derived.items():
            require(name in read, f"an attribute on the column {name!r}", "none", "derive", name)
            is_plain = derived.keys().isdisjoint(function.inputs)
            require(is_plain, "columns of the source", "a derived one", "derive", name)
        domain = Domain(tuple(attributes))
        if self.constraints is None:
            return domain
        with below("constraints"):
            return replace(domain, constraints=self.constraints.declared(domain))

    def _source(self, folder: Path, domain: Domain) -> Source:
        with below("source"):
            source = source_of(self.source, folder, is_release=self.purpose == "release")
            sample = getattr(self.source, "sample", None)
            if sample is None:
                return source
            # A row's place in a sample depends on the other rows, so no protection would hold.
            is_public = self.purpose != "release"
            require(is_public, "every row of sensitive data", "a sample of them", "sample")
            _require_nominal(sample.by, domain, "sample", "by")
            return replace(source, sample=Sample(**dict(sample)))

    def _require_k_anonymous(self, domain: Domain, protection: Protection) -> None:
        """What has to stand beside ``k_anonymity``: a label, one row a person, and on sensitive
        rows a word that this is no privacy.
        """
        field, label = "k_anonymity", self.label or ""
        require(label, "a `label` beside it, for rows to predict", "none", field)
        expected = "a label that is never missing: a missing one would pass for another label"
        require(not domain[label].nullable, expected, f"{label} with `nullable: true`", field)
        expected = "at most one row of a person beside it, for K rows to be K persons"
        require(protection.rows == 1, expected, str(protection), field)
        expected = "`allow_not_dp: true` for k-anonymous releases of sensitive rows"
        got = "false" if "allow_not_dp" in self.model_fields_set else "none"
        require(self.allow_not_dp or self.purpose != "release", expected, got, field)

    def _k_anonymity(self, domain: Domain) -> KAnonymity | None:
        if self.k_anonymity is None:
            return None
        with below("k_anonymity"):
            is_release = self.purpose == "release"
            return self.k_anonymity.declared(domain, self.label or "", is_release=is_release)

    def _discover(self, domain: Domain) -> Discover | None:
        if self.discover is not None:
            with below("discover"):
                return self.discover.declared(domain)
        open_ = ", ".join(one.name for one in domain if one.undeclared is not None)
        expected = f"what discovering {open_} may cost: `discover: {{epsilon: 0.1}}`"
        require(not open_, expected, "nothing", "discover")
        return None

    def _point(self, domain: Domain) -> Point | None:
        """Two axes: what is no number, or may be missing, is no place."""
        if self.point is None:
            return None
        axes = ", ".join(domain.numeric) or "there is none"
        expected = f"[x, y], two attributes that are numbers and never missing: {axes}"
        is_place = len(self.point) == len({*self.point} & {*domain.numeric}) == 2
        require(is_place, expected, ", ".join(self.point) or "none", "point")
        return self.point[0], self.point[1]


def _require_nominal(name: str, domain: Domain, *field: str) -> None:
    """Classes are declared levels: bins of a number that is clustered would be no truth."""
    nominal = [one.name for one in domain if isinstance(one.cells, Levels)]
    if name not in nominal:
        raise not_among(name, nominal, expected="an attribute with levels", field=field)


def _target(name: str, section: TargetSection, domain: Domain) -> Target:
    _require_nominal(name, domain, "targets", name)
    positive, known = section.positive, domain[name].labels()
    is_part = positive and len(set(positive)) == len(positive) and set(positive) < set(known)
    expected, got = f"some but not all levels of {name}, each once", ", ".join(positive) or "none"
    require(is_part, expected, got, "targets", name, "positive")
    are_others = set(section.without) <= set(domain.discrete) - {name}
    expected, got = f"other attributes with cells than {name}", ", ".join(section.without)
    require(are_others, expected, got, "targets", name, "without")
    return Target(name, positive, section.without)


def _require_together(spec: DatasetSpec) -> None:
    """Refused for fields of a whole declaration that do not go together."""
    published = spec.publications or ((spec.publish,) if spec.publish else ())
    for one in published:
        expected = f"a model of {', '.join(spec.models)}"
        near = did_you_mean(one.model, spec.models)
        require(one.model in spec.models, expected, one.model, "publish", hint=near)
        expected = f"ε from {', '.join(spec.partition_keys)}"
        require(one.epsilon in spec.partitions, expected, epsilon_text(one.epsilon), "publish")
    if spec.refresh is not None and not published:
        raise Refused(
            "publish, which says what a new snapshot is for", "nothing", field=("refresh",)
        )
    person = spec.protection.column
    read = {column for attribute in spec.domain for column in attribute.inputs}
    is_apart = person is None or person not in read
    require(is_apart, f"no attribute on the person's column {person!r}", "one", "attributes")
    for column in sorted(read):
        is_one = len({*spec.signs_of(column)}) < 2
        require(is_one, f"one decimal sign of the column {column!r}", "two", "attributes")
    # A query has no stamp to watch: only its rows would tell that they changed.
    is_watched = not spec.updates_public or spec.source.kind in WATCHED
    expected = f"a source that is watched without reading its rows: {' or '.join(WATCHED)}"
    require(is_watched, expected, spec.source.kind, "updates")
    if spec.per_month is not None and spec.delta is None:
        largest = max(spec.partitions) + (spec.evaluation or Fraction(0))
        expected = f"a per_month of at least {epsilon_text(largest)} for one release"
        require(largest <= spec.per_month, expected, epsilon_text(spec.per_month), "ceiling")
    _require_ceiling(spec)


def _require_ceiling(spec: DatasetSpec) -> None:
    """Refused for sensitive rows without the limit that their promise needs, or with one that does
    not pay for what is declared.
    """
    by_window = spec.within == "window"
    most, name = (spec.each_window, "an each_window") if by_window else (spec.ceiling, "a total")
    if most is None:
        if spec.is_release:
            raise Refused(f"{name} for data to be released", "nothing", field=("ceiling",))
        return
    if not (spec.is_release or spec.windows):
        return
    # What is paid in ρ depends on the model: ``models.build_model`` adds that up.
    cost = spec.cost_of_everything
    what = "what is published of each window" if spec.windows else "all models and partitions"
    expected = f"{name} of at least {epsilon_text(cost)} for {what}"
    is_enough = spec.delta is not None or cost <= most
    require(is_enough, expected, epsilon_text(most), "ceiling")


def load_spec(path: Path) -> DatasetSpec:
    """Read one data set file.

    Raises DeclarationError naming file, line, field, what was expected and what was got.
    """
    document = Document.read(path)
    with placed(document):
        if "format" in document.texts:
            # First of all: the fields of another format may mean something else.
            with below("format"):
                Format.read(document.texts["format"])
        texts = with_levels_of_files(document.texts, path.parent)
        return DataSetFile.model_validate(texts).spec(path)
