"""Release: one question of a data set, what makes it the same one, and where its answer lies.

What was released of the same persons without any ε stands beside it: every later card says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.gate.noise import NoiseSource, named_noise
from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.models import build_model
from dp_pipeline.models.base import Model, PrivacyGuarantee, declared_guarantee, price
from dp_pipeline.publish.home import NOISE_VARIABLE, Home
from dp_pipeline.publish.store import BundleStore
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import ReleaseKey
from dp_pipeline.spec.amounts import delta_text, epsilon_text, nano_epsilon
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.parameters import fact_text, texts_of

BESIDE = "not-dp beside it"
"""The fact of a bundle that names them."""


def not_dp_beside(
    spec: DatasetSpec, ledger: Ledger, *, before: str | None = None, but: str | None = None
) -> list[str]:
    """One text a release, oldest first, begun or finished; none on benchmarks: their rows are
    public.

    before   key of a release: those that were recorded before it; all of them where it is not
             recorded yet, or None
    but      key of a release that is not told
    """
    if not spec.is_release:
        return []
    past = () if before is None else ledger.history(before)
    own = past[0].sequence if past else None
    return [
        _named(one)
        for one in ledger.not_dp_releases(spec.lineage)
        if one.key != but and (own is None or one.sequence < own)
    ]


def _named(entry: Entry) -> str:
    snapshot = entry.facts.get("snapshot")
    return entry.what if snapshot is None else f"{entry.what}, snapshot {snapshot}"


_REPLICATES = 16
"""How many draws of one release are looked for at once."""
ROWS = "rows"
"""The fact of a ledger row that holds the keyed fingerprint of the tables that are counted; in no
bundle, and never exported.
"""
_MEASURING = ("gate", "inference", "models", "release", "spec", "raw/counters")


@cache
def code_version(rooms: tuple[str, ...] = _MEASURING) -> str:
    """The package's version and a digest of the code that measures; recorded with a release, not a
    part of its key. Templates of pages are code.
    """
    digest = hashlib.sha256()
    package = Path(str(resources.files("dp_pipeline")))
    for room in rooms:
        for file in sorted(package.joinpath(room).rglob("*")):
            if file.suffix in (".py", ".j2", ".css"):
                digest.update(file.read_bytes())
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}"


@dataclass(frozen=True)
class Release:
    """One release that a data set asks for.

    name         of the model
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          what the ledger notes of the run: run id, asset
    """

    spec: DatasetSpec
    name: str
    epsilon: Fraction
    home: Home
    noise_name: str
    run: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def noise(self) -> NoiseSource:
        """Where the noise comes from: one stream for the whole release."""
        return named_noise(self.noise_name)

    @property
    def is_fit_for_release(self) -> bool:
        """Whether it may leave: noise that nobody can draw again, and the ε that was asked."""
        return self.noise.fit_for_release and self.guarantee.is_plain

    def require_fit_noise(self) -> None:
        """DeclarationError for a noise source that does not exist, or a seed on release data."""
        fit = self.noise.fit_for_release
        if self.spec.is_release and not fit:
            raise DeclarationError(
                f"{self.spec.name}: noise: expected a source fit for sensitive data, "
                f"got a seeded one: unset {NOISE_VARIABLE}"
            )

    @cached_property
    def model(self) -> Model:
        """The declared model, checked."""
        return build_model(self.spec, self.name)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """What the model promises at this ε."""
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @property
    def evaluation(self) -> Fraction | None:
        """ε that buys quality numbers; none beside a release that has no ε itself."""
        return self.spec.evaluation if self.guarantee.is_dp else None

    @property
    def nano(self) -> int:
        """Nano-ε, or nano-ρ, that a first draw charges, with its evaluation; 0 where no finite ε
        holds.
        """
        return nano_epsilon(price(self.spec, self.guarantee))

    @property
    def store(self) -> BundleStore:
        """Where bundles are."""
        return BundleStore(self.home.released)

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters, and declarations of numbers that are whole, that need no further look."""
        whole = ", ".join(attribute.name for attribute in self.spec.domain if attribute.whole)
        declared = {"integer": whole} if whole else {}
        return {**texts_of(self.model, measuring=False), **declared}

    def key(self, ledger: Ledger, snapshot: Snapshot, *, fresh: bool) -> ReleaseKey:
        """The key of the newest draw of this release, or with ``fresh`` of one more.

        A draw that was charged and not finished is finished first, fresh or not.
        """
        key = self.draw_key(snapshot.id)
        states: list[str | None] = []
        while None not in states[1:]:
            # Many at once: each look opens the ledger.
            more = range(len(states), len(states) + _REPLICATES)
            states += ledger.states([key.with_replicate(one).digest for one in more])
        following = states.index(None, 1)
        ended = states[following - 1] in ("settled", "dead")
        return key.with_replicate(following if fresh and ended else following - 1)

    def draw_key(self, snapshot: str, replicate: int = 0) -> ReleaseKey:
        """The key of one draw on the snapshot of that name, made or not."""
        return ReleaseKey(
            lineage=self.spec.lineage,
            dataset=self.spec.name,
            snapshot=snapshot,
            declaration=self.spec.digest,
            model=self.name,
            measuring=texts_of(self.model, measuring=True),
            epsilon=self.epsilon,
            evaluation=self.evaluation,
            noise=self.noise_name,
            replicate=replicate,
        )

    def charge(self, key: ReleaseKey, *, rows: str) -> Charge:
        """What the ledger reserves: the cost of the release and of its evaluation, at once.

        rows   fingerprint of the tables that its answers are of
        """
        return Charge(
            key=key.digest,
            lineage=key.lineage,
            kind=self.guarantee.kind,
            nano_epsilon=self.nano,
            what=self.what,
            facts={**self.facts(key), **self.run, ROWS: rows},
            currency=self.spec.currency,
        )

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        return f"{self.spec.name}/{self.name} at {self._price}"

    @property
    def _price(self) -> str:
        asked = epsilon_text(self.epsilon)
        delta = self.guarantee.currency.delta
        if delta is not None:
            asked = f"{asked} at δ={delta_text(delta)}"
        if self.guarantee.is_plain:
            return f"ε={asked}"
        promised = self.guarantee
        holds = f"composed ε={promised.composed}" if promised.is_dp else promised.kind
        return f"nominal ε={asked}, {holds}"

    def generator(self, key: ReleaseKey) -> np.random.Generator:
        """Post-processing randomness: fixed by public facts, so a replay gives the same bytes."""
        text = f"{key.digest} {self.postprocessing}"
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))

    def facts(self, key: ReleaseKey) -> dict[str, str]:
        """What is written into the ledger and the bundle: declarations and versions, no rows."""
        spec = self.spec
        beside = not_dp_beside(spec, self.home.ledger, before=key.digest)
        facts = {
            "lineage": spec.lineage,
            "dataset": spec.name,
            "model": key.model,
            "epsilon": epsilon_text(self.epsilon),
            "kind": self.guarantee.kind,
            "composed": self.guarantee.composed,
            "reason": self.guarantee.reason,
            "evaluation": "none" if self.evaluation is None else epsilon_text(self.evaluation),
            "snapshot": key.snapshot,
            "replicate": str(key.replicate),
            "measuring": fact_text(key.measuring),
            "postprocessing": fact_text(self.postprocessing),
            "declaration": key.declaration,
            "unit": str(spec.protection),
            "relation": spec.relation,
            "purpose": spec.purpose,
            "noise": self.noise_name,
            "fit_for_release": "yes" if self.is_fit_for_release else "no",
            "code": code_version(),
            **({BESIDE: "; ".join(beside)} if beside else {}),
        }
        if spec.delta is None:
            return facts
        paid = {"delta": delta_text(spec.delta), "currency": self.guarantee.currency.name}
        return {**facts, **paid}
