"""DatasetSpec: everything that is public about one data set, declared before anyone looks.

KAnonymity: which k-anonymous releases of a data set are made, declared before anyone looks.

Target: a question about a row that a classifier answers from the row's other attributes.

DeclaredExpectation: what rows should be like, in Great Expectations' words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text, parse_epsilon
from dp_pipeline.config.clock import Signs
from dp_pipeline.config.discovered import (
    Discover,
    DiscoveredDomain,
    declared,
    discovery_words,
    widest,
)
from dp_pipeline.config.domain import Domain, OneRow, Protection, Relation, distance
from dp_pipeline.config.encoding import COORDINATE_BITS, Point
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Source
from dp_pipeline.config.windows import Windows, Within

PARTITIONS = (0, 2, 5, 10, 20, 50)
"""The K of the papers."""


@dataclass(frozen=True)
class KAnonymity:
    """The k-anonymous releases of one data set: a syntactic promise, not a private one.

    methods           method → its parameters, as text; what there is, only ``anonymity`` knows
    attributes        the quasi-identifiers: what is known of a person from elsewhere
    partitions        the K that may be asked for, ascending; 0 and 1 promise nothing
    sensitive_label   whether a row's label is what nobody should learn
    diversity         different labels that every class must have, whichever the method;
                      None: the method's own rule
    suppress          most rows that may be left out of a release to keep the promise, as a share
    seed              of the methods that draw

    >>> KAnonymity({"kjig": {}}, ("age", "job")).partition("5")
    5
    """

    methods: Mapping[str, Mapping[str, str]]
    attributes: tuple[str, ...]
    partitions: tuple[int, ...] = PARTITIONS
    sensitive_label: bool = True
    diversity: int | None = None
    suppress: Fraction = Fraction(0)
    seed: int = 0

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Canonical texts of the K, ascending."""
        return tuple(map(str, self.partitions))

    def partition(self, text: str) -> int:
        """The listed K that ``text`` names; DeclarationError if it is not listed."""
        k = parse_k(text)
        if k not in self.partitions:
            raise DeclarationError(f"K: expected one of {', '.join(self.partition_keys)}, got {k}")
        return k


def parse_k(text: str) -> int:
    """Read K; DeclarationError unless ``text`` is a whole number of at most nine digits.

    >>> parse_k("20")
    20
    """
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise DeclarationError(f"K: expected a whole number from 0 to 999999999, got {text[:60]!r}")
    return int(text)


