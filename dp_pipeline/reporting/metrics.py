"""Quality numbers of releases, their metrics, and tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.metrics.disclosure import DisclosureReport
from dp_pipeline.metrics.marginals import MOST_COMPARED, MOST_PLACES
from dp_pipeline.reporting.text import noisy_text, number_text
from dp_pipeline.results.bundle import Bundle

RATIO_UNIT = "1 = without privacy"
_HIGHER = "higher is better"
_SHARE = "1 = the same sets"
_GUESSING = "0.5 = guessing"
_SETS = {2: "pairs of", 3: "sets of 3", 5: "sets of 5", 6: "sets of 6"}
_TABLES_OF_UNITS = {
    "units": ("units", "mean over pairs of attributes of units, with their size"),
    "parts": ("parts", "mean over pairs of attributes of parts"),
    "pairs": ("pairs in a unit", "mean over attributes of two parts of one unit"),
    "unit_part": ("unit × part", "mean over pairs of an attribute of units with one of parts"),
    "size": ("size", "of the number of parts of a unit"),
}
_WRONG = "Share of true rows that {} learned from synthetic rows gets wrong"


@dataclass(frozen=True)
class Metric:
    """A kind of quality number.

    short       name as a column header of a narrow table
    title       name in words
    unit        unit of the values; None where each number has a unit of its own
    better      which values are better, in words
    reference   value of a method without privacy; None if it is not known
    """

    short: str
    title: str
    unit: str | None = None
    better: str = "lower is better"
    reference: float | None = None


_METRICS = {
    "nicv_ratio": Metric(
        "NICV ratio", "NICV relative to k-means without privacy", RATIO_UNIT, reference=1.0
    ),
    "nicv": Metric("NICV", "Mean squared distance to the nearest released centre (NICV)"),
    "rms_metres": Metric("√NICV in m", "Root mean square distance to the nearest released centre"),
    "f_label": Metric("F (label)", "F-measure of clusters against the label", _SHARE, _HIGHER),
    "ari_label": Metric(
        "ARI (label)", "Adjusted Rand index of clusters against the label", _SHARE, _HIGHER
    ),
    "f_kmeans": Metric(
        "F (k-means)", "F-measure against k-means without privacy", _SHARE, _HIGHER, 1.0
    ),
    "ari_kmeans": Metric(
        "ARI (k-means)", "Adjusted Rand index against k-means without privacy", _SHARE, _HIGHER, 1.0
    ),
    "rcp": Metric("RCP", "NICV lower than that of EUGkM (RCP)", "percent", _HIGHER),
    "nicv_floor": Metric("NICV floor", "NICV of k-means without privacy", better="for comparison"),
    "auc_class_rate": Metric(
        "AUC", "AUC of the rates of released classes", "1 = perfect, 0.5 = chance", _HIGHER
    ),
    **{
        f"avd_{k}": Metric(
            f"AVD-{k}", f"Total variation distance to the true table, mean over {sets} attributes"
        )
        for k, sets in _SETS.items()
    },
    **{
        f"avd_{kind}": Metric(short, f"Total variation distance to the true table, {of}")
        for kind, (short, of) in _TABLES_OF_UNITS.items()
    },
    "misclassified_svm": Metric("SVM", _WRONG.format("a support vector machine")),
    "misclassified_logistic": Metric("logistic", _WRONG.format("logistic regression")),
    "withheld": Metric("withheld", "Share of the rows whose class is not published"),
    "dcr": Metric(
        "DCR",
        "Share of attributes in which a synthetic row differs from the nearest real one, mean over "
        f"{MOST_PLACES:,} of them at most",
        better="a sanity figure, no guarantee",
    ),
    # Of k-anonymous releases.
    "auc": Metric(
        "AUC", "AUC of logistic regression, columns chosen inside each fold", _GUESSING, _HIGHER
    ),
    "auc_paper": Metric(
        "AUC as in papers",
        "AUC of support vectors, columns chosen on all rows, as the papers do",
        _GUESSING,
        _HIGHER,
    ),
    "kept": Metric("kept", "Columns kept, mean over the folds", "columns", _HIGHER),
    "seconds": Metric("run time", "Wall time of one selection, in seconds", "seconds"),
}

METRIC_ORDER = tuple(_METRICS)
"""Metrics in the order in which a person wants to read them."""


def find_metric(name: str) -> Metric:
    """Return the metric with a name; for an unknown name a new one with that title.

    A name may end with an attribute, as in ``misclassified_svm/income``.

    >>> find_metric("nicv").short, find_metric("new").short
    ('NICV', 'new')
    >>> find_metric("misclassified_svm/income").short
    'SVM: income'
    """
    kind, _, attribute = name.partition("/")
    metric = _METRICS.get(kind)
    if metric is None or not attribute:
        return metric or Metric(name, name)
    short, title = (f"{words}: {attribute}" for words in (metric.short, metric.title))
    return replace(metric, short=short, title=title)


def metric_rank(name: str) -> tuple[int, str]:
    """Return a sort key of a metric's name: known metrics in reading order, then others by name."""
    kind = name.partition("/")[0]
    return (METRIC_ORDER.index(kind) if kind in METRIC_ORDER else len(METRIC_ORDER), name)


