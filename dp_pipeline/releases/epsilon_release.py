"""A release of a model at one ε: its key, its facts, its cost and its questions."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.windows import range_text
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.models import build_model
from dp_pipeline.models.base import (
    FitResult,
    Model,
    ModelFit,
    PrivacyGuarantee,
    declared_guarantee,
    price,
)
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases import refinement
from dp_pipeline.releases.home import Home, engine_name
from dp_pipeline.releases.noisy_release import (
    NoisyDrawing,
    NoisyRelease,
    ReleaseCounter,
    as_release_key,
)
from dp_pipeline.releases.release import ReleaseSpec
from dp_pipeline.releases.replay import ledger_row, pointer_path, settled_answers
from dp_pipeline.releases.side_information import PublicRows, earlier_bundle, earlier_release_folder
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import (
    EARLIER_EVALUATION,
    LEARNED,
    PRIOR,
    TYPES,
    Bundle,
    Key,
    ReleaseKey,
)
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.source_types import typed_domain
from dp_pipeline.results.transcript import Transcript

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import EmptyCounter, FoldCounter


@dataclass(frozen=True)
class EpsilonRelease(NoisyRelease):
    """A release of one model at one ε.

    name         the model
    noise_name   noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          facts of the run for the ledger: run id, asset
    refine       ε of an earlier release to refine; None: the newest draw at this ε, refined or not
    span         number of time windows that it covers, the last of them the declaration's

    A release of several windows is charged to each of them. *Its noise is that of one*: the
    protected unit is a person's rows of one window, of which ``at_most`` count in each, so two
    neighbours differ in so many rows, in whichever of its windows. All rows of a person who is in m
    of them cost m times as much, which the ledger adds up (``entries.charge_in_all_windows``).
    """

    spec: DatasetSpec
    name: str
    epsilon: Fraction
    home: Home
    noise_name: str
    run: Mapping[str, str] = field(default_factory=dict)
    refine: Fraction | None = None
    span: int = 1

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        """Return the declared models; for rows in time windows, those that the file publishes."""
        if spec.windows is not None:
            return tuple(publication.model for publication in spec.publications)
        return tuple(spec.models)

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        return spec.partition_keys

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows that the release covers, oldest first.

        DeclarationError if too few windows come before the last one."""
        if self.span == 1:
            return self.spec.blocks
        try:
            return self.spec.time_windows.ending_with(self.spec.window, self.span)
        except DeclarationError as error:
            raise DeclarationError(f"{self.where}: {error}") from None

    def require_allowed(self) -> None:
        """Raise DeclarationError for forbidden noise, and for several windows with ``delta``."""
        super().require_allowed()
        if self.span > 1 and self.spec.delta is not None:
            raise DeclarationError(
                f"{self.where}: with `delta` a release must be of one window, as ρ of windows do "
                f"not add up, not of {range_text(self.windows)}: choose span 1"
            )

    @property
    def where(self) -> str:
        return "/".join(self.path)

    @property
    def summary(self) -> str:
        return self.model.summary

    @property
    def what(self) -> str:
        window = f" of {range_text(self.windows)}" if self.windows else ""
        epsilon, guarantee = epsilon_text(self.epsilon), self.guarantee
        if guarantee.currency.delta is not None:
            epsilon = f"{epsilon} at δ={delta_text(guarantee.currency.delta)}"
        if guarantee.is_plain:
            return f"{self.where}{window} at ε={epsilon}"
        holds = f"composed ε={guarantee.composed}" if guarantee.is_dp else guarantee.kind
        return f"{self.where}{window} at nominal ε={epsilon}, {holds}"

    @cached_property
    def model(self) -> Model:
        return build_model(self.spec, self.name)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @cached_property
    def public_rows(self) -> PublicRows | None:
        return PublicRows.of(self.spec, self.model, self.home, what=self.where)

    @property
    def measuring(self) -> Mapping[str, str]:
        return texts_of(self.model, measuring=True)

    @property
    def postprocessing(self) -> dict[str, str]:
        names = [attribute.name for attribute in self.spec.domain if attribute.is_integer]
        declared = {"integer": ", ".join(names)} if names else {}
        return {**texts_of(self.model, measuring=False), **declared}

    @property
    def evaluation(self) -> Fraction | None:
        return self.spec.evaluation if self.guarantee.is_dp else None

    @property
    def cost(self) -> Fraction:
        return price(self.spec, self.guarantee)

    def refinement_cost(self, refined: Fraction | None) -> Fraction:
        """Return the cost of a draw, less that of the release it refines.

        refined   ε of that release; None: the draw refines none
        """
        if refined is None:
            return self.cost
        return self.cost - replace(self, epsilon=refined, refine=None).guarantee.amount

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """Return the key of the requested refinement or, without one, of a draw.

        new_draw   the next draw; else the newest, which may be a refinement of a smaller ε. It has
                   no effect on a requested refinement

        DeclarationError if the refinement is impossible.
        """
        if self.refine is not None:
            self._require_refining(self.refine)
            coarse = replace(self, epsilon=self.refine, refine=None).key(snapshot)
            key = self.draw_key(snapshot.names).refining(coarse.digest)
            ledger = self.home.ledger
            refinement.require_unrefined(key, ledger, what=self.where, epsilon=self.refine)
            return key
        key = super().key(snapshot, new_draw=new_draw)
        if new_draw or not self.can_refine:
            return key
        return refinement.newest_key(key, self.home.ledger, self.spec.partitions)

    @property
    def can_refine(self) -> bool:
        """Whether the model can be refined; tables of units with parts cannot."""
        return self.model.refines and self.spec.domain.parts is None

    def _require_refining(self, epsilon: Fraction) -> None:
        """Raise DeclarationError unless this release may refine a release at ``epsilon``."""
        model, where, fault = self.model, f"{self.where}: refine", ""
        if self.spec.domain.parts is not None:
            fault = "tables of units with parts are measured once, so they cannot be refined"
        elif not model.refines:
            fault = f"the model {self.name} does not ask the same questions at every ε, so it "
            fault += "cannot be refined"
        elif model.plans_from_earlier:
            fault = "a model with `plan_from: previous` cannot be refined, as its numbers may be "
            fault += "those of two windows"
        elif model.prior_name:
            fault = "a model with `prior` cannot be refined"
        elif self.guarantee.currency != self.spec.currency:
            fault = (
                f"the account is in ρ, where the model {self.name} in pure ε cannot be refined, "
            )
            fault += "as the difference of two ε has no price"
        if fault:
            raise DeclarationError(f"{where}: {fault}: run without --refine")
        if not 0 < epsilon < self.epsilon:
            raise DeclarationError(
                f"{where}: the release to refine must have a declared ε below {self.level}, not "
                f"{epsilon_text(epsilon)}: name such a one, or run without --refine"
            )

    def refined(self, key: ReleaseKey) -> refinement.RefinedRelease | None:
        """Return the release that the draw with this key refines; None if it refines none.

        DeclarationError as of ``refinement.refined_release``."""
        epsilon = self.refine or Fraction(0)
        return refinement.refined_release(key, self.home.ledger, what=self.where, epsilon=epsilon)

    def resolve(self, key: Key) -> ReleaseSpec:
        """Return the draw with this key, with its side information and the release it refines."""
        spec, refined = super().resolve(key), self.refined(as_release_key(key))
        facts = {**spec.facts, **self.spec.discovered_fact, **self.spec.constraints_fact}
        facts |= {WINDOW: range_text(self.windows)} if self.windows else {}
        if spec.reserved is None:
            newest = spec.key.snapshot.rpartition("+")[2]
            types = Snapshot(self.home.raw / self.spec.name / newest, b"").types
            declared = {attribute.column for attribute in self.spec.domain}
            types = {column: type_ for column, type_ in types.items() if column in declared}
            facts |= {TYPES: json.dumps(types)} if types else {}
        elif TYPES in spec.reserved.facts:
            # After the reservation, the types are those that were reserved.
            facts[TYPES] = spec.reserved.facts[TYPES]
        facts |= self._side_information(spec)
        if refined is None:
            return replace(spec, facts=facts)
        return replace(
            spec,
            facts=facts | refined.facts,
            what=f"{spec.what}, refined from {epsilon_text(refined.key.epsilon)}",
            price=self.refinement_cost(refined.key.epsilon),
        )

    def _side_information(self, spec: ReleaseSpec) -> dict[str, str]:
        """Return the facts that name the earlier release and the public rows of the model.

        DeclarationError if the public rows are not those that the release was started with.
        """
        folder, public = self._earlier_folder(spec), self.public_rows
        facts = {LEARNED: folder} if folder else {}
        if public is None:
            return facts
        if spec.reserved is not None and spec.reserved.facts.get(PRIOR) != public.fact:
            digest, give_up = spec.key.digest, ""
            if self.home.ledger.state(digest) not in ("settled", "dead"):
                give_up = (
                    f"give it up by `dp-pipeline budget give-up {digest[:12]} --reason …` and "
                )
            raise DeclarationError(
                f"{self.where}: prior: the public rows of {self.model.prior_name} are not those "
                f"that the release was started with: put those back, or {give_up}pay for a new "
                "draw with --new-draw"
            )
        return {**facts, PRIOR: public.fact}

    def _earlier_folder(self, spec: ReleaseSpec) -> str:
        """Return the store folder of the previous window's release, from which the model plans.

        It is empty if the model does not plan from earlier releases, or no such release suits.

        The ledger's row records it and the key does not: else a window that is published later
        would change the key of every later window, and charge it again.
        """
        if not self.model.plans_from_earlier or not self.spec.window:
            return ""
        if spec.reserved is not None:
            return spec.reserved.facts.get(LEARNED, "")
        before = self.spec.time_windows.preceding(self.spec.window)
        if before is None or self.spec.time_windows.preceding(self.windows[0]) is None:
            return ""
        earlier = replace(self, spec=self.spec.at_window(before))
        key = as_release_key(spec.key)
        return earlier_release_folder(key, earlier.spec, self.home, pointer_path(earlier))

    def draw_bundle(
        self,
        spec: ReleaseSpec,
        counter: ReleaseCounter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,
    ) -> Bundle:
        fit, rng = self._model_fit(spec), self._generator(spec.key)
        rows = cast("FoldCounter | None", counter)
        result = fit.fit_model(rows, transcript, noise, epsilon=self.epsilon, rng=rng)
        result.require_guaranteed(what=self.where)
        spends, quality, facts = result.spends, dict[str, NoisyNumber](), spec.facts
        if self.evaluation is not None and matches_reserved:
            from dp_pipeline.gate.quality import private_quality

            accountant = Accountant(self.evaluation)
            quality = private_quality(
                fit.curator(QueryExecutor(rows, accountant, transcript, noise), {}),
                result.released,
                epsilon=self.evaluation,
                label=self.spec.label,
                targets=self.spec.targets,
            )
            accountant.require_all_spent()
            spends += accountant.spends
        elif self.evaluation is not None:
            facts = {**facts, EARLIER_EVALUATION: epsilon_text(self.evaluation)}
        tables = result.released.tables()
        # A settled release has these words, whatever those of a later program are.
        free = tuple(replace(spend, what="rows left out") for spend in result.free_spends)
        return Bundle(spec.key.digest, facts, spends, quality, tables, transcript.chain, free)

    def _model_fit(self, spec: ReleaseSpec) -> ModelFit:
        key, folder = as_release_key(spec.key), spec.facts.get(LEARNED)
        refined, public, coarse = self.refined(key), self.public_rows, None
        if refined is not None:
            noise_name = refined.key.noise
            release = replace(self, epsilon=refined.key.epsilon, noise_name=noise_name, refine=None)
            coarse = release.replay_fit(refined.key)
        declared = self.spec.of_all_windows()
        return ModelFit(
            replace(self.spec, domain=typed_domain(self.spec.domain, spec.facts)),
            self.model,
            self.guarantee,
            earlier=earlier_bundle(key, declared, self.home, folder).tables if folder else None,
            public=None if public is None else public.table,
            refines=coarse,
        )

    def _generator(self, key: Key) -> np.random.Generator:
        # Post-processing randomness is fixed by public facts, so a replay gives the same bytes.
        seed = hashlib.sha256(f"{key.digest} {self.postprocessing}".encode()).digest()
        return np.random.default_rng(int.from_bytes(seed[:16]))

    def replay_fit(self, key: ReleaseKey) -> FitResult:
        """Return the fit of a settled release, from its stored answers; no row is read."""
        settled = ledger_row("settled", key.digest, key.population, self.home.ledger)
        answers, spec = settled_answers(self.store, key, settled), self.resolve(key)
        fit, rng = self._model_fit(spec), self._generator(key)
        return fit.fit_model(None, answers, self.noise, epsilon=self.epsilon, rng=rng)

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        """Return the opened rows; DeclarationError if the release to refine has other rows, or is
        not settled."""
        drawing, refined = super().open(spec, snapshot), self.refined(as_release_key(spec.key))
        if refined is not None:
            refined.require_refinable(self.home.ledger, drawing.rows)
        return drawing

    def counter(self, snapshot: Snapshot) -> "FoldCounter":
        from dp_pipeline.raw.counters import open_counter

        return open_counter(self.spec, snapshot, engine_name())

    def empty_counter(self) -> "EmptyCounter":
        from dp_pipeline.raw.counters.fold import EmptyCounter

        return EmptyCounter(self.spec.counted_domain)
