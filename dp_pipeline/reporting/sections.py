"""Sections of a report about utility and releases: text and tables, in the order of the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.reporting.figures.picture import SIGNATURE, is_tall
from dp_pipeline.reporting.html import Markup, details, element, joined, table
from dp_pipeline.reporting.metrics import (
    Pivot,
    QualityRow,
    SummaryTable,
    metric_named,
    metrics_of,
    pivot,
)
from dp_pipeline.reporting.plausibility import DOUBTFUL
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.errors import BoundaryViolation

NOT_FOR_RELEASE = "NOT FOR RELEASE"
NOT_DP = "NOT DIFFERENTIALLY PRIVATE"
ANOTHER_EPSILON = "NOT THE ε THAT WAS ASKED"
BESIDE = "ALSO RELEASED WITHOUT ε"

MOST_OPEN = 12
"""Releases that a page lists without a click."""

_LONGEST_EXACT = 12


def alarm(releases: Sequence[ReleaseSummary], *, beside: Sequence[str] = ()) -> Markup:
    """Big letters when any draw may not leave, or when the same rows were released without ε;
    nothing otherwise.

    beside   those releases without ε, a text each
    """
    caveats = [one for one in releases if one.caveat]
    boxes = (
        _noise_alarm(releases),
        _caveats(NOT_DP, [one for one in caveats if not one.is_dp]),
        _caveats(ANOTHER_EPSILON, [one for one in caveats if one.is_dp]),
        _beside(beside),
    )
    return joined(boxes)


def _beside(releases: Sequence[str]) -> Markup:
    """What the ε of a page does not cover, though it is about the same persons."""
    if not releases:
        return Markup()
    words = (
        "The ε on this page is that of the releases on this page. The same rows were also released "
        "without differential privacy: what those tell is not bounded, alone or together with "
        "these."
    )
    named = element("ul", *(element("li", one) for one in releases))
    return element(
        "div", element("strong", BESIDE), element("p", words), named, class_="alarm", role="note"
    )


def _caveats(title: str, releases: Sequence[ReleaseSummary]) -> Markup:
    """A published method as it is: never under the promise of this page."""
    if not releases:
        return Markup()
    named: dict[str, list[str]] = {}
    for one in releases:
        named.setdefault(one.caveat, []).append(one.name)
    lines = [element("p", f"{', '.join(names)}: {why}.") for why, names in named.items()]
    return element("div", element("strong", title), *lines, class_="alarm", role="note")


def _noise_alarm(releases: Sequence[ReleaseSummary]) -> Markup:
    unfit = [one.name for one in releases if one.may_be_drawn_again]
    if not unfit:
        return Markup()
    how_many = (
        "Every draw" if len(unfit) == len(releases) else f"{len(unfit)} of {len(releases)} draws"
    )
    reason = (
        f"{how_many} on this page used noise that can be drawn again, such as seeded noise. "
        f"Whoever knows the seed can take the noise off: this protects nobody. "
        f"Marked below: {', '.join(unfit)}."
    )
    return element(
        "div", element("strong", NOT_FOR_RELEASE), element("p", reason), class_="alarm", role="note"
    )


def warnings(releases: Sequence[ReleaseSummary]) -> Markup:
    """What the noisy counts of releases say against them; nothing where they say nothing."""
    named: dict[str, list[str]] = {}
    for one in releases:
        for text in one.warnings:
            named.setdefault(text, []).append(one.name)
    if not named:
        return Markup()
    lines = [element("li", f"{', '.join(names)}: {text}") for text, names in named.items()]
    return element("section", element("h2", DOUBTFUL), element("ul", *lines, class_="warnings"))


def utility(rows: Sequence[QualityRow]) -> Markup:
    """A summary, and one table a metric, models × ε."""
    tables = [_utility_table(pivot(rows, metric)) for metric in metrics_of(rows)]
    summary = SummaryTable.of(rows)
    if summary is not None and len(tables) > 1:
        short = table(summary.caption, summary.head, summary.body, class_="numbers")
        tables = [short, details("Every metric at every ε", *tables)]
    if not tables:
        tables = [element("p", "No quality numbers yet.", class_="note")]
    if any(row.scale is not None for row in rows):
        words = "± is one standard deviation of the noise in the number itself (√2 · scale)."
        tables.append(element("p", words, class_="note"))
    return element("section", element("h2", "Utility"), *tables)


def _utility_table(numbers: Pivot) -> Markup:
    metric = metric_named(numbers.metric)
    caption = f"{metric.title}, {numbers.unit}; {metric.better}"
    texts = {text for model in numbers.models for text in numbers.texts(model)}
    if len(texts) == 1 and len(numbers.cells) > 1:
        return element("p", element("b", caption), f": {texts.pop()} for every model and ε.")
    head = ["Model", *(f"ε = {epsilon_text(epsilon)}" for epsilon in numbers.epsilons)]
    body = [(model, *numbers.texts(model)) for model in numbers.models]
    return table(caption, head, body, class_="numbers")


def pictures(images: Sequence[tuple[str, bytes]]) -> Markup:
    """Every picture inside the page itself, with its caption."""
    if not images:
        return Markup()
    figures = [_figure(caption, png) for caption, png in images]
    # Many panels in half of the page could not be read.
    class_ = "pictures large" if any(is_tall(png) for _, png in images) else "pictures"
    return element("section", element("h2", "Pictures"), element("div", *figures, class_=class_))


def _figure(caption: str, png: bytes) -> Markup:
    if not png.startswith(SIGNATURE):
        raise BoundaryViolation(f"picture {caption[:60]!r}: expected a PNG, got another format")
    data = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return element("figure", element("img", src=data, alt=caption), element("figcaption", caption))


def release_table(releases: Sequence[ReleaseSummary]) -> Markup:
    """What was asked, what was spent, and how: one row a release."""
    if not releases:
        nothing = element("p", "Nothing has been released yet.", class_="note")
        return element("section", element("h2", "Releases"), nothing)
    head = ("Model", "ε asked", "ε spent", "ε of evaluation", "State", "Snapshot", "Noise",
            "Fit for release")  # fmt: skip
    body = [
        (one.model, one.epsilon, one.spent, one.evaluation, one.state, one.snapshot, one.noise,
         _fitness(one))
        for one in releases
    ]  # fmt: skip
    words = (
        "Charged: drawn and paid for by this run. Resumed: finished under an earlier charge. "
        "Replayed: stored before, so nothing was read and nothing paid."
    )
    listed = [
        table("Every release on this page", head, body, class_="releases"),
        element("p", words, class_="note"),
    ]
    charges = [_charges(one) for one in releases]
    if len(releases) > MOST_OPEN:
        listed = [details(f"All {len(releases)} releases", *listed)]
        charges = [details(f"The charges of {len(releases)} releases", *charges)]
    return element(
        "section",
        element("h2", "Releases"),
        *listed,
        element("h2", "What was measured"),
        *charges,
    )


def _fitness(release: ReleaseSummary) -> Markup:
    if release.fit_for_release:
        return element("span", "yes", class_="fit")
    return element("span", f"no: {NOT_FOR_RELEASE if release.is_dp else NOT_DP}", class_="unfit")


def _charges(release: ReleaseSummary) -> Markup:
    many = len(release.spends)
    unfit = NOT_FOR_RELEASE if release.is_dp else NOT_DP
    mark = "" if release.fit_for_release else element("span", unfit, class_="unfit")
    summary = joined([f"{release.name}: {many} charge{'s' * (many != 1)} ", mark])
    head = ("Question", "Mechanism", "Sensitivity", "Scale", release.currency.symbol)
    body = [
        (one.what, one.mechanism, f"{one.sensitivity:,}", _exact(one.scale), _exact(cost))
        for one, cost in zip(release.spends, release.costs, strict=True)
    ]
    # What is asked without noise has no ε, so the others add up to none of the whole.
    foot = ("Sum", "", "", "", _exact(release.charged) if release.is_dp else "none")
    charges = table("Charges, in order", head, body, foot=foot, class_="charges")
    return details(summary, *_steps(release), charges)


def _steps(release: ReleaseSummary) -> tuple[Markup, ...]:
    """What the charges of a table were for, where that is more than one thing."""
    if len(release.steps) < 2:
        return ()
    head = ("Step", "Charges", release.currency.symbol, "Share")
    body = [
        (one.name, f"{one.charges:,}", _exact(one.cost), f"{float(one.share):.1%}")
        for one in release.steps
    ]
    return (table("Charges by what they were for", head, body, class_="numbers"),)


def _exact(value: Fraction) -> str:
    """Exact text where it is short; else three digits with the exact fraction below."""
    text = epsilon_text(value)
    if len(text) <= _LONGEST_EXACT:
        return text
    return joined([f"≈ {number_text(float(value))}", element("span", text, class_="exact")])
