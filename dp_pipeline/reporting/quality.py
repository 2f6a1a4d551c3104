"""Quality reports of synthetic rows and of released centres, as text, tables and frames."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from dp_pipeline.config.encoding import Names
from dp_pipeline.reporting.noisy_answers import MeasuredTable, attribute_text
from dp_pipeline.reporting.rendering import render
from dp_pipeline.reporting.text import noisy_text, number_text

NOT_FOR_PUBLICATION = (
    "Computed from real rows, without noise: as sensitive as they are, and not for publication."
)


@dataclass(frozen=True)
class ComparedTable:
    """The distance of the synthetic shares of some attributes from the real ones.

    distance      total variation distance ½ Σ |p − q|, in 0..1
    error         bound of the expected difference of a sample's distance from that of all rows;
                  None where all rows were used
    correlation   synthetic correlation of two numbers minus the real one; None for other attributes
    """

    attributes: Names
    distance: float
    error: float | None = None
    correlation: float | None = None

    @property
    def name(self) -> str:
        return attribute_text(self.attributes)

    @property
    def distance_text(self) -> str:
        """The distance as text, ± the error of a sample if it has one."""
        error = self.error
        return number_text(self.distance) if error is None else noisy_text(self.distance, error)

    @property
    def cells(self) -> list[str]:
        """The texts of a table line: attributes, distance and difference of correlations."""
        correlation = "" if self.correlation is None else signed_text(self.correlation)
        return [self.name, self.distance_text, correlation]


def signed_text(value: float) -> str:
    """Return a difference as text with its sign, and three significant digits.

    >>> signed_text(0.25), signed_text(-0.25)
    ('+0.250', '-0.250')
    """
    return f"+{number_text(value)}" if value > 0 else number_text(value)


@dataclass(frozen=True)
class LearnedLabel:
    """The quality of logistic regression that predicts one attribute of real rows from the others.

    accuracy, auc             when it learned from synthetic rows
    real_accuracy, real_auc   when it learned from other real rows than those that it predicts
    majority                  accuracy of always predicting the most frequent value
    """

    attribute: str
    accuracy: float
    auc: float
    real_accuracy: float
    real_auc: float
    majority: float

    @property
    def cells(self) -> list[str]:
        """The texts of a table line: the attribute; accuracy from synthetic rows, from real rows,
        by the majority; AUC from synthetic rows, from real rows."""
        figures = (self.accuracy, self.real_accuracy, self.majority, self.auc, self.real_auc)
        return [self.attribute, *map(number_text, figures)]


@dataclass(frozen=True)
class Likeness:
    """The similarity of synthetic rows to single real rows, which is no bound on privacy loss.

    copies   share of the synthetic rows that equal a real row
    twins    share of the real rows that equal another real row
    dcr      mean share of attributes in which a synthetic row differs from the nearest real one
    """

    copies: float
    twins: float
    dcr: float


class Cost(NamedTuple):
    """The distance of synthetic rows from noisy answers, over all measured tables.

    distance   mean distance
    noise      mean distance that noise alone makes
    seen       number of tables in which the model has an error beyond noise
    """

    distance: float
    noise: float
    seen: int


@dataclass(frozen=True)
class QualityReport:
    """The quality of synthetic rows, compared with real rows, with noisy answers, or with both.

    Figures from real rows are as sensitive as these.

    rows         number of synthetic rows
    real         number of real rows; None without any
    compared     distances of columns and pairs from the real ones, the largest of each first
    learned      quality of classifiers that learn from the synthetic rows
    likeness     similarity to single real rows; None without any
    measured     distances of columns and pairs from noisy answers
    unmeasured   number of pairs of attributes without a noisy answer
    left_out     number of real rows that are not compared, as they do not fit the declaration
    missing      noisy shares of missing cells, as text; empty where no column may have some
    """

    rows: int
    real: int | None = None
    compared: tuple[ComparedTable, ...] = ()
    learned: tuple[LearnedLabel, ...] = ()
    likeness: Likeness | None = None
    measured: tuple[MeasuredTable, ...] = ()
    unmeasured: int = 0
    left_out: int = 0
    missing: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether any figure was computed from real rows, without noise."""
        return self.real is not None or bool(self.compared)

    @property
    def title(self) -> str:
        against = "" if self.real is None else f" against {self.real:,} real ones"
        return f"Quality of {self.rows:,} synthetic rows{against}"

    @property
    def note(self) -> str:
        """A warning that figures are sensitive, with the number of real rows that were left out;
        empty where no real rows were used."""
        if not self.left_out:
            return NOT_FOR_PUBLICATION if self.is_exact else ""
        many = "1 real row" if self.left_out == 1 else f"{self.left_out:,} real rows"
        reason = "with a value that is missing or not as declared"
        if self.pairs_of_parts:
            reason = "that have no unit, are too many of one, or break a constraint"
        return f"{NOT_FOR_PUBLICATION} Left out, as by a fit: {many} {reason}."

    @property
    def columns(self) -> tuple[ComparedTable, ...]:
        """The distances from real rows over single attributes."""
        return tuple(table for table in self.compared if len(table.attributes) == 1)

    @property
    def pairs(self) -> tuple[ComparedTable, ...]:
        """The distances from real rows over pairs of attributes."""
        return tuple(table for table in self.compared if len({*table.attributes}) == 2)

    @property
    def pairs_of_parts(self) -> tuple[ComparedTable, ...]:
        """The distances from real rows over one attribute of two parts of a unit."""
        return tuple(t for t in self.compared if len(t.attributes) > len({*t.attributes}))

    @property
    def has_correlations(self) -> bool:
        """Whether some compared pair of attributes has a correlation, as two numbers have."""
        return any(table.correlation is not None for table in self.pairs)

    @property
    def likeness_lines(self) -> list[list[str]]:
        if self.likeness is None:
            return []
        return [[_LIKENESS[name], percent(share)] for name, share in vars(self.likeness).items()]

    @property
    def cost(self) -> Cost:
        """The mean distances from noisy answers over all measured tables, NaN without any, and the
        number of tables with a visible error of the model."""
        distance = float(np.mean([table.distance for table in self.measured]))
        noise = float(np.mean([table.noise for table in self.measured]))
        return Cost(distance, noise, sum(table.model_error > 0 for table in self.measured))

    @property
    def cost_words(self) -> str:
        """A sentence with the numbers in ``cost``, and one on pairs without a measured table."""
        table_count, cost = len(self.measured), self.cost
        words = (
            f"synthetic rows are {number_text(cost.distance)} away from the noisy answers, mean "
            f"over {table_count} table{'s' * (table_count > 1)} of columns and pairs, where noise "
            f"alone makes {number_text(cost.noise)}; the model is seen in {cost.seen} of them."
        )
        if not self.unmeasured:
            return words
        pairs = "One pair is" if self.unmeasured == 1 else f"{self.unmeasured:,} pairs are"
        return f"{words} {pairs} in no measured table: these answers do not show how they depend."

    def to_frame(self) -> Any:
        """Return the figures of the report as a pandas frame with a line for each figure.

        Its columns are ``of`` (attributes), ``figure`` (name), ``value``, and ``deviation``, of the
        noise, which is NaN without noise."""
        import pandas as pd

        nan, lines = float("nan"), list[tuple[str, str, float, float]]()
        for compared in self.compared:
            lines.append((compared.name, "distance", compared.distance, nan))
            if compared.correlation is not None:
                lines.append((compared.name, "correlation difference", compared.correlation, nan))
        for label in self.learned:
            lines += [
                (label.attribute, name.replace("_", " "), value, nan)
                for name, value in vars(label).items()
                if name != "attribute"
            ]
        for name, value in ({} if self.likeness is None else vars(self.likeness)).items():
            lines.append(("all columns", name, value, nan))
        for table in self.measured:
            lines += [
                (table.name, "distance from noisy answers", table.distance, nan),
                (table.name, "noise alone", table.noise, table.spread),
                (table.name, "model at least", table.model_error, nan),
            ]
        return pd.DataFrame(lines, columns=["of", "figure", "value", "deviation"])

    def __repr__(self) -> str:
        """Return the report as a few lines of text, with the means and the worst tables."""
        lines = [self.title, self.note]
        lines += [_distance_line(self.columns, "columns"), _distance_line(self.pairs, "pairs")]
        lines += [_distance_line(self.pairs_of_parts, "two parts of one unit")]
        lines += [
            f"{label.attribute} predicted from the others: accuracy {number_text(label.accuracy)} "
            f"learned from synthetic rows, {number_text(label.real_accuracy)} from real ones, "
            f"{number_text(label.majority)} by the majority; AUC {number_text(label.auc)} and "
            f"{number_text(label.real_auc)}"
            for label in self.learned
        ]
        lines += [f"{figure}: {share}" for figure, share in self.likeness_lines]
        lines += [f"noise: {self.cost_words}"] if self.measured else []
        lines += [f"missing cells: {self.missing}"] if self.missing else []
        return "\n  ".join(filter(None, lines))

    def _repr_html_(self) -> str:
        return render("quality.html.j2", report=self, note=self.note)


