"""A release at an ε: what makes it the same one, its facts and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.config.windows import range_text
from dp_pipeline.gate.curator import PaidMarginals
from dp_pipeline.models import build_model
from dp_pipeline.models.base import (
    CoarseRelease,
    FitResult,
    Model,
    PrivacyGuarantee,
    declared_guarantee,
    price,
)
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import Home, engine_name
from dp_pipeline.releases.model_questions import ModelQuestions
from dp_pipeline.releases.noisy_drawing import NoisyDrawing
from dp_pipeline.releases.noisy_release import NoisyRelease, as_release_key
from dp_pipeline.releases.refinement import (
    RefinedRelease,
    newest_key,
    refined_release,
    require_unrefined,
)
from dp_pipeline.releases.release import ReleaseSpec
from dp_pipeline.releases.replay import pointer_path, settled_answers, settled_entry
from dp_pipeline.releases.side_information import (
    PublicRows,
    earlier_bundle,
    earlier_release_folder,
)
from dp_pipeline.results.bundle import LEARNED, PRIOR, Key, ReleaseKey

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import FoldCounter


@dataclass(frozen=True)
class EpsilonRelease(NoisyRelease):
    """One release at an ε.

    name         of the model
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          what the ledger notes of the run: run id, asset
    refine       ε of the release that it shall refine; None: it is drawn by itself, unless the
                 newest release at its ε is a refinement
    span         number of time windows that it covers, where rows are partitioned: that of its
                 declaration, and those before it

    A release of several windows is charged to each of them. *Its noise is that of one*: the
    protected unit is a person's rows of one window, of which ``at_most`` count in each, so two
    neighbours differ in so many rows, in whichever of its windows. All rows of a person who is in m
    of them cost m times as much, which the ledger adds up (``ledger.entries.counted``).
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
        """Return the declared models; of rows in time windows, those that are published."""
        if spec.windows is not None:
            return tuple(publication.model for publication in spec.publications)
        return tuple(spec.models)

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        """Return the declared ε, ascending."""
        return spec.partition_keys

    @classmethod
    def at(
        cls,
        spec: DatasetSpec,
        name: str,
        level: str,
        home: Home,
        *,
        noise: str,
        run: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a declared release, of as many time windows as are published together;
        DeclarationError for an ε that is not declared.
        """
        epsilon, span = spec.partition(level), spec.span_of(name)
        return cls(spec, name, epsilon, home, noise, run or {}, span=span)

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows whose rows it is about, oldest first; DeclarationError where there are
        fewer than its span.
        """
        if self.span == 1:
            return self.spec.blocks
        try:
            return self.spec.cut.ending_with(self.spec.window, self.span)
        except DeclarationError as error:
            raise DeclarationError(f"{self.where}: {error}") from None

    def require_allowed(self) -> None:
        """Raise DeclarationError also for time windows that are missing or do not add up."""
        super().require_allowed()
        if self.span > 1 and self.spec.delta is not None:
            raise DeclarationError(
                f"{self.where}: expected a release of one window beside `delta`, as ρ of "
                f"windows do not add up, got one of {range_text(self.windows)}"
            )

    @property
    def where(self) -> str:
        """Data set and model, for messages about what is declared."""
        return "/".join(self.path)

    @property
    def summary(self) -> str:
        """One line on what the model does."""
        return self.model.summary

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
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
        """The declared model, checked."""
        return build_model(self.spec, self.name)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of the model at this ε."""
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @cached_property
    def public_rows(self) -> PublicRows | None:
        """The public rows of another data set that its model is declared to use."""
        return PublicRows.of(self.spec, self.model, self.home, what=self.where)

    @property
    def measuring(self) -> Mapping[str, str]:
        """Parameters that decide which questions are asked, as text."""
        return texts_of(self.model, measuring=True)

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters, and names of attributes of integers, that need no further query of the
        rows.
        """
        names = [attribute.name for attribute in self.spec.domain if attribute.is_integer]
        declared = {"integer": ", ".join(names)} if names else {}
        return {**texts_of(self.model, measuring=False), **declared}

    @property
    def evaluation(self) -> Fraction | None:
        """ε of private quality numbers; none for a release that has no ε itself."""
        return self.spec.evaluation if self.guarantee.is_dp else None

    @property
    def cost(self) -> Fraction:
        """What it costs by itself, with its evaluation; 0 where no finite ε holds."""
        return price(self.spec, self.guarantee)

    def refinement_cost(self, refined: Fraction | None) -> Fraction:
        """Return what it costs where it refines the release at a smaller ε, which is not paid
        again; its own cost where that is None.
        """
        if refined is None:
            return self.cost
        return self.cost - replace(self, epsilon=refined, refine=None).guarantee.amount

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """Return the key of the refinement that ``refine`` asks for; else of the newest draw of
        this release, or with ``new_draw`` of one more, which refines nothing.
        """
        if self.refine is not None:
            self._require_refining(self.refine)
            coarse = replace(self, epsilon=self.refine, refine=None).key(snapshot)
            key = self.draw_key(snapshot.names).refining(coarse.digest)
            require_unrefined(key, self.home.ledger, what=self.where, epsilon=self.refine)
            return key
        key = super().key(snapshot, new_draw=new_draw)
        if new_draw or not self.model.refines:
            return key
        return newest_key(key, self.home.ledger, self.spec.partitions)

    def _require_refining(self, epsilon: Fraction) -> None:
        """Raise DeclarationError for a release that cannot refine another one, whatever was
        released.
        """
        model, where = self.model, f"{self.where}: refine"
        if not model.refines:
            raise DeclarationError(
                f"{where}: expected a model that asks the same questions at every ε, got "
                f"{self.name}"
            )
        if model.plans_from_earlier:
            raise DeclarationError(
                f"{where}: expected a model that plans from nothing, got one with "
                "`plan_from: previous`: its numbers may be those of two windows"
            )
        if model.prior_name:
            raise DeclarationError(f"{where}: expected a model without `prior`, got one")
        if self.guarantee.currency != self.spec.currency:
            raise DeclarationError(
                f"{where}: expected a model that accounts in ρ, as its population has a declared "
                f"δ, got {self.name}: what is between two ε is no difference there"
            )
        if not 0 < epsilon < self.epsilon:
            raise DeclarationError(
                f"{where}: expected a declared ε below {self.level}, got {epsilon_text(epsilon)}"
            )

    def refined(self, key: ReleaseKey) -> RefinedRelease | None:
        """Return the release that the draw with this key refines; None where it refines none.
        DeclarationError where nothing has that key.
        """
        epsilon = self.refine or Fraction(0)
        return refined_release(key, self.home.ledger, what=self.where, epsilon=epsilon)

    def resolve(self, key: Key) -> ReleaseSpec:
        """Return the draw with this key, with what it refines and its side information."""
        spec, refined = super().resolve(key), self.refined(as_release_key(key))
        facts = {**spec.facts, **self.spec.discovered_fact, **self.spec.constraints_fact}
        facts |= {WINDOW: range_text(self.windows)} if self.windows else {}
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
        """Return the facts that name the earlier release and the public rows that it uses.
        DeclarationError where it was started with other rows.
        """
        folder, public = self._earlier_folder(spec), self.public_rows
        facts = {LEARNED: folder} if folder else {}
        if public is None:
            return facts
        if spec.reserved is not None and spec.reserved.facts.get(PRIOR) != public.fact:
            raise DeclarationError(
                f"{self.where}: prior: expected the public rows that it was started with, got "
                "others: only --new-draw goes on with these"
            )
        return {**facts, PRIOR: public.fact}

    def _earlier_folder(self, spec: ReleaseSpec) -> str:
        """Return where in the store the release lies that this one plans from: the one that belongs
        to the window before at the same ε, if that was settled when this one was charged. Empty
        where there was none, or nothing is planned from.

        The ledger's row says it, and a key does not: else a window that is published later would
        make another release, with another charge, of every one behind it.
        """
        if not self.model.plans_from_earlier or not self.spec.window:
            return ""
        if spec.reserved is not None:
            return spec.reserved.facts.get(LEARNED, "")
        before = self.spec.cut.preceding(self.spec.window)
        if before is None or self.spec.cut.preceding(self.windows[0]) is None:
            return ""
        pointer = pointer_path(replace(self, spec=self.spec.at_window(before)))
        return earlier_release_folder(as_release_key(spec.key), self.spec, self.home, pointer)

    def questions(self, spec: ReleaseSpec) -> ModelQuestions:
        """Return the questions of its model and its evaluation."""
        key, folder = as_release_key(spec.key), spec.facts.get(LEARNED)
        refined, public = self.refined(key), self.public_rows
        return ModelQuestions(
            dataset=self.spec,
            model=self.model,
            guarantee=self.guarantee,
            evaluation=self.evaluation,
            postprocessing=self.postprocessing,
            key=key,
            facts=spec.facts,
            earlier=earlier_bundle(key, self.spec, self.home, folder).tables if folder else None,
            public=None if public is None else public.table,
            coarse=None if refined is None else partial(self._coarse, refined),
        )

    def _coarse(self, refined: RefinedRelease) -> tuple[CoarseRelease, PaidMarginals]:
        """Return the release that is refined, and its answers; Damaged where they are not those
        that were settled.
        """
        key = refined.key
        release = replace(self, epsilon=key.epsilon, noise_name=key.noise, refine=None)
        result, answers = release.replay_fit(key)
        return CoarseRelease(result.released, release.guarantee.amount), answers

    def replay_fit(self, key: ReleaseKey) -> tuple[FitResult, PaidMarginals]:
        """Return the fit behind a settled release, from its stored answers; Damaged where they are
        not those that were settled. No row is read.
        """
        settled = settled_entry(key.digest, key.population, self.home.ledger)
        answers = settled_answers(self.store, key, settled)
        return self.questions(self.resolve(key)).fit_model(None, answers, self.noise)

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        """Open the counter over its rows, before it is charged; DeclarationError where they are not
        those of the release that it refines, or that one is not finished.
        """
        drawing, refined = super().open(spec, snapshot), self.refined(as_release_key(spec.key))
        if refined is not None:
            refined.require_settled(self.home.ledger)
            refined.require_same_rows(drawing.rows)
        return drawing

    def counter(self, snapshot: Snapshot) -> FoldCounter:
        """Return the counter of its prepared rows."""
        from dp_pipeline.raw.counters import open_counter

        return open_counter(self.spec, snapshot, engine_name())
