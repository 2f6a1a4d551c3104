"""Metric: what a quality number is called, and what a person has to know to read it."""

from __future__ import annotations

from dataclasses import dataclass, replace

RATIO_UNIT = "1 = without privacy"
_SHARE, _HIGHER = "1 = the same sets", "higher is better"
_SETS = {2: "pairs of", 3: "sets of 3", 5: "sets of 5", 6: "sets of 6"}
_WRONG = "Share of true rows that {} learned from synthetic rows gets wrong"


@dataclass(frozen=True)
class Metric:
    """One kind of quality number.

    short       column header of a narrow table
    title       what it is, in words
    unit        its own unit, or None where the row says it
    better      which values are better, in words
    reference   the value that a method without privacy has, or None
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
    "rms_metres": Metric(
        "√NICV in m", "Root mean square distance to the nearest released centre, approximate"
    ),
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
            f"AVD-{k}",
            f"Total variation distance to the true table, mean over {sets} attributes",
        )
        for k, sets in _SETS.items()
    },
    "misclassified_svm": Metric("SVM", _WRONG.format("a support vector machine")),
    "misclassified_logistic": Metric("logistic", _WRONG.format("logistic regression")),
    "withheld": Metric("withheld", "Share of the rows whose class is not published"),
    "dcr": Metric(
        "DCR",
        "Share of attributes in which a synthetic row differs from the nearest real one",
        better="a sanity figure, no guarantee",
    ),
}

METRIC_ORDER = tuple(_METRICS)
"""Metrics in the order in which a person wants to read them."""


def metric_named(name: str) -> Metric:
    """The metric called ``name``; one that is not known here keeps its own name.

    A metric of one attribute is named with it: ``misclassified_svm/income``.

    >>> metric_named("nicv").short, metric_named("auc").short
    ('NICV', 'auc')
    >>> metric_named("misclassified_svm/income").short
    'SVM: income'
    """
    kind, _, attribute = name.partition("/")
    found = _METRICS.get(kind)
    if found is None or not attribute:
        return found or Metric(name, name)
    short, title = (f"{words}: {attribute}" for words in (found.short, found.title))
    return replace(found, short=short, title=title)


def metric_rank(name: str) -> tuple[int, str]:
    """A sort key: known metrics in reading order, the others after them by name."""
    kind = name.partition("/")[0]
    return (METRIC_ORDER.index(kind) if kind in METRIC_ORDER else len(METRIC_ORDER), name)
