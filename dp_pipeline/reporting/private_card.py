"""The card of one release with an ε, in markdown: for whom it protects, at what price, what it is.

It is no part of the bundle: the sum of all charges grows, and a bundle is the same bytes for ever.
"""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.card_text import plain, points
from dp_pipeline.reporting.centre_table import centre_table
from dp_pipeline.reporting.charge_words import cost_text
from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.reporting.parameter_words import parameter_words
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings
from dp_pipeline.reporting.private_release import PrivateRelease
from dp_pipeline.reporting.promise_words import NOT_PROMISED
from dp_pipeline.reporting.released_content import content_limits, content_points, content_table
from dp_pipeline.reporting.rows import markdown_lines

MOST_MECHANISMS = 12
"""Lines about noise; there are more kinds of it only where scales differ charge by charge."""


MOST_COLUMNS = 4
"""Of a centre, beside its noisy rows."""


def private_card(release: PrivateRelease) -> str:
    """At most 80 lines: what speaks against it, whom it protects, what it costs, what is in it, how
    the noise was drawn, whether it may leave, what it is not, origin.
    """
    bundle = release.bundle
    parts = [
        f"# {plain(release.heading)}",
        *(plain(sentence) for sentence in release.about),
        *_warnings(release),
        "## Whom it protects",
        points([*release.protects, *release.costs]),
        "## What is in it",
        markdown_lines([("table", "lines"), *content_table(bundle)]),
        points(content_points(bundle)),
        *_centres(bundle),
        "## How the noise was drawn",
        plain(release.noise),
        _mechanisms(bundle),
        "## May it leave?",
        plain(release.fitness),
        "## What it is not",
        points([*content_limits(bundle), *_claims(bundle), *NOT_PROMISED]),
        "## Where it comes from",
        points([f"{name}: {text}" for name, text in _provenance(release).items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _warnings(release: PrivateRelease) -> tuple[str, ...]:
    """Before anything else is read: what the noisy counts say against the release."""
    warnings = bundle_warnings(release.spec, release.bundle)
    return (f"## {DOUBTFUL}", points(warnings)) if warnings else ()


def _centres(bundle: Bundle) -> tuple[str, ...]:
    """The first centres, with the noisy rows of each."""
    head, lines = centre_table(bundle.tables, most_columns=MOST_COLUMNS)
    if not lines:
        return ()
    more = len(next(iter(bundle.tables["centres"].values()))) - len(lines)
    written = markdown_lines([[plain(name) for name in head], *lines])
    return (f"{written}\n\nand {more} more centres." if more > 0 else written,)


def _mechanisms(bundle: Bundle) -> str:
    """One line a mechanism and scale: how many charges, and what they cost together."""
    groups: dict[tuple[str, str], list[Fraction]] = {}
    for spend, cost in zip(bundle.spends, bundle.costs, strict=True):
        groups.setdefault((spend.mechanism, number_text(float(spend.scale))), []).append(cost)
    lines = [
        (mechanism, scale, f"{len(costs):,}", cost_text(sum(costs, Fraction(0))))
        for (mechanism, scale), costs in groups.items()
    ]
    head = ("mechanism", "scale", "charges", bundle.currency.symbol)
    more = len(lines) - MOST_MECHANISMS
    written = markdown_lines([head, *lines[:MOST_MECHANISMS]])
    return f"{written}\n\nand {more} more scales." if more > 0 else written


def _claims(bundle: Bundle) -> list[str]:
    """What a class table says that it does not promise."""
    claims = bundle.tables.get("claims")
    if claims is None:
        return []
    told = zip(claims["claim"].tolist(), claims["promised"].tolist(), strict=True)
    return [f"Not promised: {claim}" for claim, promised in told if promised == "no"]


def _provenance(release: PrivateRelease) -> dict[str, str]:
    bundle = release.bundle
    facts = bundle.facts
    measuring, after = (parameter_words(facts[name]) for name in ("measuring", "postprocessing"))
    return {
        "Data set": facts["dataset"],
        "Population": release.spec.lineage,
        "Snapshot": facts["snapshot"],
        "Draw": f"number {int(facts['replicate']) + 1} of this release",
        "Parameters": f"{measuring}. Without a further look: {after}",
        "Code": facts["code"],
        "Release key": bundle.key,
        "Digest of the noisy answers": bundle.transcript,
    }
