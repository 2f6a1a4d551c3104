"""The card of one release with an ε, in markdown: for whom it protects, at what price, what it is.

It is no part of the bundle: the sum of all charges grows, and a bundle is the same bytes for ever.

PrivateRelease: what a card says about one release that was drawn with noise.

Released centres as lines of text: their places, and the noisy rows of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.ledger import Balance
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.figures.cluster_view import Tables, cluster_sizes, rows_text
from dp_pipeline.reporting.metrics import markdown_lines
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings
from dp_pipeline.reporting.promise import (
    NOT_PROMISED,
    PURPOSE,
    content_limits,
    content_points,
    content_table,
    difference_words,
    unit_words,
)
from dp_pipeline.reporting.sections import ANOTHER_EPSILON, NOT_DP, NOT_FOR_RELEASE
from dp_pipeline.reporting.text import cost_text, number_text, parameter_words, plain, points
from dp_pipeline.spec.dataset import DatasetSpec

_NOISE = {
    "opendp": "the samplers of the OpenDP library, fed by the operating system",
    "exact": "this package's exact samplers on whole numbers, fed by the operating system",
    "seeded": "a seeded generator: whoever knows the seed can take the noise off",
}


@dataclass(frozen=True)
class PrivateRelease:
    """One release with its declaration and its account.

    summary   one sentence about the model
    balance   of the population, for ever and now
    beside    releases of the same sensitive rows without any ε, a text each
    """

    spec: DatasetSpec
    bundle: Bundle
    summary: str
    balance: Balance
    beside: Sequence[str] = ()

    @property
    def heading(self) -> str:
        """The first line that anybody sees: whether the ε that was asked holds."""
        name = (
            f"{self.spec.name}/{self.bundle.facts['model']} at ε = {self.bundle.facts['epsilon']}"
        )
        return f"{self._standing}: {name}"

    @property
    def _standing(self) -> str:
        if not self.bundle.is_dp:
            return NOT_DP
        if self.bundle.caveat:
            return ANOTHER_EPSILON
        return "DIFFERENTIALLY PRIVATE" if self.bundle.fit_for_release else NOT_FOR_RELEASE

    @property
    def about(self) -> tuple[str, str]:
        """What was made of what, and whose rows these are."""
        # No exact number stands on a card, not even of public rows.
        rows = PURPOSE["release"] if self.spec.is_release else "Benchmark: the rows are public."
        model = self.bundle.facts["model"]
        return f"{self.spec.title}, by {model}: {self.summary}.", rows

    @property
    def protects(self) -> tuple[str, ...]:
        """Whom, compared with what, and how much; nobody where no finite ε holds."""
        if not self.bundle.is_dp:
            return (f"Nobody: {self.bundle.caveat}.",)
        said = (
            f"Unit: {unit_words(self.spec)}.",
            f"Compared with data where {difference_words(self.spec)}. Between the two, no possible "
            f"result is more than e^ε times as likely{self._slack}. This holds against any other "
            "knowledge and any computation.",
        )
        return said if self.bundle.fit_for_release else (self._nobody, *said)

    @property
    def _slack(self) -> str:
        """What a δ allows besides."""
        is_pure = self.spec.delta is None
        return "" if is_pure else ", or by more than δ more likely where a δ stands beside the ε"

    @property
    def _nobody(self) -> str:
        return "Nobody yet: what follows would hold for a draw from noise that is fit for release."

    @property
    def costs(self) -> tuple[str, ...]:
        """The ε of this release, and the sum of all that was ever drawn from its population."""
        evaluation = self.bundle.facts["evaluation"]
        bought = "" if evaluation == "none" else f", with ε = {evaluation} for its quality numbers"
        own = (
            f"This release: ε = {self.bundle.spent_text} exactly{bought}."
            if self.bundle.is_dp
            else "This release: no ε bounds what it tells."
        )
        return own, self._together, *self._without

    @property
    def _together(self) -> str:
        """Releases add up."""
        balance = self.balance
        spent = balance.currency.said(balance.spent)
        ceiling = (
            "no ceiling is declared"
            if balance.ceiling is None
            else f"the ceiling is {balance.currency.said(balance.ceiling)}"
        )
        return (
            f"Everything ever drawn from population {self.spec.lineage}, added up when this card "
            f"was written: {spent}; {ceiling}."
        )

    @property
    def _without(self) -> tuple[str, ...]:
        if self.beside:
            return (
                "Also released of the same rows without any ε, which no sum covers: "
                f"{'; '.join(self.beside)}.",
            )
        if self.balance.not_dp:
            return (f"Besides, {self.balance.not_dp} without any ε, which no sum covers.",)
        return ()

    @property
    def noise(self) -> str:
        """Where the noise came from, in words."""
        name = self.bundle.facts["noise"]
        kind = name.partition(":")[0]
        return f"Drawn from {name}: {_NOISE.get(kind, 'a source that is not known here')}."

    @property
    def fitness(self) -> str:
        """Whether it may leave, and why not."""
        bundle = self.bundle
        if bundle.fit_for_release and not bundle.caveat:
            return "Yes: nobody can draw its noise again, and the ε that was asked holds."
        if bundle.caveat:
            return f"No, never: {bundle.caveat}."
        return f"No: drawn from {bundle.facts['noise']} noise, it protects nobody."


MOST_CENTRES = 10
SIZE = "noisy rows"
"""The heading of the last column."""


def centre_table(tables: Tables, *, most_columns: int) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the first centres, in the order of their release; of many columns the first
    ones, whole, and how many more there are. No line of a release without centres.
    """
    columns = tables.get("centres", {})
    names, lines = list(columns), _lines(columns)
    more = len(names) - most_columns
    if more > 0:
        names = [*names[:most_columns], f"+ {more} columns"]
        lines = [[*line[:most_columns], "…"] for line in lines]
    sizes = cluster_sizes(tables) if lines else None
    if sizes is None:
        return names, lines
    told = [rows_text(size) for size in sizes.tolist()]
    return [*names, SIZE], [[*line, size] for line, size in zip(lines, told, strict=False)]