MOST_METRICS = 3
"""Most metric columns of one table: with model and ε that makes five."""


@dataclass(frozen=True)
class QualityRow:
    """One quality number of one release.

    epsilon   ε of the release, without that of its evaluation; of a k-anonymous one its K
    metric    name of a metric that ``find_metric`` takes
    scale     of Laplace noise with the same deviation as the number's noise, if it was paid for
              with ε; None for an exact number on public rows
    unit      of value and scale
    error     bound of the expected difference of a sample's number from that of all rows; None
              where all rows were used
    """

    model: str
    epsilon: Fraction
    metric: str
    value: float
    scale: float | None
    unit: str
    error: float | None = None

    @property
    def about(self) -> Metric:
        return find_metric(self.metric)

    @property
    def reading(self) -> str:
        """The unit of the number, and which values are better, as text.

        >>> QualityRow("mst", Fraction(1), "avd_2", 0.1, None, "share").reading
        'share; lower is better'
        """
        return f"{self.about.unit or self.unit}; {self.about.better}"

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the number's noise, √2·scale; None for an exact number."""
        return None if self.scale is None else math.sqrt(2) * self.scale

    @property
    def text(self) -> str:
        """The value as text; with ± its error and the words ``of a sample`` if it is of a sample,
        else with ± the noise's deviation if it has noise.

        >>> QualityRow("dpqt_kmeans", Fraction(1), "nicv", 12.34, 0.29, "rows").text
        '12.3 ± 0.4'
        """
        if self.error is not None:
            return f"{noisy_text(self.value, self.error)} of a sample"
        if self.deviation is None:
            return number_text(self.value)
        return noisy_text(self.value, self.deviation)


def bought_rows(bundle: Bundle) -> list[QualityRow]:
    """Return the noisy quality numbers of a stored release, which its evaluation has paid for."""
    epsilon = Fraction(bundle.facts["epsilon"])
    return [
        QualityRow(bundle.model, epsilon, metric, number.value, number.scale, number.unit)
        for metric, number in bundle.quality.items()
    ]


def to_documents(rows: Sequence[QualityRow]) -> list[dict[str, Any]]:
    """Return quality rows as dicts of JSON values, which ``from_documents`` reads."""
    return [{**vars(row), "epsilon": str(row.epsilon)} for row in rows]


def from_documents(documents: Sequence[Mapping[str, Any]]) -> list[QualityRow]:
    """Return the quality rows that ``to_documents`` wrote as JSON values."""
    return [
        QualityRow(**{**document, "epsilon": Fraction(document["epsilon"])})
        for document in documents
    ]


def sample_words(rows: Iterable[QualityRow]) -> str:
    """Return sentences that say what sample the numbers are of; empty if all rows were used."""
    if all(row.error is None for row in rows):
        return ""
    return (
        f"Of a sample: {MOST_COMPARED:,} rows of a table, by a fixed seed. ± is how far the number "
        "is from that of all rows, at most in expectation."
    )