_LIKENESS = {
    "copies": "synthetic rows that equal a real one",
    "twins": "real rows that equal another real one",
    "dcr": "columns in which the nearest real row differs, mean",
}


def percent(share: float) -> str:
    """Return a share as text in percent, with three significant digits.

    >>> percent(0.125), percent(float("nan"))
    ('12.5 %', 'n/a')
    """
    return f"{number_text(100 * share)}{'' if isnan(share) else ' %'}"


def _distance_line(tables: Sequence[ComparedTable], kind: str) -> str:
    if not tables:
        return ""
    mean = float(np.mean([table.distance for table in tables]))
    worst = ", ".join(f"{table.name} {table.distance_text}" for table in tables[:3])
    return f"{kind}: total variation distance {number_text(mean)} on average; worst {worst}"


def sort_by_distance(tables: Iterable[ComparedTable]) -> tuple[ComparedTable, ...]:
    """Return compared tables sorted by distance, the largest first and NaN last."""
    return tuple(sorted(tables, key=lambda table: (isnan(table.distance), -table.distance)))


@dataclass(frozen=True)
class ClusteringQuality:
    """The quality of released centres on real rows, compared with k-means without privacy.

    rows    number of real rows that were compared
    nicv    mean squared distance of a row to the nearest released centre, in squared data units
    floor   the same of the centres of scikit-learn's k-means on these rows
    """

    rows: int
    nicv: float
    floor: float

    @property
    def ratio(self) -> float:
        """``nicv`` divided by ``floor``; NaN for a ``floor`` of 0."""
        return self.nicv / self.floor if self.floor > 0 else float("nan")

    def to_frame(self) -> Any:
        """Return a pandas frame with the lines NICV, NICV without privacy and their ratio, in the
        columns ``figure`` and ``value``."""
        import pandas as pd

        figures = {"nicv": self.nicv, "nicv without privacy": self.floor, "ratio": self.ratio}
        return pd.DataFrame(list(figures.items()), columns=["figure", "value"])

    @property
    def title(self) -> str:
        return f"Quality of released centres on {self.rows:,} real rows"

    def __repr__(self) -> str:
        return (
            f"{self.title}\n  {NOT_FOR_PUBLICATION}\n"
            f"  mean squared distance to the nearest centre: {number_text(self.nicv)}, without "
            f"privacy {number_text(self.floor)}: {number_text(self.ratio)} times"
        )

    def _repr_html_(self) -> str:
        return render("quality_centres.html.j2", report=self, note=NOT_FOR_PUBLICATION)
