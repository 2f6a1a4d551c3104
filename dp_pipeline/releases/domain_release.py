"""The discovery of a data set's domain (levels, bounds, bins): a paid release for each snapshot.

Its result is treated as if the file declared it, so it enters the key of every later release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dp_pipeline.config.amounts import PURE, delta_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover, DiscoveredDomain
from dp_pipeline.config.errors import Damaged, NotPrepared, OtherQuestion
from dp_pipeline.files import write_private
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.ledger.entries import DeadRelease
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, new_snapshot_hint, preparation_hint
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.noisy_release import NoisyRelease, ReleaseCounter
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.releases.release import ReleaseSpec
from dp_pipeline.releases.replay import encode_document, pointed_bundle, read_document
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.transcript import AnswersLost, Transcript

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.undeclared import UndeclaredRows

NAME = "domain"
"""Name of the asset, and of its folder in the released store."""

MOST_SHOWN = 12
"""Levels that are listed in a line."""

DISCOVERED = "discovered"
"""The fact of its bundle that is the domain."""


@dataclass(frozen=True)
class DomainRelease(NoisyRelease):
    """The release that discovers the undeclared part of the domain from one snapshot.

    The parser allows no discovery for rows in time windows, so it has none.

    spec         the declaration, with something left to be discovered
    noise_name   noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          facts of the run for the ledger: run id, asset
    """

    spec: DatasetSpec
    home: Home
    noise_name: str
    run: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME

    @property
    def discover(self) -> Discover:
        return declared_discovery(self.spec)

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        return self.discover.epsilon

    @property
    def delta(self) -> Fraction:
        """The δ of the discovery; 0 if no levels are discovered."""
        return self.discover.delta or Fraction(0)

    @property
    def cost(self) -> Fraction:
        return self.spec.currency.cost_of(self.epsilon, PURE)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        return PrivacyGuarantee("dp", self.epsilon)

    @property
    def measuring(self) -> Mapping[str, str]:
        """The declared ε, β and, if there is one, δ of the discovery, as texts by name."""
        return self.discover.to_facts()

    @property
    def what(self) -> str:
        delta = f", δ={delta_text(self.delta)}" if self.delta else ""
        return f"{self.spec.name}/{NAME} at ε={self.level}{delta}"

    @property
    def summary(self) -> str:
        return f"{', '.join(self.spec.to_discover)}, discovered"

    def counter(self, snapshot: Snapshot) -> UndeclaredRows:
        """Return the counter of the validated rows, which are not yet prepared."""
        from dp_pipeline.raw.counters.undeclared import UndeclaredRows

        return UndeclaredRows.open(self.spec, snapshot)

    def empty_counter(self) -> UndeclaredRows:
        from dp_pipeline.raw.counters.undeclared import UndeclaredRows

        return UndeclaredRows.empty(self.spec)

    def draw_bundle(
        self,
        spec: ReleaseSpec,
        counter: ReleaseCounter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,  # noqa: ARG002
    ) -> Bundle:
        from dp_pipeline.gate.discovery import discover

        rows = cast("UndeclaredRows | None", counter)
        accountant = Accountant(self.epsilon, delta=self.delta)
        domain = discover(self.spec, rows, accountant, transcript, noise)
        accountant.require_all_spent()
        discovered = json.dumps(domain.to_facts(), ensure_ascii=False)
        facts = {**spec.facts, DISCOVERED: discovered}
        return Bundle(spec.key.digest, facts, accountant.spends, {}, {}, transcript.chain)


def declared_discovery(spec: DatasetSpec) -> Discover:
    assert spec.discover is not None, f"{spec.name}: nothing is declared of discovery"
    return spec.discover


def publish_domain(release: DomainRelease, *, new_draw: bool = False) -> PublishedBundle:
    """Discover the domain of the current snapshot, or replay an earlier discovery at no cost.

    From now on the snapshot is prepared and released with this domain.
    """
    try:
        published = publish(release, new_draw=new_draw)
    except (AnswersLost, DeadRelease, OtherQuestion) as error:
        # The option --new-draw of a run draws models anew, and never a domain.
        hint = new_snapshot_hint(release.spec.name)
        raise type(error)(
            f"{error}; for a domain that means `new_draw` in Dagster's asset `{NAME}`, or a new "
            f"snapshot: {hint}"
        ) from None
    pointer = {"folder": str(published.folder.relative_to(release.store.root))}
    path = _pointer_path(release.spec, release.home, published.bundle.facts["snapshot"])
    write_private(path, encode_document(pointer))
    return published


def with_discovered(
    spec: DatasetSpec, home: Home, *, snapshot: Snapshot | None = None
) -> DatasetSpec:
    """Return a data set with the domain discovered from a snapshot, by default the current one.

    A data set with nothing to discover is returned unchanged. NotPrepared without a discovery,
    Damaged where what is stored is not what was settled.
    """
    if not spec.to_discover:
        return spec
    return spec.with_domain(discovered_domain(domain_bundle(spec, home, snapshot=snapshot)))


def domain_bundle(spec: DatasetSpec, home: Home, *, snapshot: Snapshot | None = None) -> Bundle:
    """Return the bundle of the release that discovered a snapshot's domain.

    NotPrepared if there is none for this declaration, Damaged if it is not as it was settled.
    """
    snapshot = snapshot or current_snapshot(home.raw, spec.name, b"")
    pointer = None
    if snapshot is not None:
        pointer = read_document(_pointer_path(spec, home, snapshot.id))
    if snapshot is None or pointer is None:
        fault = "no snapshot is prepared"
        if snapshot is not None:
            fault = f"the domain of its snapshot {snapshot.id} is not yet discovered"
        raise NotPrepared(f"{spec.name}: {fault}: {preparation_hint(spec.name)}")
    try:
        bundle = pointed_bundle(spec, home, pointer, model=NAME, snapshot=snapshot.id)
    except Damaged as error:
        # The command `run` reads the domain first, and would be refused for the same reason.
        job = f"Dagster's job {spec.name}_prepare"
        raise Damaged(f"{error} (`dp-pipeline run` needs the domain first, so run {job})") from None
    if bundle.facts["declaration"] != spec.digest:
        raise NotPrepared(
            f"{spec.name}: the domain was discovered for an earlier declaration: put that back, "
            "or discover it for this one, at the price of another discovery unless it was paid for "
            f"before: {preparation_hint(spec.name)}"
        )
    return bundle


def domain_charge(spec: DatasetSpec, home: Home, *, run: str) -> int:
    """Return a run's charge for discovery, in billionths of ε or ρ; 0 if another run paid.

    run   id of the run
    """
    bundle = domain_bundle(spec, home)
    reserved = home.ledger.history(bundle.key)[0]
    return reserved.nano_epsilon if reserved.facts.get("run") == run else 0


def discovered_domain(bundle: Bundle) -> DiscoveredDomain:
    return DiscoveredDomain.from_facts(json.loads(bundle.facts[DISCOVERED]))


def discovered_lines(published: PublishedBundle) -> list[tuple[str, str]]:
    """Return the name of every discovered attribute, with its bounds, bins and levels as text.

    The text also says where noise left the result uncertain. Only the first levels are listed.
    """
    lines = []
    for name, attribute in discovered_domain(published.bundle).attributes:
        parts = []
        if attribute.bounds is not None:
            parts.append(f"{attribute.bounds[0]:g} to {attribute.bounds[1]:g}")
        if attribute.edges is not None:
            cuts = ", ".join(f"{edge:g}" for edge in attribute.edges)
            parts.append(f"{len(attribute.edges) + 1} bins, cut at {cuts}")
        if attribute.levels is not None:
            levels = ", ".join(attribute.levels[:MOST_SHOWN])
            parts.append(f"{len(attribute.levels)} levels: {levels}")
        if attribute.weak is not None:
            parts.append(attribute.weak)
        lines.append((name, "; ".join(parts)))
    return lines


def _pointer_path(spec: DatasetSpec, home: Home, snapshot: str) -> Path:
    return home.released / spec.name / NAME / f"snapshot-{snapshot}.json"
