"""One release, at an ε or a K, with the facts and figures that its card and reports show."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from dp_pipeline.answers.verdict import verdict
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.domain import SIZE
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.figures.cluster_view import centre_table, dates_of
from dp_pipeline.reporting.metrics import QualityRow, bought_rows, sample_words, sort_rows
from dp_pipeline.reporting.noisy_answers import NoisyAnswers, missing_line
from dp_pipeline.reporting.plausibility import bundle_warnings, missing_shares, omitted_rows_line
from dp_pipeline.reporting.quality import ComparedTable, QualityReport, percent
from dp_pipeline.reporting.text import number_text
from dp_pipeline.results.accountant import Spend
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import row_count


class Standing(StrEnum):
    """The most important fact about a release for its reader.

    PRIVATE           it is differentially private at the requested ε, and may be published
    NOT_FOR_RELEASE   it is private at the requested ε but for its noise, which protects nobody
    NOT_DP            it has no ε, as a k-anonymous table
    ANOTHER_EPSILON   its caveat says that the requested ε does not hold
    """

    PRIVATE = "DIFFERENTIALLY PRIVATE"
    NOT_FOR_RELEASE = "NOT FOR RELEASE"
    NOT_DP = "NOT DIFFERENTIALLY PRIVATE"
    ANOTHER_EPSILON = "NOT THE ε THAT WAS ASKED"


@dataclass(frozen=True, kw_only=True)
class ReportedRelease(ABC):
    """A stored release with the declaration of its data set.

    summary           one sentence about the model or method
    non_dp_releases   a text for each release of the same sensitive rows without any ε; for a
                      k-anonymous release only for earlier ones
    exact             quality numbers against public rows
    """

    spec: DatasetSpec
    bundle: Bundle
    summary: str = ""
    non_dp_releases: Sequence[str] = ()
    exact: Sequence[QualityRow] = ()

    @property
    def name(self) -> str:
        """The model, its time windows if there are any, and ε; or the method and K; as text."""
        facts = self.bundle.facts
        level = f"K = {facts['k']}" if self.bundle.is_k_anonymous else f"ε = {facts['epsilon']}"
        window = f" of {facts[WINDOW]}" if WINDOW in facts else ""
        return f"{self.bundle.model}{window} at {level}"

    @property
    def standing(self) -> Standing:
        return standing_of(self.bundle)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning of each weakness of the release; () if it is k-anonymous."""
        return bundle_warnings(self.spec, self.bundle)

    @property
    def missing_line(self) -> str:
        """The share of missing cells of each attribute as text; empty where none can be missing."""
        domain = self.spec.domain
        answers = NoisyAnswers.of_bundle(self.bundle, domain)
        return missing_line(missing_shares(domain, self.bundle.tables), answers, domain)

    @property
    def omitted_rows_line(self) -> str:
        """The noisy number of rows that a clustering left out, as text; empty if none is stored."""
        return omitted_rows_line(self.bundle.tables)

    @abstractmethod
    def require_showable(self) -> None:
        """Raise BoundaryViolation if a card or report of the release would break its guarantee."""


class Step(NamedTuple):
    """The charges of one release that have the same purpose.

    name      ``number of rows``, ``one-way marginals``, ``structure`` (the choice of tables to
              measure), ``tables of several attributes``, ``pairs of parts of one unit`` or
              ``evaluation``
    charges   number of charges
    cost      sum of their costs, in the population's currency
    share     part of the cost of the whole release, in 0..1
    """

    name: str
    charges: int
    cost: Fraction
    share: Fraction


ROWS, ONE_WAYS, STRUCTURE = "number of rows", "one-way marginals", "structure"
TABLES, EVALUATION = "tables of several attributes", "evaluation"
PAIRS = "pairs of parts of one unit"


def steps_of(bundle: Bundle) -> tuple[Step, ...]:
    """Return the charges of a stored synthetic table, summed by purpose; () for other releases."""
    if "cliques" not in bundle.tables:
        return ()
    costs: dict[str, list[Fraction]] = {}
    for index, (spend, cost) in enumerate(zip(bundle.spends, bundle.costs, strict=True)):
        name = _step(spend.what) if index < bundle.model_spend_count else EVALUATION
        costs.setdefault(name, []).append(cost)
    reading = (ROWS, ONE_WAYS, STRUCTURE, TABLES, PAIRS, EVALUATION)
    sums = {name: sum(costs[name], Fraction(0)) for name in reading if name in costs}
    return tuple(
        Step(name, len(costs[name]), cost, cost / bundle.spent) for name, cost in sums.items()
    )


def _step(question: str) -> str:
    question = question.removesuffix(", refined")
    if question == ROWS:
        return ROWS
    if question.startswith("marginal of "):
        return TABLES if ", " in question else ONE_WAYS
    if question.startswith("pairs of "):
        return PAIRS
    # The answer of a sparse table is its cells; every other question is for a choice or a score.
    return TABLES if question.startswith("cells of ") else STRUCTURE


