"""Pictures of the study: distances and misclassification over ε, run times, memory."""

from __future__ import annotations

from collections.abc import Iterator

from dp_pipeline.studies.bar_chart import bar_chart
from dp_pipeline.studies.line_chart import BARS, Line, Scale, line_chart
from dp_pipeline.studies.means import Mean
from dp_pipeline.studies.picture import Picture
from dp_pipeline.studies.release.cell import BASELINES
from dp_pipeline.studies.release.summary import Summary
from dp_pipeline.studies.release.systems import known_systems

_METHODS = {"svm": "SVM", "logistic": "logistic regression"}
_BASELINES = {"no_privacy": "no privacy", "majority": "majority"}
_COSTS = {
    "seconds": (
        "seconds of one fit",
        "seconds (log scale)",
        "Mean over ε; one thread, wall clock, without reading the rows.",
    ),
    "peak_mb": (
        "peak memory of one fit",
        "MB (log scale)",
        "Largest over ε; what Python and NumPy allocate for the fit, without the rows.",
    ),
}


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: distances, then errors of classifiers, then costs."""
    for dataset in summary.datasets:
        for measure in summary.measures:
            words = measure_title(measure)
            if words is not None:
                yield from _over_epsilon(summary, dataset, measure, words)
        for measure in _COSTS:
            yield from _costs(summary, dataset, measure)


def measure_title(measure: str) -> str | None:
    """What a measure that is shown over ε is called; None for the others.

    >>> measure_title("avd_3"), measure_title("misclassified_svm/sex"), measure_title("seconds")
    ('average 3-way variation distance', 'misclassification of sex by SVM', None)
    """
    what, _, target = measure.partition("/")
    if what.startswith("avd_"):
        return f"average {what.removeprefix('avd_')}-way variation distance"
    method = _METHODS.get(what.removeprefix("misclassified_"))
    if method is None:
        return None
    if not target:
        return f"misclassification by {method}, mean over targets"
    return f"misclassification of {target} by {method}"


def _over_epsilon(summary: Summary, dataset: str, measure: str, words: str) -> Iterator[Picture]:
    lines = _lines(summary, dataset, measure)
    if not lines:
        return
    title = f"{dataset}: {words}"
    content = line_chart(
        lines,
        scale=_scale(summary, dataset, measure),
        title=title,
        footnote=BARS + "Lower is better.",
    )
    yield Picture(dataset, f"{dataset}_{measure.replace('/', '_')}.png", title, content)


def _scale(summary: Summary, dataset: str, measure: str) -> Scale:
    if measure.startswith("avd_"):
        return Scale("AVD (log scale)", "log")
    means = {name: summary.mean(dataset, name, "", measure) for name in BASELINES}
    references = tuple(
        (mean.value, _BASELINES[name]) for name, mean in means.items() if mean is not None
    )
    return Scale("share of wrong answers", "linear", references)


def _lines(summary: Summary, dataset: str, measure: str) -> list[Line]:
    """One line a system; not of variants as published, whose ε is another one."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for epsilon in summary.epsilons(dataset):
            mean = summary.mean(dataset, system.name, epsilon, measure)
            if mean is not None:
                found.append((epsilon, mean))
        if found and not system.is_published:
            lines.append(Line(system.title, style, tuple(found)))
    return lines


def _costs(summary: Summary, dataset: str, measure: str) -> Iterator[Picture]:
    words, label, footnote = _COSTS[measure]
    known = known_systems()
    bars = [
        (known[system].title, value)
        for system in summary.systems(dataset)
        if (value := cost(summary, dataset, system, measure)) is not None
    ]
    if bars:
        title = f"{dataset}: {words}"
        content = bar_chart(bars, label=label, title=title, footnote=footnote)
        yield Picture(dataset, f"{dataset}_{measure}.png", title, content)


def cost(summary: Summary, dataset: str, system: str, measure: str) -> float | None:
    """Mean ``seconds`` of one fit over ε, or the largest ``peak_mb``; None where not measured."""
    found = [
        mean.value
        for epsilon in summary.epsilons(dataset)
        if (mean := summary.mean(dataset, system, epsilon, measure)) is not None
    ]
    if not found:
        return None
    return max(found) if measure == "peak_mb" else sum(found) / len(found)