@dataclass(frozen=True)
class Target:
    """Whether a row's level of one attribute is among some of its levels.

    attribute   an attribute with levels
    positive    the levels that mean yes: at least one, and not all
    without     attributes that classifiers must not see, because they say the same in other words
    """

    attribute: str
    positive: tuple[str, ...]
    without: tuple[str, ...] = ()

    def codes(self, domain: Domain) -> tuple[int, ...]:
        """Codes of the positive levels, ascending.

        >>> from dp_pipeline.config.domain import Attribute
        >>> from dp_pipeline.config.encoding import Levels
        >>> pet = Attribute("pet", "pet", "drop", cells=Levels(("cat", "dog", "none")))
        >>> Target("pet", ("dog", "cat")).codes(Domain((pet,)))
        (0, 1)
        """
        known = domain[self.attribute].labels()
        if not set(self.positive) <= set(known):
            raise DeclarationError(
                f"target {self.attribute!r}: expected levels of the attribute, got another"
            )
        return tuple(sorted(known.index(level) for level in self.positive))

    def inputs(self, attributes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the attributes that classifiers may see."""
        hidden = {self.attribute, *self.without}
        return tuple(name for name in attributes if name not in hidden)

    def asked_of(
        self, codes: Mapping[str, NDArray[Any]], domain: Domain
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """What a classifier sees of a table of codes, and the right answers (rows,)."""
        seen = {name: codes[name] for name in self.inputs(tuple(codes))}
        return seen, np.isin(codes[self.attribute], self.codes(domain))


Argument = float | int | bool | str | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class DeclaredExpectation:
    """One expectation of a data set file.

    type         the library's own name
    columns      argument that names a column → attribute, or the person's column
    arguments    argument → value, beside the columns
    mostly       share of the values that have to be as expected
    is_critical  whether its failure stops rows of a benchmark; never sensitive ones
    name         what tells it from another one of the same type and columns; may be empty
    """

    type: str
    columns: Mapping[str, str]
    arguments: Mapping[str, Argument]
    mostly: Fraction = Fraction(1)
    is_critical: bool = False
    name: str = ""


Purpose = Literal["benchmark", "release"]

WINDOW = "window"
"""The fact of a bundle, and of a charge, that names the window whose rows it is of."""


@dataclass(frozen=True)
class Publication:
    """What the schedule publishes: one model at one ε.

    span   how many windows each release is of; the last of them is the one that it belongs to
    """

    model: str
    epsilon: Fraction
    span: int = 1


@dataclass(frozen=True)
class DatasetSpec:
    """One data set file, as it was read; what each field of it is for, ``parser.DataSetFile`` says.

    population        the population of persons; one privacy account each
    purpose        ``benchmark``: public rows, exact metrics are shown;
                   ``release``: sensitive rows, only private numbers leave
    protection, relation   what neighbouring data sets differ by
    ceiling        most ε that the population may ever spend, at ``delta`` if there is one;
                   None on benchmarks only
    source, domain what is read, and as what
    one_hot        whether the codes are also stored as bits
    nominal_rows   a number of rows to plan with: a constant of the file, never counted
    partitions     the ε that may be asked for, ascending
    models         model name → its parameters, as text
    publish        what schedules and sensors publish, or None
    evaluation     ε of private quality numbers with every release, or None
    distinct_population   why a source shared with another population is other persons
    label          the attribute whose level is a row's true class, for evaluation, or None
    delta          the δ of a population that pays in ρ of zero-concentrated DP; None: in pure ε
    targets        what classifiers learned from synthetic rows are asked, for evaluation
    k_anonymity    the k-anonymous releases, or None; they measure nothing that the digest names
    allow_not_dp   whether sensitive rows may be released under a promise that is no privacy:
                   k-anonymity
    per_month      most ε of one calendar month (UTC), under ``ceiling`` and counted as it is; None:
                   any amount
    refresh        ``weekly``: the schedule opens a new snapshot each ISO week, whether or not a
                   row changed, and pays for what it publishes; None: the current one stays
    updates_public whether the moment at which the rows change may be seen by anyone
    owners         who answers for the data set, as Dagster writes it: an e-mail address or
                   ``team:NAME``
    usable         share of the rows that checks on rows want to have a person's id; of attributes
                   that say nothing else it is theirs too
    expectations   those that the user declares in Great Expectations' words
    point          the attributes that a map draws to the right and upwards, or None: their names
                   decide. It changes no release
    discover       what the looks at the rows that discover a domain may cost, or None
    ceiling_delta  most δ that discoveries of levels may ever cost; None: that of one of them
    discovered     what they have found and ``domain`` has been given; None before, and where every
                   attribute was declared
    as_written     ``digest`` of the file itself, where ``domain`` was discovered; else empty
    windows        how the rows are cut by their time, each part with a budget of its own, or None
    window         the name of the one that this declaration is about; empty: all of them
    within         what is promised of windows: a person's rows of one, or all of hers; None without
    each_window    most ε of one window, or None
    publications   what is released of each window
    """

    name: str
    title: str
    description: str
    population: str
    purpose: Purpose
    protection: Protection
    relation: Relation
    ceiling: Fraction | None
    source: Source
    domain: Domain
    one_hot: bool
    nominal_rows: int | None
    partitions: tuple[Fraction, ...]
    models: Mapping[str, Mapping[str, str]]
    publish: Publication | None
    evaluation: Fraction | None
    distinct_population: str | None
    label: str | None = None
    delta: Fraction | None = None
    targets: tuple[Target, ...] = ()
    k_anonymity: KAnonymity | None = None
    allow_not_dp: bool = False
    per_month: Fraction | None = None
    refresh: Literal["weekly"] | None = None
    updates_public: bool = False
    owners: tuple[str, ...] = ()
    usable: Fraction = Fraction(1)
    expectations: tuple[DeclaredExpectation, ...] = ()
    point: Point | None = None
    discover: Discover | None = None
    ceiling_delta: Fraction | None = None
    discovered: DiscoveredDomain | None = None
    as_written: str = ""
    windows: Windows | None = None
    window: str = ""
    within: Within | None = None
    each_window: Fraction | None = None
    publications: tuple[Publication, ...] = ()

    @classmethod
    def of_domain(cls, name: str, domain: Domain, **declared: Any) -> DatasetSpec:
        """The declaration of a table of which nothing but columns is said, for whoever reads one
        without a file: a first look, an estimator. A row is a person.

        declared   what else is said
        """
        undeclared = ("ceiling", "nominal_rows", "publish", "evaluation", "distinct_population")
        standard: dict[str, Any] = dict.fromkeys(undeclared)
        standard |= dict.fromkeys(("title", "description", "population"), name)
        standard |= {"source": Source("csv", name), "purpose": "benchmark", "models": {}}
        standard |= {"protection": OneRow(), "relation": "add_remove", "one_hot": False}
        return cls(**{**standard, "partitions": (), "name": name, "domain": domain, **declared})

    def __repr__(self) -> str:
        window = f", window {self.window}" if self.window else ""
        return (
            f"Data set {self.name}{window}: {', '.join(self.domain.names)}; {self.purpose} of "
            f"population {self.population}, protects {self.protection}; "
            f"models {', '.join(self.models)} at ε = {', '.join(self.partition_keys)}"
        )

    def at_window(self, name: str) -> DatasetSpec:
        """The same declaration about the rows of one window; DeclarationError where rows are not
        cut so, or for a window that there is not.
        """
        cut = self.cut
        ends = cut.start(cut.require(name)), cut.end(name)
        source = self.source.whole or self.source
        return replace(self, window=name, source=source.of_window(name, *ends))

    def of_all_windows(self) -> DatasetSpec:
        """The same declaration about no window in particular."""
        return replace(self, window="", source=self.source.whole or self.source)

    @property
    def cut(self) -> Windows:
        """How the rows are cut by their time; DeclarationError where they are not."""
        if self.windows is None:
            raise DeclarationError(f"{self.name}: expected declared `windows`, got none")
        return self.windows

    def require_window(self) -> None:
        """DeclarationError where rows are cut and this is about none of their windows: then there
        is nothing to be read.
        """
        if self.windows is not None and not self.window:
            raise DeclarationError(
                f"{self.name}: expected one of its windows, such as {self.windows.first}, got none"
            )

    @property
    def blocks(self) -> tuple[str, ...]:
        """The windows that a charge of this declaration is for; none where rows are not cut."""
        return (self.window,) if self.window else ()

    def span_of(self, model: str) -> int:
        """How many windows a release of a model is of, as it is published."""
        return next((one.span for one in self.publications if one.model == model), 1)

    @property
    def most_span(self) -> int:
        """Windows of the release that is of most of them, as they are published."""
        return max((one.span for one in self.publications), default=1)

    @property
    def first_published(self) -> str:
        """The first window of which all that is declared can be published: there are as many before
        it as a release of several needs.
        """
        name = self.cut.first
        for _ in range(1, self.most_span):
            name = self.cut.following(name)
        return name

    @property
    def to_discover(self) -> tuple[str, ...]:
        """Names of attributes of which something is not declared; none once it was discovered."""
        return tuple(one.name for one in self.domain if one.undeclared is not None)

    def with_domain(self, discovered: DiscoveredDomain) -> DatasetSpec:
        """The same declaration with what was discovered as if it were declared.

        discovered   one entry for each of ``to_discover``, and no other

        DeclarationError for other entries. The digest says what was discovered, so releases
        over two discovered domains have different keys.
        """
        if sorted(discovered.names) != sorted(self.to_discover):
            wanted, got = ", ".join(self.to_discover), ", ".join(discovered.names)
            raise DeclarationError(
                f"{self.name}: expected a discovered domain of {wanted or 'no attribute'}, got one "
                f"of {got or 'none'}"
            )
        found = {name: declared(self.domain[name], discovered[name]) for name in discovered.names}
        domain = self.domain.replaced(found)
        return replace(self, domain=domain, discovered=discovered, as_written=self.digest)

    @cached_property
    def widest(self) -> DatasetSpec:
        """The same declaration where everything to be discovered has the most cells that may be
        found: for sizes, prices and the build of models before the look. Its names and bounds
        mean nothing. Where nothing is to be discovered, the declaration itself.
        """
        if not self.to_discover:
            return self
        return self.with_domain(widest(self.domain[name] for name in self.to_discover))

    @property
    def delta_ceiling(self) -> Fraction | None:
        """Most δ that the population's charges may ever have of their own; None where none has."""
        return self.ceiling_delta or (self.discover.delta if self.discover else None)

    @property
    def discovered_fact(self) -> dict[str, str]:
        """The fact of a release that says what of its domain was discovered, and for how much;
        nothing where all of it was declared.
        """
        if self.discovered is None or self.discover is None:
            return {}
        return {"discovered_for": discovery_words(self.discovered.names, self.discover)}

    @property
    def constraints_fact(self) -> dict[str, str]:
        """The fact of a release that says which constraints its rows keep; nothing without any."""
        words = "; ".join(one.words for one in self.domain.constraints)
        return {"constraints": words} if words else {}

    @property
    def rows_digest(self) -> str:
        """The digest under which rows were read and validated: that of the file as written, since
        nothing was discovered before that.
        """
        return self.as_written or self.digest

    @property
    def currency(self) -> Currency:
        """What the population pays in."""
        return Currency(self.delta)

    @property
    def distance(self) -> int:
        """Rows that two neighbouring data sets differ by, at most."""
        return distance(self.protection, self.relation)

    @property
    def is_release(self) -> bool:
        """Whether the rows are sensitive."""
        return self.purpose == "release"

    @property
    def may_watch_source(self) -> bool:
        """Whether the moment at which the rows change may decide when something is released."""
        return self.updates_public or not self.is_release

    @property
    def columns(self) -> tuple[str, ...]:
        """Source columns that are read: the attributes', those that they are derived from, and the
        person's if there is one.
        """
        person = self.protection.column
        attributes = tuple(column for attribute in self.domain for column in attribute.inputs)
        time = () if self.windows is None else (self.windows.column,)
        return (*attributes, *time) if person is None else (*attributes, *time, person)

    def signs_of(self, column: str) -> tuple[Signs, ...]:
        """How numbers in a column of the source are read, by each attribute that reads them."""
        return tuple(
            one.signs if one.derived is None else one.derived.signs
            for one in self.domain
            if column in one.inputs and one.reads_numbers
        )

    @property
    def times(self) -> frozenset[str]:
        """Columns of the source that are read as dates or times, and as nothing else."""
        read = {(column, one.reads_times) for one in self.domain for column in one.inputs}
        if self.windows is not None:
            read.add((self.windows.column, True))
        return frozenset(
            column for column, is_time in read if is_time and (column, False) not in read
        )

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Canonical texts of the ε partitions, ascending."""
        return tuple(epsilon_text(epsilon) for epsilon in self.partitions)

    @property
    def cost_of_everything(self) -> Fraction:
        """Σ over models × partitions of the ε of a release and of its evaluation, and the ε of one
        discovery, where the population pays in pure ε; what a model costs in ρ, only models know.
        Where rows are cut into windows, of what is published of one: a release of several is one
        of each of them.
        """
        evaluation = self.evaluation or Fraction(0)
        discovery = self.discover.epsilon if self.discover else Fraction(0)
        if self.windows is not None:
            paid = ((one.epsilon + evaluation) * one.span for one in self.publications)
            return sum(paid, discovery)
        once = sum((epsilon + evaluation for epsilon in self.partitions), Fraction(0))
        return once * len(self.models) + discovery

    def charge_for(self, amount: Fraction) -> Fraction:
        """What one release costs in the population's currency: its own amount and its evaluation's,
        which is paid for in pure ε.
        """
        return amount + self.currency.cost_of(self.evaluation or Fraction(0), PURE)

    def partition(self, text: str) -> Fraction:
        """The listed ε that ``text`` names; DeclarationError if it is not listed."""
        epsilon = parse_epsilon(text, of=f"{self.name}: epsilon")
        if epsilon not in self.partitions:
            raise DeclarationError(
                f"{self.name}: expected ε from {', '.join(self.partition_keys)}, "
                f"got {epsilon_text(epsilon)}: list it under `partitions` to release at it"
            )
        return epsilon

    @cached_property
    def digest(self) -> str:
        """Hex digest of every declaration that changes what is measured. Kept: every asset of a
        chain says it.

        Two releases with one digest, one snapshot and one question are the same release.
        """
        # Only a private evaluation asks the rows about a label and targets.
        is_evaluated = self.evaluation is not None
        measured = {
            "attributes": [attribute.measured for attribute in self.domain],
            "protection": str(self.protection),
            "relation": self.relation,
            "coordinate_bits": COORDINATE_BITS,
            "label": self.label if is_evaluated else None,
            "targets": [asdict(target) for target in self.targets if is_evaluated],
            "delta": None if self.delta is None else delta_text(self.delta),
            # Rows that break one are left out.
            "constraints": [one.measured for one in self.domain.constraints],
            "windows": None if self.windows is None else self.windows.measured,
            "discover": None if self.discover is None else self.discover.to_facts(),
            "discovered": None if self.discovered is None else self.discovered.digest,
        }
        return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()

    @cached_property
    def checks(self) -> str:
        """Hex digest of what is declared of checks on rows alone, which changes nothing that is
        measured; empty where nothing is.
        """
        shares = {one.name: str(one.usable) for one in self.domain if one.usable != 1}
        if not shares and self.usable == 1 and not self.expectations:
            return ""
        declared = [shares, str(self.usable), [asdict(one) for one in self.expectations]]
        text = json.dumps(declared, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()
