"""Pictures of the study: quality over ε and run times, one set a data set."""

from __future__ import annotations

from collections.abc import Iterator

from dp_pipeline.studies.bar_chart import bar_chart
from dp_pipeline.studies.clustering.summary import Summary
from dp_pipeline.studies.clustering.systems import Planning, known_systems
from dp_pipeline.studies.line_chart import BARS, Line, Scale, line_chart
from dp_pipeline.studies.means import Mean
from dp_pipeline.studies.picture import Picture

_OF_N = {
    "declared": "N in formulas is the declared number of rows.",
    "paid": "N in formulas is a noisy count, paid for.",
    "none": "No formula has N.",
}

_SCALES = {
    "nicv_ratio": (
        "NICV ratio",
        Scale("NICV ÷ NICV without privacy (log scale)", "log", ((1.0, "without privacy"),)),
    ),
    "rcp": ("RCP against EUGkM", Scale("RCP in percent", "signed log", ((0.0, "as EUGkM"),))),
    "f_label": ("F-measure, classes: labels", Scale("F-measure (higher is better)", "linear")),
    "f_kmeans": (
        "F-measure, classes: k-means without privacy",
        Scale("F-measure (higher is better)", "linear"),
    ),
}


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: every measure over ε in every planning, then run times."""
    for dataset in summary.datasets:
        for planning in summary.plannings:
            yield from _over_epsilon(summary, dataset, planning)
        yield _run_times(summary, dataset)


def _over_epsilon(summary: Summary, dataset: str, planning: Planning) -> Iterator[Picture]:
    for measure, (words, scale) in _SCALES.items():
        lines = _lines(summary, dataset, planning, measure)
        if lines:
            title = f"{dataset}, N {planning}: {words}"
            footnote = BARS + _OF_N[planning]
            content = line_chart(lines, scale=scale, title=title, footnote=footnote)
            yield Picture(dataset, f"{dataset}_{measure}_{planning}.png", title, content)


def _lines(summary: Summary, dataset: str, planning: Planning, measure: str) -> list[Line]:
    """One line a system; not of variants as published, whose ε is another one."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for epsilon in summary.epsilons(dataset):
            mean = summary.mean(dataset, system.name, planning, epsilon, measure)
            if mean is not None:
                found.append((epsilon, mean))
        if found and not system.is_published:
            lines.append(Line(system.title, style, tuple(found)))
    return lines


def _run_times(summary: Summary, dataset: str) -> Picture:
    title = f"{dataset}: seconds of one fit"
    known = known_systems()
    bars = [
        (known[system].title, run_time(summary, dataset, system))
        for system in summary.systems(dataset)
    ]
    footnote = "Mean over ε and plannings; one thread, wall clock, without reading the rows."
    content = bar_chart(bars, label="seconds (log scale)", title=title, footnote=footnote)
    return Picture(dataset, f"{dataset}_seconds.png", title, content)


def run_time(summary: Summary, dataset: str, system: str) -> float:
    """Mean seconds of one fit, over ε and plannings."""
    found = [
        measures["seconds"].value
        for (name, other, _, _), measures in summary.means.items()
        if (name, other) == (dataset, system)
    ]
    return sum(found) / len(found)
