"""What a report promises, to whom, and what it does not: the same words on every page."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.reporting.markup import Markup, element, joined
from dp_pipeline.reporting.promise_words import (
    NOT_PROMISED,
    PURPOSE,
    at_delta,
    difference_words,
    unit_words,
)
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.spec import DatasetSpec


def protected_box(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> Markup:
    """Who is protected, against what comparison, and at what price so far."""
    ceiling = "none declared" if spec.ceiling is None else f"ε = {epsilon_text(spec.ceiling)}"
    if spec.ceiling is not None and spec.delta is not None:
        ceiling = at_delta(ceiling, spec, spec.currency.amount_of(spec.ceiling))
    facts = {
        "Unit": unit_words(spec),
        "Compared with": f"data where {difference_words(spec)}",
        "Purpose": PURPOSE[spec.purpose],
        "On this page": _together(spec, releases),
        "Ceiling": f"{ceiling} for everything ever drawn from population {spec.lineage}"
        if spec.ceiling is not None
        else f"{ceiling} for population {spec.lineage}",
    }
    rows = [
        part for name, text in facts.items() for part in (element("dt", name), element("dd", text))
    ]
    return element(
        "section",
        element("h2", "Who is protected", id="protected"),
        element("dl", *rows),
        class_="protected",
        aria_labelledby="protected",
    )


def _together(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> str:
    if not releases:
        return "nothing released, nothing spent"
    fit = [release for release in releases if release.fit_for_release]
    total = sum((release.charged for release in fit), Fraction(0))
    cost = f"ε = {epsilon_text(spec.currency.epsilon_of(total))}"
    if spec.delta is not None:
        cost = at_delta(cost, spec, total)
    text = f"{len(fit)} fit for release; together they cost {cost} at most"
    unfit = len(releases) - len(fit)
    return f"{text}. Not counted: {unfit} not for release" if unfit else text


def promise(spec: DatasetSpec) -> Markup:
    """What this does and does not promise."""
    what = (
        "Each release that is fit for release is ε-differentially private for the unit "
        f"declared above ({spec.protection}), compared with data where {difference_words(spec)}. "
        "Between the two, no possible result is more than e",
        element("sup", "ε"),
        " times as likely. The ε is the one in the column “ε spent”; it holds against any other "
        "knowledge and any computation, and releases add up.",
        _concentrated(spec),
    )
    not_promised = [element("li", words) for words in NOT_PROMISED]
    if not spec.is_release:
        exact = "Exact numbers on this page are not private; they may be shown of public rows only."
        not_promised.insert(0, element("li", exact))
    return element(
        "section",
        element("h2", "What this does and does not promise"),
        element("p", joined(what)),
        element("ul", *not_promised),
        class_="promise",
    )


def _concentrated(spec: DatasetSpec) -> str:
    """What is said besides where the population pays in ρ; nothing elsewhere."""
    if spec.delta is None:
        return ""
    return (
        " This population pays in ρ of zero-concentrated differential privacy: the ρ add up, not "
        "the ε, and what they add up to is (ε, δ)-differentially private with the ε shown above "
        f"and δ = {delta_text(spec.delta)}. Where a δ stands beside an ε, a result may be more "
        "likely than that by δ at most."
    )
