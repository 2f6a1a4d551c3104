"""A release at an ε: what makes it the same one, what it says of itself and what it costs."""

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
from dp_pipeline.releases.noisy_release import NoisyRelease, own
from dp_pipeline.releases.refinement import Refined, newest_key, refined_by, require_refined_alike
from dp_pipeline.releases.release import ReleaseSpec
from dp_pipeline.releases.replay import pointer_path, settled_answers, settled_entry
from dp_pipeline.releases.side_information import PublicRows, learned_bundle, learned_from
from dp_pipeline.results.bundle import LEARNED, PRIOR, Key, ReleaseKey

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import FoldCounter


@dataclass(frozen=True)
class EpsilonRelease(NoisyRelease):
    """One release at an ε.

    name         of the model
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          what the ledger notes of the run: run id, asset
    refine       ε of the release that it is asked to refine; None: to be drawn by itself, unless
                 the newest release at its ε is a refinement
    span         how many windows it is of, where rows are cut: that of its declaration, and those
                 before it

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
        """Declared models; where rows are cut into windows, those that are published of each."""
        if spec.windows is not None:
            return tuple(one.model for one in spec.publications)
        return tuple(spec.models)

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared ε, ascending."""
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
        """A declared release, of as many windows as are published together; DeclarationError for
        an ε that is not declared.
        """
        epsilon, span = spec.partition(level), spec.span_of(name)
        return cls(spec, name, epsilon, home, noise, run or {}, span=span)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows whose rows it is of, oldest first; DeclarationError where there are not as
        many.
        """
        if self.span == 1:
            return self.spec.blocks
        try:
            return self.spec.cut.ending_with(self.spec.window, self.span)
        except DeclarationError as refused:
            raise DeclarationError(f"{'/'.join(self.path)}: {refused}") from None

    def require_allowed(self) -> None:
        """DeclarationError also for windows that are not there, or do not add up."""
        super().require_allowed()
        if self.span > 1 and self.spec.delta is not None:
            raise DeclarationError(
                f"{'/'.join(self.path)}: expected a release of one window beside `delta`, as ρ of "
                f"windows do not add up, got one of {range_text(self.windows)}"
            )

    @property
    def where(self) -> str:
        """Data set and model, for messages about what is declared."""
        return "/".join(self.path)

    @property
    def summary(self) -> str:
        """What the model does, in a line."""
        return self.model.summary

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        window = f" of {range_text(self.windows)}" if self.windows else ""
        return f"{self.spec.name}/{self.name}{window} at {self._price}"

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

    @cached_property
    def model(self) -> Model:
        """The declared model, checked."""
        return build_model(self.spec, self.name)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """What the model promises at this ε."""
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @cached_property
    def public_rows(self) -> PublicRows | None:
        """Those of others that its model is declared to use."""
        return PublicRows.of(self.spec, self.model, self.home, what=self.where)

    @property
    def measuring(self) -> Mapping[str, str]:
        """Parameters that decide what is asked, as text."""
        return texts_of(self.model, measuring=True)

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters, and declarations of numbers that are whole, that need no further look."""
        whole = ", ".join(attribute.name for attribute in self.spec.domain if attribute.is_integer)
        declared = {"integer": whole} if whole else {}
        return {**texts_of(self.model, measuring=False), **declared}

    @property
    def evaluation(self) -> Fraction | None:
        """ε of private quality numbers; none beside a release that has no ε itself."""
        return self.spec.evaluation if self.guarantee.is_dp else None

    @property
    def cost(self) -> Fraction:
        """What it costs by itself, with its evaluation; 0 where no finite ε holds."""
        return price(self.spec, self.guarantee)

    def cost_beside(self, refined: Fraction | None) -> Fraction:
        """What it costs beside the release at a smaller ε that it refines, which is not paid
        again.
        """
        if refined is None:
            return self.cost
        return self.cost - replace(self, epsilon=refined, refine=None).guarantee.amount

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """The key of the refinement that is asked for; else of the newest draw of this release, or
        with ``new_draw`` of one more, which refines nothing.
        """
        if self.refine is not None:
            self._require_refining(self.refine)
            coarse = replace(self, epsilon=self.refine, refine=None).key(snapshot)
            key = self.draw_key(snapshot.names).refining(coarse.digest)
            require_refined_alike(key, self.home.ledger, what=self.where, asked=self.refine)
            return key
        drawn = super().key(snapshot, new_draw=new_draw)
        if new_draw or not self.model.refines:
            return drawn
        return newest_key(drawn, self.home.ledger, self.spec.partitions)

    def _require_refining(self, asked: Fraction) -> None:
        """DeclarationError for a release that cannot refine another one, whatever was released."""
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
        if not 0 < asked < self.epsilon:
            raise DeclarationError(
                f"{where}: expected a declared ε below {self.level}, got {epsilon_text(asked)}"
            )

    def refined(self, key: ReleaseKey) -> Refined | None:
        """The release that the draw with this key refines; None where it refines none.
        DeclarationError where nothing has that key.
        """
        asked = self.refine or Fraction(0)
        return refined_by(key, self.home.ledger, what=self.where, asked=asked)

    def resolve(self, key: Key) -> ReleaseSpec:
        """The draw with this key, with what it refines and what it learns from elsewhere."""
        spec, refined = super().resolve(key), self.refined(own(key))
        facts = {**spec.facts, **self.spec.discovered_fact, **self.spec.constraints_fact}
        facts |= {WINDOW: range_text(self.windows)} if self.windows else {}
        facts |= self._learned(spec)
        if refined is None:
            return replace(spec, facts=facts)
        return replace(
            spec,
            facts=facts | refined.facts,
            what=f"{spec.what}, refined from {epsilon_text(refined.epsilon)}",
            price=self.cost_beside(refined.epsilon),
        )

    def _learned(self, spec: ReleaseSpec) -> dict[str, str]:
        """Which release of a window and which public rows it uses; empty where it uses none.
        DeclarationError where it was begun with other rows.
        """
        folder, public = self._learned_from(spec), self.public_rows
        facts = {LEARNED: folder} if folder else {}
        if public is None:
            return facts
        if spec.reserved is not None and spec.reserved.facts.get(PRIOR, public.fact) != public.fact:
            raise DeclarationError(
                f"{self.where}: prior: expected the public rows that it was begun with, got "
                "others: only --new-draw goes on with these"
            )
        return {**facts, PRIOR: public.fact}

    def _learned_from(self, spec: ReleaseSpec) -> str:
        """Where in the store the release lies that this one plans from: the one that belongs to
        the window before at the same ε, if that was settled when this one was charged. Empty where
        there was none, or nothing is planned from.

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
        return learned_from(own(spec.key), self.spec, self.home, pointer)

    def questions(self, spec: ReleaseSpec) -> ModelQuestions:
        """What its model and its evaluation ask."""
        key, folder = own(spec.key), spec.facts.get(LEARNED)
        refined, public = self.refined(key), self.public_rows
        return ModelQuestions(
            dataset=self.spec,
            model=self.model,
            guarantee=self.guarantee,
            evaluation=self.evaluation,
            postprocessing=self.postprocessing,
            key=key,
            facts=spec.facts,
            earlier=learned_bundle(key, self.spec, self.home, folder).tables if folder else None,
            public=None if public is None else public.table,
            coarse=None if refined is None else partial(self._coarse, refined),
        )

    def _coarse(self, refined: Refined) -> tuple[CoarseRelease, PaidMarginals]:
        """What the release that is refined has released, and its answers; Damaged where they are
        not those that were settled.
        """
        drawn = replace(self, epsilon=refined.epsilon, noise_name=refined.key.noise, refine=None)
        fitted, paid_marginals = drawn.fitted(refined.key)
        return CoarseRelease(fitted.released, drawn.guarantee.amount), paid_marginals

    def fitted(self, key: ReleaseKey) -> tuple[FitResult, PaidMarginals]:
        """What a settled release was made of, from its stored answers; Damaged where they are not
        those that were settled. No row is read.
        """
        settled = settled_entry(key.digest, key.population, self.home.ledger)
        answers = settled_answers(self.store, key, settled)
        return self.questions(self.resolve(key)).fitted(None, answers, self.noise)

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        """The counter over its rows, before it is charged; DeclarationError where they are not
        those of the release that it refines, or that one is not finished.
        """
        drawing, refined = super().open(spec, snapshot), self.refined(own(spec.key))
        if refined is not None:
            refined.require_settled(self.home.ledger)
            refined.require_same_rows(drawing.rows)
        return drawing

    def counter(self, snapshot: Snapshot) -> FoldCounter:
        """The counter of its prepared rows."""
        from dp_pipeline.raw.counters import open_counter

        return open_counter(self.spec, snapshot, engine_name())