@dataclass(frozen=True)
class Pivot:
    """The quality numbers of one metric as a table: models down, ε or K ascending across.

    unit    unit of the metric, or else the units of the numbers
    cells   (model, level) → its numbers, one for each replicate; pairs without numbers are absent
    """

    metric: str
    unit: str
    models: tuple[str, ...]
    levels: tuple[Fraction, ...]
    cells: Mapping[tuple[str, Fraction], tuple[QualityRow, ...]]

    @property
    def about(self) -> Metric:
        return find_metric(self.metric)

    @property
    def rows(self) -> list[QualityRow]:
        return [row for cell in self.cells.values() for row in cell]

    def texts(self, model: str) -> tuple[str, ...]:
        """Return a text with the model's numbers for each of ``levels``; a dash for none."""
        return tuple(
            "; ".join(row.text for row in self.cells.get((model, level), ())) or "–"
            for level in self.levels
        )

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The name and the texts of each model."""
        return [(model, *self.texts(model)) for model in self.models]

    @property
    def only_text(self) -> str:
        """The text that all cells have; empty if texts differ or there is only one cell."""
        texts = {text for _, *texts in self.lines for text in texts}
        return texts.pop() if len(texts) == 1 < len(self.cells) else ""


def level_text(level: Fraction, symbol: str, prices: Mapping[Fraction, str] | None = None) -> str:
    """Return an ε or K as text, with the price of a release at it where that differs from ε.

    >>> level_text(Fraction(1), "ε", {Fraction(1): "price ρ = 0.5"})
    'ε = 1, price ρ = 0.5'
    """
    price = (prices or {}).get(level)
    return f"{symbol} = {epsilon_text(level)}" + (f", {price}" if price else "")


def sort_rows(rows: Iterable[QualityRow]) -> tuple[QualityRow, ...]:
    """Return rows sorted by metric in reading order, then model, then ε ascending."""
    return tuple(sorted(rows, key=lambda r: (metric_rank(r.metric), r.model, r.epsilon)))


def metrics_of(rows: Iterable[QualityRow]) -> tuple[str, ...]:
    """Return the names of the metrics of some rows, each once, in reading order."""
    return tuple(sorted({row.metric for row in rows}, key=metric_rank))


def pivot(rows: Iterable[QualityRow], metric: str) -> Pivot:
    """Return a table, models × ε or K, of the quality rows of one metric; empty without any."""
    chosen = [row for row in sort_rows(rows) if row.metric == metric]
    cells: dict[tuple[str, Fraction], tuple[QualityRow, ...]] = {}
    for row in chosen:
        place = (row.model, row.epsilon)
        cells[place] = (*cells.get(place, ()), row)
    return Pivot(
        metric=metric,
        unit=find_metric(metric).unit or ", ".join(sorted({row.unit for row in chosen})),
        models=tuple(sorted({row.model for row in chosen})),
        levels=tuple(sorted({row.epsilon for row in chosen})),
        cells=cells,
    )


MOST_NUMBERS = 4
"""Most numbers of one line: with the model that makes five columns."""


@dataclass(frozen=True)
class SummaryTable:
    """A table of the quality of every model at the largest ε that was evaluated, as texts.

    caption   a description of the table
    head      ``model`` and up to ``MOST_NUMBERS`` metrics, the most important first
    body      a line for each model, the best by the first metric first
    """

    caption: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[QualityRow], prices: Mapping[Fraction, str]) -> SummaryTable | None:
        """Return the summary of those quality numbers that have the largest ε; None without any.

        prices   ε → text with the price of a release at it, if that differs from ε
        """
        if not rows:
            return None
        epsilon = max(row.epsilon for row in rows)
        here = [row for row in rows if row.epsilon == epsilon]
        metrics = metrics_of(here)[:MOST_NUMBERS]
        tables = [pivot(here, metric) for metric in metrics]
        models = sorted({row.model for row in here}, key=lambda model: _rank(here, metrics, model))
        body = [(model, *((table.texts(model) or "–")[0] for table in tables)) for model in models]
        return cls(
            caption=f"Every model at {level_text(epsilon, 'ε', prices)}, the best first",
            head=("model", *(find_metric(metric).short for metric in metrics)),
            body=tuple(body),
        )


def _rank(
    rows: Sequence[QualityRow], metrics: Sequence[str], model: str
) -> tuple[tuple[int, float], str]:
    """Return a sort key that puts better models first: by the mean of the first of ``metrics`` that
    a model has numbers of, then by name; models without any come last."""
    for place, metric in enumerate(metrics):
        values = [row.value for row in rows if row.model == model and row.metric == metric]
        if values and not np.isnan(values).all():
            sign = -1 if find_metric(metric).better == "higher is better" else 1
            return (place, sign * float(np.nanmean(values))), model
    return (len(metrics), 0.0), model


REFERENCE = "eug_kmeans"
"""The model that RCP compares with."""


def relative_rows(rows: Iterable[QualityRow]) -> tuple[QualityRow, ...]:
    """Return new rows of metric ``rcp`` alone: by how many percent each exact NICV is below the
    mean NICV of the model ``REFERENCE`` at the same ε.

    Noisy numbers have none, as a quotient would hide their noise, and each is clipped at a distance
    of its own model's; nor have those at an ε where ``REFERENCE`` was not evaluated."""
    cells = pivot([row for row in rows if row.scale is None], "nicv").cells
    relative = []
    for (model, epsilon), cell in cells.items():
        if model != REFERENCE and (REFERENCE, epsilon) in cells:
            reference = float(np.mean([row.value for row in cells[REFERENCE, epsilon]]))
            for row in cell:
                value = rcp(reference=reference, candidate=row.value)
                relative.append(QualityRow(model, epsilon, "rcp", value, None, "percent"))
    return tuple(relative)


_COUNTS = {
    *(measure.name for measure in fields(DisclosureReport) if measure.type is int),
    "containment_k",
}
"""Measures of a k-anonymous release that are integers, unless they are missing or infinite."""


def measure_text(value: float | None, name: str) -> str:
    """Return the measure called ``name`` of a k-anonymous release as text; a dash for None or NaN,
    and ``no bound`` for an infinite one.

    >>> [measure_text(1234.0, "rows"), measure_text(0.25, "alpha"), measure_text(math.inf, "alpha")]
    ['1,234', '0.250', 'no bound']
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if name in _COUNTS else number_text(value)


def share_text(part: float, total: float) -> str:
    """Return ``part`` as a percentage of ``total``, a text with three digits; a dash for a total
    of 0.

    >>> share_text(1, 8), share_text(1, 40000), share_text(0, 8)
    ('12.5 %', '0.00250 %', '0 %')
    """
    return f"{number_text(100 * part / total)} %" if total else "–"
