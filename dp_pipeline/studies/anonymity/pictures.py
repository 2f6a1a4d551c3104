"""Pictures of the study: AUC, run time and homogeneous rows over K."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dp_pipeline.metrics.scorers import SCORERS
from dp_pipeline.studies.anonymity.summary import Summary
from dp_pipeline.studies.anonymity.systems import NO_SELECTION, known_systems
from dp_pipeline.studies.line_chart import BARS, Across, Line, Scale, line_chart
from dp_pipeline.studies.means import Mean
from dp_pipeline.studies.picture import Picture

OVER_K = Across("K: rows of every class, at least (0: nothing is promised)", is_log=False)

_SCORERS = {"logistic": "logistic regression", "svm": "SVM", "class_rate": "rates of classes"}


@dataclass(frozen=True)
class Shown:
    """A measure that is shown over K.

    words   in titles of pictures and tables
    label   of the vertical axis
    """

    use: str
    measure: str
    words: str
    label: str
    is_log: bool = False

    @property
    def file(self) -> str:
        """How a picture of it is called."""
        return self.measure if self.use == "release" else f"{self.measure}_{self.use}"


AUCS = tuple(
    Shown(use, f"auc_{scorer}", f"AUC by {_SCORERS[scorer]} ({use})", "AUC")
    for use in ("paper", "nested")
    for scorer in SCORERS
)
SECONDS = Shown(
    "release", "seconds", "seconds of one selection", "seconds (log scale)", is_log=True
)
HOMOGENEOUS = Shown("release", "homogeneous", "rows in classes with one label", "share of rows")


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: AUCs, seconds, homogeneous rows."""
    for dataset in summary.datasets:
        for shown in (*AUCS, SECONDS, HOMOGENEOUS):
            lines = _lines(summary, dataset, shown)
            if lines:
                yield _over_k(summary, dataset, shown, lines)


def _over_k(summary: Summary, dataset: str, shown: Shown, lines: list[Line]) -> Picture:
    title = f"{dataset}: {shown.words}"
    content = line_chart(
        lines,
        scale=_scale(summary, dataset, shown),
        title=title,
        footnote=BARS + ("Ranking included, one thread." if shown is SECONDS else ""),
        across=OVER_K,
    )
    return Picture(dataset, f"{dataset}_{shown.file}.png", title, content)


def _scale(summary: Summary, dataset: str, shown: Shown) -> Scale:
    everything = summary.mean(dataset, shown.use, NO_SELECTION, 0, shown.measure)
    if shown.is_log or everything is None:
        return Scale(shown.label, "log" if shown.is_log else "linear")
    title = known_systems()[NO_SELECTION].title
    return Scale(shown.label, "linear", ((everything.value, title),))


def _lines(summary: Summary, dataset: str, shown: Shown) -> list[Line]:
    """One line a method."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for k in summary.partitions(dataset):
            mean = summary.mean(dataset, shown.use, system.name, k, shown.measure)
            if mean is not None:
                found.append((str(k), mean))
        if found and system.name != NO_SELECTION:
            lines.append(Line(system.title, style, tuple(found)))
    return lines
