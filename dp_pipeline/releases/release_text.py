"""Texts about a release: a description of its model or method, and its card."""

from pathlib import Path

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import discovery_price
from dp_pipeline.files import write_private
from dp_pipeline.models import build_model
from dp_pipeline.models.base import declared_guarantee, price
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline.releases.domain_release import DomainRelease, declared_discovery
from dp_pipeline.releases.release import Release, other_non_dp_releases
from dp_pipeline.releases.replay import exact_quality
from dp_pipeline.reporting.pages import card
from dp_pipeline.reporting.releases import ReportedPrivateRelease, ReportedRelease
from dp_pipeline.results.bundle import Bundle


def describe(spec: DatasetSpec, kind: type[Release], name: str) -> str:
    """Return a few sentences on what a model or method releases and what it costs."""
    if kind is DomainRelease:
        return (
            f"{spec.title}: {', '.join(spec.to_discover)} as the rows have them, by noisy answers. "
            f"Protected unit: {spec.protection}. The first run on a snapshot charges "
            f"{discovery_price(declared_discovery(spec))}; a re-run replays at cost 0, and every "
            "release over that snapshot is made with it."
        )
    return (_describe_method if kind.FOLDER else _describe_model)(spec, name)


def _describe_model(spec: DatasetSpec, name: str) -> str:
    model = build_model(spec, name)
    guarantees = [declared_guarantee(spec, model, epsilon) for epsilon in spec.partitions]
    text = f"{spec.title}: {model.summary}. Protected unit: {spec.protection}."
    if not guarantees[0].is_dp:
        return f"{text} Not differentially private: {guarantees[0].reason}; charges nothing."
    if (span := spec.span_of(name)) > 1:
        text += (
            f" Each release is of {span} {spec.time_windows.every}s, and is charged to all of them."
        )
    costs = ", ".join(spec.currency.text(price(spec, guarantee)) for guarantee in guarantees)
    evaluated = " and its evaluation's" if spec.evaluation else ""
    why = f": {guarantees[0].reason}" if guarantees[0].reason else ""
    return (
        f"{text} A first run of a partition charges its ε{evaluated} ({costs}{why}); "
        "a re-run replays at cost 0."
    )


def _describe_method(spec: DatasetSpec, name: str) -> str:
    method = k_anonymous_release.declared_method(spec, name)
    declared = k_anonymous_release.declared_k_anonymity(spec)
    largest = k_anonymous_release.guarantee_for(declared, name, k=declared.partitions[-1])
    labels = f" and {largest.diversity} labels" if largest.diversity > 1 else ""
    return (
        f"{spec.title}: {method.summary}. Every row shares what is released of it with at "
        f"least K − 1 others: K rows{labels} in every class. Not differentially private: "
        f"{k_anonymous_release.REASON}. The ledger notes it as not-dp before the first look; a "
        "re-run replays it."
    )


def reported(release: Release, bundle: Bundle) -> ReportedRelease:
    """Return a release in the form that cards and exports show.

    Unless it is k-anonymous, it has the balance of its population and, of public rows, its stored
    exact quality numbers.
    """
    if bundle.is_k_anonymous:
        return k_anonymous_release.reported_k_anonymous_release(release.spec, bundle)
    ledger = release.home.ledger
    return ReportedPrivateRelease(
        spec=release.spec,
        bundle=bundle,
        summary=release.summary,
        balance=ledger.balance(release.spec.population),
        non_dp_releases=other_non_dp_releases(release.spec, ledger),
        exact=exact_quality(release, bundle),
    )


def write_card(release: Release, bundle: Bundle, folder: Path) -> Path:
    """Write the card of a noisy release in Markdown to the folder of reports; return its path.

    Of a k-anonymous release nothing is written: its card was sealed with its bundle, and the path
    of that is returned.

    folder   the folder of the bundle
    """
    if bundle.is_k_anonymous:
        return folder / k_anonymous_release.CARD
    name = ".".join((release.name, *release.partition))
    path = release.home.reports / f"{release.spec.name}.cards" / f"{name}.md"
    write_private(path, card(reported(release, bundle)).encode())
    return path
