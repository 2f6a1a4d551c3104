"""The card of one k-anonymous release, in markdown: it lies beside the table that it is about."""

from __future__ import annotations

from dp_pipeline.reporting.k_anonymous_promise import (
    LIMITS,
    NO_EPSILON,
    AnonymousRelease,
    columns_text,
    heading,
    left_out_text,
    measure_text,
    measure_words,
    promises,
)
from dp_pipeline.reporting.metrics import FIGURES, markdown_lines
from dp_pipeline.reporting.text import number_text, plain, points


def release_card(release: AnonymousRelease) -> str:
    """At most 80 lines: what is promised, what is not, measures, origin.

    Raises BoundaryViolation where the measures contradict the promise, and for figures of
    sensitive rows or labels of those that were left out.
    """
    release.require_honest()
    parts = [
        f"# {heading(release)}",
        *_about(release),
        "## What it promises",
        points([*promises(release), columns_text(release), left_out_text(release)]),
        "## What it does not promise",
        plain(NO_EPSILON),
        _limits(release),
        "## What was measured on this release",
        _measures(release),
        *_tried(release),
        "## Where it comes from",
        points([f"{name}: {text}" for name, text in _provenance(release).items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _about(release: AnonymousRelease) -> tuple[str, ...]:
    title = f"{release.title}, by {release.method}: {release.summary}."
    if not release.is_release:
        rows = "Benchmark: the rows are public."
    elif release.allowed:
        rows = (
            "The rows are sensitive. The data set file allows releases without ε by name "
            "(allow_not_dp); every later card of this population says that there was one."
        )
    else:
        rows = "The rows are sensitive and nobody allowed this: it must not leave."
    return plain(title), plain(rows)


def _limits(release: AnonymousRelease) -> str:
    lines = [
        f"- **{one.name}.** {plain(one.words)} **{plain(one.here(release))}**" for one in LIMITS
    ]
    return "\n".join(lines)


def _measures(release: AnonymousRelease) -> str:
    lines = [
        (f"{name}: {words}" if (words := measure_words(name)) else name, measure_text(name, value))
        for name, value in release.measures.items()
    ]
    return markdown_lines([("measure", "value"), *lines])


def _tried(release: AnonymousRelease) -> tuple[str, ...]:
    """What classifiers learned from it, where that is known."""
    known = [
        (figure.title, number_text(release.figures[name]))
        for name, figure in FIGURES.items()
        if name in release.figures
    ]
    return (markdown_lines([("tried with it", "value"), *known]),) if known else ()


def _provenance(release: AnonymousRelease) -> dict[str, str]:
    own = {"Data set": release.dataset, "Population": release.lineage}
    return {**own, **release.provenance}
