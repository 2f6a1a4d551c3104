"""What a report promises, to whom, and what it does not: the same words on every page."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.reporting.markup import Markup, element, joined
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.protection import RowsOfPerson
from dp_pipeline.schema.spec import DatasetSpec

_PURPOSE = {
    "benchmark": "Benchmark: the rows are public, so exact numbers about them are shown here.",
    "release": "Release: the rows are sensitive. Every number here that depends on them was "
    "drawn with noise and paid for with ε; exact ones are not shown.",
}

_NOT_PROMISED = (
    "Run time is not covered: how long a run took may depend on the rows.",
    "Derived copies are not detected: the same persons under another name, in another "
    "file, have another account.",
    "Choosing ε, a model or its parameters by looking at exact numbers of sensitive rows "
    "is not covered.",
    "A draw from seeded noise or from a source not fit for release is marked NOT FOR RELEASE: "
    "it shows how a method works and protects nobody.",
)


def protected_box(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> Markup:
    """Who is protected, against what comparison, and at what price so far."""
    ceiling = "none declared" if spec.ceiling is None else f"ε = {epsilon_text(spec.ceiling)}"
    if spec.ceiling is not None and spec.delta is not None:
        ceiling = _at_delta(ceiling, spec, spec.currency.amount_of(spec.ceiling))
    facts = {
        "Unit": _unit(spec),
        "Compared with": f"data where {_difference(spec)}",
        "Purpose": _PURPOSE[spec.purpose],
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


def _unit(spec: DatasetSpec) -> str:
    if isinstance(spec.protection, RowsOfPerson):
        return (
            f"one person: all rows with the same {spec.protection.column}, "
            f"of which at most {spec.protection.at_most} are used"
        )
    return "one row"


def _difference(spec: DatasetSpec) -> str:
    unit = "person" if isinstance(spec.protection, RowsOfPerson) else "row"
    if spec.relation == "replace_one":
        return f"any one {unit} is replaced by another (replace one)"
    return f"any one {unit} is missing or added (add/remove)"


def _at_delta(epsilon: str, spec: DatasetSpec, rho: Fraction) -> str:
    return f"{epsilon} at δ = {delta_text(spec.delta or Fraction(0))} (ρ = {epsilon_text(rho)})"


def _together(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> str:
    if not releases:
        return "nothing released, nothing spent"
    fit = [release for release in releases if release.fit_for_release]
    total = sum((release.charged for release in fit), Fraction(0))
    cost = f"ε = {epsilon_text(spec.currency.epsilon_of(total))}"
    if spec.delta is not None:
        cost = _at_delta(cost, spec, total)
    text = f"{len(fit)} fit for release; together they cost {cost} at most"
    unfit = len(releases) - len(fit)
    return f"{text}. Not counted: {unfit} not for release" if unfit else text


def promise(spec: DatasetSpec) -> Markup:
    """What this does and does not promise."""
    what = (
        "Each release that is fit for release is ε-differentially private for the unit "
        f"declared above ({spec.protection}), compared with data where {_difference(spec)}. "
        "Between the two, no possible result is more than e",
        element("sup", "ε"),
        " times as likely. The ε is the one in the column “ε spent”; it holds against any other "
        "knowledge and any computation, and releases add up.",
        _concentrated(spec),
    )
    not_promised = [element("li", words) for words in _NOT_PROMISED]
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
