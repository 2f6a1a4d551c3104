"""Drawing a release: fit the model on a curator, then buy its evaluation on another.

What must hold before a release is charged or gone on with: declarations and ledger decide.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.quality import buy_quality
from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.models.base import Released
from dp_pipeline.publish.fit import Ask, fit
from dp_pipeline.publish.release import Release
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.bundle import EARLIER_EVALUATION, Bundle, ReleaseKey
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.amounts import NANO, epsilon_text
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.parameters import fact_text

_REHEARSED = "seeded:0"


def draw(
    release: Release, key: ReleaseKey, counter: Counter | None, transcript: Transcript
) -> Bundle:
    """The bundle of one release with its evaluation; spends exactly what it claims.

    counter   None draws nothing: every answer must be in the transcript
    """
    ask, rng = _curator(release, counter, transcript), release.generator(key)
    fitted = fit(release.model, release.guarantee, ask, epsilon=release.epsilon, rng=rng)
    fitted.require_claimed(release.guarantee, what=f"{release.spec.name}/{release.name}")
    spends, quality = fitted.spends, dict[str, NoisyNumber]()
    if release.evaluation is not None:
        paid = Accountant(release.evaluation)
        quality = buy_quality(
            ask(paid),
            fitted.released,
            epsilon=release.evaluation,
            label=release.spec.label,
            targets=release.spec.targets,
        )
        paid.require_all_spent()
        spends += paid.spends
    return _bundle(release, key, fitted.released, spends, quality, transcript)


def derive(release: Release, key: ReleaseKey, transcript: Transcript) -> Bundle:
    """A settled release under another post-processing, without rows and at no cost.

    The bought evaluation is left out: it was of other centres or tables, and a new
    one would have to be paid for.
    """
    ask, rng = _curator(release, None, transcript), release.generator(key)
    fitted = fit(release.model, release.guarantee, ask, epsilon=release.epsilon, rng=rng)
    fitted.require_claimed(release.guarantee, what=f"{release.spec.name}/{release.name}")
    bundle = _bundle(release, key, fitted.released, fitted.spends, {}, transcript)
    if release.evaluation is None:
        return bundle
    paid = {EARLIER_EVALUATION: epsilon_text(release.evaluation)}
    return replace(bundle, facts={**bundle.facts, **paid})


def rehearse(release: Release, key: ReleaseKey) -> None:
    """Draw once over nobody, in memory, with a seed: what cannot be drawn must not be charged.

    Raises whatever the draw would raise for declarations alone, such as a table with too
    many cells or a scale too large for whole numbers.
    """
    nobody = MemoryCounter.empty(release.spec.domain)
    draw(replace(release, noise_name=_REHEARSED), key, nobody, Transcript())


def _curator(release: Release, counter: Counter | None, transcript: Transcript) -> Ask:
    def ask(accountant: Accountant) -> Curator:
        return Curator(
            counter,
            domain=release.spec.domain,
            reach=release.spec.reach,
            accountant=accountant,
            transcript=transcript,
            noise=release.noise,
            benchmark=not release.spec.is_release,
            relation=release.spec.relation,
        )

    return ask


def _bundle(
    release: Release,
    key: ReleaseKey,
    released: Released,
    spends: tuple[Spend, ...],
    quality: dict[str, NoisyNumber],
    transcript: Transcript,
) -> Bundle:
    return Bundle(
        key=key.digest,
        facts=release.facts(key),
        spends=spends,
        quality=quality,
        tables=released.tables(),
        transcript=transcript.chain,
    )


def require_affordable(charge: Charge, ledger: Ledger) -> None:
    """Refuse what cannot fit before a file is made for it; ``reserve`` has the last word."""
    asked = Fraction(charge.nano_epsilon, NANO)
    balance = ledger.balance(charge.lineage)
    balance.require_room(asked, what=charge.what, where=charge.lineage)


def require_as_begun(release: Release, key: ReleaseKey) -> None:
    """DeclarationError for a release that was begun with another post-processing.

    Its evaluation asks about its own centres or tables: other ones would be other
    questions, of which the charge holds one set only. Settled, it may be changed for nothing.
    """
    ledger, now = release.home.ledger, fact_text(release.postprocessing)
    is_unfinished = ledger.state(key.digest) in ("reserved", "interrupted")
    if release.evaluation is None or not is_unfinished:
        return
    begun = begun_with(key, ledger)
    if begun != now:
        raise DeclarationError(
            f"{key.dataset}/{key.model}: expected the parameters {begun} that the charged release "
            f"was begun with, got {now}: finish it first"
        )


def begun_by_another(key: ReleaseKey, ledger: Ledger) -> str:
    """Who began a release that this program would ask otherwise, and what can be done."""
    begun = _begun(key, ledger)
    code = "another version" if begun is None else begun.facts.get("code", "another version")
    return (
        f"its answers stay as they are: finish it with {code}, or give it up by "
        f"`dp-pipeline budget give-up {key.digest[:12]} --reason …` and draw anew with --fresh"
    )


def begun_with(key: ReleaseKey, ledger: Ledger) -> str | None:
    """The post-processing that a release was charged with, None before it was."""
    begun = _begun(key, ledger)
    return None if begun is None else begun.facts["postprocessing"]


def _begun(key: ReleaseKey, ledger: Ledger) -> Entry | None:
    """The row that charged a release, None before it was."""
    return next(iter(ledger.history(key.digest)), None)