def standing_of(bundle: Bundle) -> Standing:
    """Return the most important fact about the privacy of a stored release."""
    if not bundle.is_dp:
        return Standing.NOT_DP
    if bundle.caveat:
        return Standing.ANOTHER_EPSILON
    return Standing.PRIVATE if bundle.is_releasable else Standing.NOT_FOR_RELEASE


def mechanisms_of(bundle: Bundle) -> list[tuple[str, str, int, Fraction]]:
    """Return (mechanism, scale as text, number of charges, their total cost) for each mechanism and
    scale; noise that costs nothing has the text ``mechanism, question`` as mechanism."""
    groups: dict[tuple[str, str], list[Fraction]] = {}
    costs = (*bundle.costs, *(Fraction(0) for _ in bundle.free_spends))
    for spend, cost in zip((*bundle.spends, *bundle.free_spends), costs, strict=True):
        scale = number_text(float(spend.scale))
        name = spend.mechanism if cost else f"{spend.mechanism}, {spend.what}"
        groups.setdefault((name, scale), []).append(cost)
    return [(*group, len(costs), sum(costs, Fraction(0))) for group, costs in groups.items()]


MOST_COLUMNS = 4
"""Columns of a centre on a card, besides its noisy number of rows."""


@dataclass(frozen=True, kw_only=True)
class ReportedPrivateRelease(ReportedRelease):
    """A stored private release with the facts that cards and reports add to it.

    balance    balance of the population's account, shown on cards
    state      how the run got it: ``charged``, ``resumed`` or ``replayed``, shown in reports
    compared   distances of columns and pairs from public rows, shown in reports
    """

    balance: Balance | None = None
    state: str = ""
    compared: Sequence[ComparedTable] = ()

    @property
    def span(self) -> int:
        """The number of time windows that the release covers; 1 without windows."""
        text = self.bundle.facts.get(WINDOW)
        return len(self.spec.time_windows.parse_range(text)) if text else 1

    @property
    def clipped_axes(self) -> list[str]:
        """The names of the centres' columns whose numbers outside the bounds count at the nearer
        bound; [] for data whose purpose is no release."""
        axes = self.bundle.tables.get("centres", {})
        return [
            attribute.name
            for attribute in self.spec.domain
            if attribute.name in axes and attribute.on_invalid == "clip" and self.spec.is_release
        ]

    @property
    def is_unfit_by_noise(self) -> bool:
        """Whether the release may not be published because of its noise, as that of a known seed.

        It is False where the reason is a caveat and the noise has no seed.
        """
        bundle = self.bundle
        is_seeded = bundle.facts["noise"].startswith("seeded")
        return not bundle.is_releasable and (not bundle.caveat or is_seeded)

    @property
    def charges(self) -> list[tuple[Spend, Fraction]]:
        return list(zip(self.bundle.spends, self.bundle.costs, strict=True))

    @property
    def mechanisms(self) -> list[tuple[str, str, int, Fraction]]:
        return mechanisms_of(self.bundle)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The charges of a synthetic table, summed by purpose; () unless there are several."""
        steps = steps_of(self.bundle)
        return steps if len(steps) > 1 else ()

    @property
    def contents(self) -> dict[str, int]:
        return {name: row_count(table) for name, table in self.bundle.tables.items()}

    @property
    def centres(self) -> tuple[list[str], list[list[str]]]:
        """The head and the lines of a table of the first centres, as texts; empty without any."""
        dates = dates_of(self.spec.domain)
        return centre_table(self.bundle.tables, most_columns=MOST_COLUMNS, dates=dates)

    @property
    def cliques(self) -> list[str]:
        """A text for each clique of a synthetic table: its attributes and number of cells."""
        table = self.bundle.tables["cliques"]
        lines = zip(table["attributes"].tolist(), table["cells"].tolist(), strict=True)
        return [f"{names} ({cells:,} cells)" for names, cells in lines]

    @property
    def sizes(self) -> list[str]:
        """A text for each number of parts with its share of released units; [] without parts."""
        table = self.bundle.tables["marginals"]
        is_size = table["attribute"] == SIZE
        lines = zip(table["level"][is_size], table["probability"][is_size].tolist(), strict=True)
        return [f"{level} {percent(share)}" for level, share in lines]

    @property
    def pairs_of_parts(self) -> list[str]:
        """A text for each attribute of two parts of a unit, with its distance and that of noise."""
        return [
            f"{table.name} {number_text(table.distance)} ({number_text(table.noise)})"
            for table in (self.quality.measured if self.quality else ())
            if len({*table.attributes}) < len(table.attributes)
        ]

    @property
    def denied_claims(self) -> list[str]:
        """Sentences that a private release of classes does not promise; [] for other releases."""
        if "claims" not in self.bundle.tables:
            return []
        claims = self.bundle.tables["claims"]
        return [str(claim) for claim in claims["claim"][claims["promised"] == "no"]]

    @property
    def quality_rows(self) -> tuple[QualityRow, ...]:
        """The noisy quality numbers that the release paid for, and ``exact``, in reading order."""
        return sort_rows((*bought_rows(self.bundle), *self.exact))

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """Sentences on what can be read from the released tables, and how accurate it is."""
        return verdict(self.bundle.tables)

    @property
    def sample_words(self) -> str:
        return sample_words(self.quality_rows)

    @cached_property
    def quality(self) -> QualityReport | None:
        """The distances of synthetic rows from noisy answers and public rows; None without any."""
        stored = self.bundle.tables.get("codes")
        if stored is None:
            return None
        # Each access to a column of many rows reads it.
        codes, domain = dict(stored), self.spec.domain
        answers = NoisyAnswers.of_bundle(self.bundle, domain)
        measured = () if answers is None else answers.compare(codes, domain)
        if not measured and not self.compared:
            return None
        return QualityReport(
            rows=len(next(iter(codes.values()))),
            compared=tuple(self.compared),
            measured=measured,
            unmeasured=0 if answers is None else answers.count_unmeasured(codes),
        )

    def require_showable(self) -> None:
        """Raise BoundaryViolation if the rows are sensitive, and the release has ``compared`` or
        ``exact`` numbers from them."""
        if self.spec.is_release and self.compared:
            raise BoundaryViolation(
                f"The report of {self.spec.name}/{self.name} must not compare exactly with "
                f"sensitive rows, but it does so for {len(self.compared)} tables"
            )
        if self.spec.is_release and self.exact:
            raise BoundaryViolation(
                f"The card of {self.spec.name}/{self.name} must not show exact numbers of "
                f"sensitive rows, but it has {len(self.exact)}"
            )


@dataclass(frozen=True, kw_only=True)
class ReportedKAnonymousRelease(ReportedRelease):
    """A table that was made k-anonymous without noise, so that no ε holds for it."""

    @property
    def method(self) -> str:
        return self.bundle.facts["model"]

    @property
    def k_text(self) -> str:
        return f"K = {self.k}"

    @property
    def k(self) -> int:
        """The least number of rows that a class may have, as requested."""
        return int(self.bundle.facts["k"])

    @property
    def diversity(self) -> int:
        """The least number of labels that a class may have, as requested."""
        return int(self.bundle.facts["diversity"])

    @property
    def suppress(self) -> Fraction:
        """The largest share of the rows that may be suppressed, as requested."""
        return Fraction(self.bundle.facts["suppress"])

    @property
    def label(self) -> str:
        return self.bundle.facts["label"]

    @cached_property
    def columns(self) -> dict[str, str]:
        """Name of a released column, without the label → the rule that computes it, as text."""
        return {name: rule for name, _, rule in self._rows_of("columns")}

    @property
    def columns_of(self) -> Mapping[str, int]:
        """Attribute → the number of released columns that are computed from it."""
        return Counter(source for _, source, _ in self._rows_of("columns"))

    @property
    def only_rule(self) -> str:
        """The rule of every released column; empty if rules differ or there is only one column."""
        rules = set(self.columns.values())
        return rules.pop() if len(rules) == 1 < len(self.columns) else ""

    @property
    def outside(self) -> list[str]:
        """The names of the declared attributes that are neither label nor quasi-identifier."""
        modelled = {*self.bundle.facts["attributes"].split(), self.label}
        return [name for name in self.spec.domain.names if name not in modelled]

    @cached_property
    def measures(self) -> dict[str, float]:
        """Name of a disclosure measure → its value for the released rows."""
        return dict(self._rows_of("measures"))

    @property
    def rows(self) -> int:
        return int(self.measures["rows"])

    @property
    def suppressed(self) -> int:
        return int(self.bundle.tables["suppressed"]["rows"].sum())

    @property
    def suppressed_by_label(self) -> list[tuple[Any, ...]]:
        """(label, number of suppressed rows with it, their share of all rows with it); [] for
        sensitive rows, whose labels are not stored."""
        return self._rows_of("suppressed") if "label" in self.bundle.tables["suppressed"] else []

    def _rows_of(self, table: str) -> list[tuple[Any, ...]]:
        columns = (values.tolist() for values in self.bundle.tables[table].values())
        return list(zip(*columns, strict=True))

    def require_showable(self) -> None:
        """Raise BoundaryViolation if a class has fewer rows than K, or fewer labels than requested,
        and for figures or suppressed labels of sensitive rows."""
        of = f"The card of {self.spec.name}/{self.name}"
        if self.k > 1 and 0 < self.measures["k"] < self.k:
            raise BoundaryViolation(f"{of} must show {self.k} rows a class, but a class has fewer")
        if self.diversity > 1 and 0 < self.measures["distinct_l"] < self.diversity:
            raise BoundaryViolation(
                f"{of} must show {self.diversity} labels a class, but a class has fewer"
            )
        if self.spec.is_release and "label" in self.bundle.tables["suppressed"]:
            raise BoundaryViolation(f"{of} must not show labels of suppressed sensitive rows")
        figures = [row.metric for row in self.exact]
        figures += [name for name in self.measures if name.startswith("auc_")]
        if self.spec.is_release and figures:
            raise BoundaryViolation(
                f"{of} must not show figures of sensitive rows, but it has "
                f"{', '.join(sorted(figures))}"
            )
