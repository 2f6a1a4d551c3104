"""The public declaration of one data set, made before anyone sees a row."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

from dp_pipeline.config.about import NOTHING_SAID, AboutSection
from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text, parse_epsilon
from dp_pipeline.config.discovered_domain import (
    Discover,
    DiscoveredDomain,
    declare,
    discovery_words,
    widest_domain,
)
from dp_pipeline.config.domain import SIZE, Domain, Protection, Relation
from dp_pipeline.config.encoding import COORDINATE_BITS, Point
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.sections import DeclaredExpectation, KAnonymity, Publication, Target
from dp_pipeline.config.source import Source
from dp_pipeline.config.windows import Windows, Within

Purpose = Literal["benchmark", "release"]

WINDOW = "window"
"""Key of the fact of a bundle or charge that names the window of its rows."""


@dataclass(frozen=True)
class DatasetSpec:
    """The declaration of one data set file.

    purpose        ``benchmark`` for public rows, ``release`` for sensitive ones
    relation       difference of neighbouring data sets: ``add_remove`` or ``replace_one``
    models         model → its parameters, as text
    delta          δ of a population that pays in ρ; None: it pays in pure ε
    ceiling        most ε that the population may ever spend, at ``delta`` if there is one;
                   None on benchmarks only
    one_hot        whether the codes are also stored as bits
    nominal_rows   a declared number of rows to plan with, never counted
    publish        the model that schedules and sensors publish, or None; for windows
                   ``publications``
    evaluation     ε of private quality numbers with every release, or None
    k_anonymity    the k-anonymous releases, or None; they change no digest
    per_month      most ε of one calendar month (UTC), under ``ceiling``; None: any amount
    usable         share of the rows that checks require to have a person's id; also the default of
                   the attributes
    ceiling_delta  most δ that discoveries of levels may ever cost; None: of ten discoveries
    discovered     the discovered part of ``domain``; None before a discovery and without any
    file_digest    ``digest`` before ``domain`` was discovered; empty without a discovery
    window         name of the window that this declaration is about; empty: all of them
    within         whether a person's rows of one window are protected (``window``), or of all
                   (``ever``); None without windows
    each_window    most ε of one window, or None
    """

    name: str
    title: str
    description: str
    population: str
    purpose: Purpose
    protection: Protection
    relation: Relation
    source: Source
    domain: Domain
    partitions: tuple[Fraction, ...]
    models: Mapping[str, Mapping[str, str]]
    ceiling: Fraction | None = None
    one_hot: bool = False
    nominal_rows: int | None = None
    publish: Publication | None = None
    evaluation: Fraction | None = None
    distinct_population: str | None = None
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
    file_digest: str = ""
    windows: Windows | None = None
    window: str = ""
    within: Within | None = None
    each_window: Fraction | None = None
    publications: tuple[Publication, ...] = ()
    about: AboutSection = NOTHING_SAID

    @classmethod
    def of_domain(cls, name: str, domain: Domain, **declared: Any) -> Self:
        """Return the declaration of a benchmark, a row per person; ``declared`` replaces fields."""
        standard: dict[str, Any] = dict.fromkeys(("title", "description", "population"), name)
        standard |= {"source": Source("csv", name), "purpose": "benchmark", "models": {}}
        standard |= {"protection": Protection(), "relation": "add_remove", "partitions": ()}
        return cls(**{**standard, "name": name, "domain": domain, **declared})

    def __repr__(self) -> str:
        window = f", window {self.window}" if self.window else ""
        return (
            f"Data set {self.name}{window}: {', '.join(self.domain.names)}; {self.purpose} of "
            f"population {self.population}, protects {self.protection}; "
            f"models {', '.join(self.models)} at ε = {', '.join(self.partition_keys)}"
        )

    def at_window(self, name: str) -> Self:
        """Return the declaration for one time window alone, with the source of its rows.

        DeclarationError without windows, and for an unknown name.
        """
        if self.windows is None:
            raise DeclarationError(
                f"The data set {self.name} has no windows, so none can be chosen: leave the "
                "window out"
            )
        start, end = self.windows.start(self.windows.require(name)), self.windows.end(name)
        source = self.source.template or self.source
        return replace(self, window=name, source=source.of_window(name, start, end))

    def of_all_windows(self) -> Self:
        return replace(self, window="", source=self.source.template or self.source)

    @property
    def time_windows(self) -> Windows:
        """The declared time windows; DeclarationError if the file declares none."""
        if self.windows is None:
            raise DeclarationError(
                f"The data set {self.name} has no windows, which this command needs: declare "
                "`windows` in its file"
            )
        return self.windows

    def require_window(self) -> None:
        """Raise DeclarationError for a declaration that covers all time windows instead of one."""
        if self.windows is not None and not self.window:
            raise DeclarationError(
                f"The data set {self.name} is read in windows, so --window must name one, "
                f"such as {self.windows.first}"
            )

    @property
    def blocks(self) -> tuple[str, ...]:
        """The one window whose budget pays for these rows, in a tuple; () without a window."""
        return (self.window,) if self.window else ()

    def span_of(self, model: str) -> int:
        return next((each.span for each in self.publications if each.model == model), 1)

    @property
    def max_span(self) -> int:
        """The largest number of time windows that one publication covers; 1 without windows."""
        return max((publication.span for publication in self.publications), default=1)

    @property
    def first_complete_window(self) -> str:
        """The first time window that a release over ``max_span`` windows can end with.

        DeclarationError if the file declares no windows.
        """
        name = self.time_windows.first
        for _ in range(1, self.max_span):
            name = self.time_windows.following(name)
        return name

    @property
    def to_discover(self) -> tuple[str, ...]:
        """The names of the attributes whose levels, bounds or bins are still to be discovered."""
        return tuple(attribute.name for attribute in self.domain if attribute.undeclared)

    def with_domain(self, discovered: DiscoveredDomain) -> Self:
        """Return the declaration with a discovered domain in the place of the undeclared parts.

        discovered   exactly one entry for each of ``to_discover``; DeclarationError for others

        Releases over different discovered domains have different digests, and so different keys.
        """
        if sorted(discovered.names) != sorted(self.to_discover):
            expected, got = ", ".join(self.to_discover), ", ".join(discovered.names)
            raise DeclarationError(
                f"The attributes of {self.name} to be discovered are {expected or 'none'}, "
                f"but the stored discovery has {got or 'none'}: draw the domain anew, "
                "at the price of another discovery"
            )
        declared = {name: declare(self.domain[name], part) for name, part in discovered.attributes}
        domain = self.domain.with_attributes(declared)
        return replace(self, domain=domain, discovered=discovered, file_digest=self.digest)

    @property
    def discovery_warnings(self) -> tuple[str, ...]:
        return () if self.discovered is None else self.discovered.warnings

    @cached_property
    def widest(self) -> Self:
        """The declaration with the most cells that a discovery can give, under invented names.

        This one if nothing is to be discovered. Sizes, prices and models are computed from it
        before a discovery.
        """
        if not self.to_discover:
            return self
        return self.with_domain(widest_domain(self.domain[name] for name in self.to_discover))

    @property
    def delta_ceiling(self) -> Fraction | None:
        """The most δ that all discoveries together may cost; None if there is no limit.

        Where the file declares none, it is that of ten discoveries, but at most 10⁻⁶ unless one
        costs more: after a discovery that gave too little there is room for another.
        """
        delta = self.discover.delta if self.discover else None
        if self.ceiling_delta is not None or delta is None:
            return self.ceiling_delta
        return max(delta, min(10 * delta, Fraction(1, 10**6)))

    @property
    def discovered_fact(self) -> dict[str, str]:
        """Discovered attributes and their price, as {"discovered_for": text}; {} without any."""
        if self.discovered is None or self.discover is None:
            return {}
        return {"discovered_for": discovery_words(self.discovered.names, self.discover)}

    @property
    def constraints_fact(self) -> dict[str, str]:
        """All constraints on rows and units, as {"constraints": text}; {} without any."""
        words, parts = [each.words for each in self.domain.constraints], self.domain.parts
        if parts is not None:
            implied = [parts.absence_words(name) for name in parts.attributes]
            words = [text for text in words if text not in implied]
            for name, codes in parts.single:
                levels = " or ".join(self.domain[name].labels()[code] for code in codes)
                words.append(f"at most one with {name} {levels} in a unit")
        return {"constraints": "; ".join(words)} if words else {}

    @property
    def rows_digest(self) -> str:
        """The digest of the declaration before a discovery; rows are read and validated by it."""
        return self.file_digest or self.digest

    @property
    def currency(self) -> Currency:
        return Currency(self.delta)

    @property
    def distance(self) -> int:
        """The largest number of rows by which two neighbouring data sets differ.

        Replacing a person is removing one and adding another, so a distance under ``replace_one``
        is twice the one under ``add_remove``.
        """
        return self.protection.rows * (2 if self.relation == "replace_one" else 1)

    @property
    def counted_domain(self) -> Domain:
        """The domain of a prepared row: that of a unit with all its parts, if there are parts."""
        parts = self.domain.parts
        return self.domain if parts is None else parts.of_units(self.domain)

    @property
    def source_specs(self) -> tuple[Self, ...]:
        """This declaration; or that of units and that of parts, if parts have their own source."""
        parts, source = self.domain.parts, self.source.parts
        if parts is None or source is None:
            return (self,)
        own = [each for each in self.domain if each.name in parts.attributes]
        units = [each for each in self.domain if each.name not in (*parts.attributes, SIZE)]
        protection = Protection(parts.key, parts.at_most, is_unit=True)
        return (
            replace(self, domain=Domain(tuple(units)), source=replace(self.source, parts=None)),
            replace(self, domain=Domain(tuple(own)), source=source, protection=protection),
        )

    @property
    def is_release(self) -> bool:
        """Whether the rows are sensitive."""
        return self.purpose == "release"

    @property
    def may_watch_source(self) -> bool:
        """Whether a change of the rows may start a release, which reveals when they changed."""
        return self.updates_public or not self.is_release

    @property
    def columns(self) -> tuple[str, ...]:
        """The source columns that attributes, windows and the protection read, with repetitions."""
        inputs = tuple(column for attribute in self.domain for column in attribute.inputs)
        time = () if self.windows is None else (self.windows.column,)
        person = () if self.protection.column is None else (self.protection.column,)
        return (*inputs, *time, *person)

    def signs_of(self, column: str) -> tuple[Signs, ...]:
        """Return the signs of each attribute that reads numbers from a column, in their order."""
        return tuple(
            (attribute if attribute.derived is None else attribute.derived).signs
            for attribute in self.domain
            if column in attribute.inputs and attribute.reads_numbers
        )

    @property
    def time_columns(self) -> frozenset[str]:
        """The source columns that are only read as dates or times."""
        uses = {(column, each.reads_times) for each in self.domain for column in each.inputs}
        if self.windows is not None:
            uses.add((self.windows.column, True))
        return frozenset(name for name, is_time in uses if is_time and (name, False) not in uses)

    @property
    def formatted_times(self) -> frozenset[str]:
        """The ``time_columns`` that an attribute reads by a declared format.

        Inputs of derived columns alone, and a column of windows alone, are left out.
        """
        clocks = ((each.column, each.clock) for each in self.domain if each.derived is None)
        return self.time_columns & {column for column, clock in clocks if clock and clock.format}

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The canonical texts of the declared ε, ascending, which are the keys of partitions."""
        return tuple(epsilon_text(epsilon) for epsilon in self.partitions)

    @property
    def cost_of_everything(self) -> Fraction:
        """The pure ε of one discovery and one release of each model at each ε, with evaluations.

        With windows, that of all publications that one window pays for: a release of several
        windows is charged to each of them. A cost in ρ depends on the model.
        """
        evaluation = self.evaluation or Fraction(0)
        discovery = self.discover.epsilon if self.discover else Fraction(0)
        if self.windows is not None:
            costs = ((each.epsilon + evaluation) * each.span for each in self.publications)
            return sum(costs, discovery)
        once = sum((epsilon + evaluation for epsilon in self.partitions), Fraction(0))
        return once * len(self.models) + discovery

    @property
    def extras(self) -> str:
        """The words for what ``cost_of_everything`` counts in addition to releases; may be empty.

        They begin with a space, such as `` with evaluations and the discovery``.
        """
        declared = {"evaluations": self.evaluation, "the discovery": self.discover}
        names = [name for name, cost in declared.items() if cost]
        return f" with {' and '.join(names)}" if names else ""

    def charge_for(self, amount: Fraction) -> Fraction:
        """Return ``amount`` plus the cost of a private evaluation, if one is declared.

        The amount and the sum are in the population's currency, ε or ρ.
        """
        return amount + self.currency.cost_of(self.evaluation or Fraction(0), PURE)

    def partition(self, text: str) -> Fraction:
        """Return a declared ε from its text; DeclarationError for any other text."""
        epsilon = parse_epsilon(text, of=f"{self.name}: epsilon")
        if epsilon not in self.partitions:
            raise DeclarationError(
                f"{self.name}: the ε of a release must be one of "
                f"{', '.join(self.partition_keys)}, not {epsilon_text(epsilon)}: list it "
                "under `partitions` to release at it"
            )
        return epsilon

    @cached_property
    def digest(self) -> str:
        """The SHA-256 in hex of all declared fields that change a measurement.

        Two releases with one digest, one snapshot and one question are the same release.
        """
        # Only a private evaluation measures a label and targets.
        is_evaluated = self.evaluation is not None
        return _digest(
            {
                "attributes": [attribute.measured for attribute in self.domain],
                "protection": str(self.protection),
                "relation": self.relation,
                "coordinate_bits": COORDINATE_BITS,
                "label": self.label if is_evaluated else None,
                "targets": [asdict(target) for target in self.targets if is_evaluated],
                "delta": None if self.delta is None else delta_text(self.delta),
                # Preparation drops rows that break them.
                "constraints": [constraint.measured for constraint in self.domain.constraints],
                "windows": None if self.windows is None else self.windows.measured,
                "discover": None if self.discover is None else self.discover.to_facts(),
                "discovered": None if self.discovered is None else self.discovered.digest,
                **({} if self.domain.parts is None else {"parts": asdict(self.domain.parts)}),
            }
        )

    @cached_property
    def checks_digest(self) -> str:
        """The SHA-256 in hex of the declared checks, which change no measurement; "" if none."""
        shares = {each.name: str(each.usable) for each in self.domain if each.usable != 1}
        if not shares and self.usable == 1 and not self.expectations:
            return ""
        return _digest([shares, str(self.usable), [asdict(each) for each in self.expectations]])


def _digest(declared: object) -> str:
    text = json.dumps(declared, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