def _lines(columns: Mapping[str, np.ndarray]) -> list[list[str]]:
    rows = zip(*(values[:MOST_CENTRES].tolist() for values in columns.values()), strict=True)
    return [[f"{value:.6g}" for value in row] for row in rows]


MOST_MECHANISMS = 12
"""Lines about noise; there are more kinds of it only where scales differ charge by charge."""


MOST_COLUMNS = 4
"""Of a centre, beside its noisy rows."""


def private_card(release: PrivateRelease) -> str:
    """At most 80 lines: what speaks against it, whom it protects, what it costs, what is in it, how
    the noise was drawn, whether it may leave, what it is not, origin.
    """
    bundle = release.bundle
    parts = [
        f"# {plain(release.heading)}",
        *(plain(sentence) for sentence in release.about),
        *_warnings(release),
        "## Whom it protects",
        points([*release.protects, *release.costs]),
        "## What is in it",
        markdown_lines([("table", "lines"), *content_table(bundle)]),
        points(content_points(bundle)),
        *_centres(bundle),
        "## How the noise was drawn",
        plain(release.noise),
        _mechanisms(bundle),
        "## May it leave?",
        plain(release.fitness),
        "## What it is not",
        points([*content_limits(bundle), *_claims(bundle), *NOT_PROMISED]),
        "## Where it comes from",
        points([f"{name}: {text}" for name, text in _provenance(release).items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _warnings(release: PrivateRelease) -> tuple[str, ...]:
    """Before anything else is read: what the noisy counts say against the release."""
    warnings = bundle_warnings(release.spec, release.bundle)
    return (f"## {DOUBTFUL}", points(warnings)) if warnings else ()


def _centres(bundle: Bundle) -> tuple[str, ...]:
    """The first centres, with the noisy rows of each."""
    head, lines = centre_table(bundle.tables, most_columns=MOST_COLUMNS)
    if not lines:
        return ()
    more = len(next(iter(bundle.tables["centres"].values()))) - len(lines)
    written = markdown_lines([[plain(name) for name in head], *lines])
    return (f"{written}\n\nand {more} more centres." if more > 0 else written,)


def _mechanisms(bundle: Bundle) -> str:
    """One line a mechanism and scale: how many charges, and what they cost together."""
    groups: dict[tuple[str, str], list[Fraction]] = {}
    for spend, cost in zip(bundle.spends, bundle.costs, strict=True):
        groups.setdefault((spend.mechanism, number_text(float(spend.scale))), []).append(cost)
    lines = [
        (mechanism, scale, f"{len(costs):,}", cost_text(sum(costs, Fraction(0))))
        for (mechanism, scale), costs in groups.items()
    ]
    head = ("mechanism", "scale", "charges", bundle.currency.symbol)
    more = len(lines) - MOST_MECHANISMS
    written = markdown_lines([head, *lines[:MOST_MECHANISMS]])
    return f"{written}\n\nand {more} more scales." if more > 0 else written


def _claims(bundle: Bundle) -> list[str]:
    """What a class table says that it does not promise."""
    claims = bundle.tables.get("claims")
    if claims is None:
        return []
    told = zip(claims["claim"].tolist(), claims["promised"].tolist(), strict=True)
    return [f"Not promised: {claim}" for claim, promised in told if promised == "no"]


def _provenance(release: PrivateRelease) -> dict[str, str]:
    bundle = release.bundle
    facts = bundle.facts
    measuring, after = (parameter_words(facts[name]) for name in ("measuring", "postprocessing"))
    return {
        "Data set": facts["dataset"],
        "Population": release.spec.lineage,
        "Snapshot": facts["snapshot"],
        "Draw": f"number {int(facts['replicate']) + 1} of this release",
        "Parameters": f"{measuring}. Without a further look: {after}",
        "Code": facts["code"],
        "Release key": bundle.key,
        "Digest of the noisy answers": bundle.transcript,
    }
