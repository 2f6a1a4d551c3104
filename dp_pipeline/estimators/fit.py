"""One private fit: discovered, run over rows, and afterwards run again over its stored answers.

A refinement takes noise away from the answers of a fit at a smaller ε; the two together cost the
larger ε (``gate.mechanisms.refinement_query``). That holds for *one* refinement, of the same rows:
``payment.py`` holds both.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dp_pipeline.config.amounts import NANO, epsilon_text
from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Levels
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.estimators.parameters import exact_delta, exact_epsilon, is_releasable_noise
from dp_pipeline.estimators.rows import PreparedRows, prepare_rows
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import NoiseSource, OpenDPNoise, SeededNoise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import FitResult, ModelFit
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.counters.fold import EmptyCounter
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import Accountant, Spend
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import AnswerRecord, Transcript

DEFAULT_SHARE = Fraction(1, 10)
"""The share of a fit's ε that discovers what is not declared, unless ``discover`` says another."""

DEFAULT_DELTA = Fraction(1, 10**9)
"""The δ of levels that are discovered, unless ``discover`` says another."""


@dataclass(frozen=True, kw_only=True)
class PrivateFit(ModelFit):
    """The public parts of one fit of an estimator, which names its declaration.

    method      name of the model
    must_fit    whether a row that does not fit the declaration raises, instead of being dropped
    """

    method: str
    must_fit: bool = False

    @property
    def added_epsilon(self) -> Fraction:
        """The ε that the fit adds to what was spent on its rows, including its discovery."""
        discovery = self.spec.discover.epsilon if self.spec.discover else Fraction(0)
        earlier = self.refines.guarantee.epsilon if self.refines else 0
        return self.guarantee.epsilon + discovery - earlier

    @property
    def is_refinable(self) -> bool:
        """Whether a later fit at a larger ε may refine this fit."""
        has_context = self.earlier is not None or self.public is not None
        has_context |= self.spec.domain.parts is not None
        return self.model.refines and not has_context and self.spec.discover is None

    def run(
        self,
        counter: Counter | None,
        transcript: Transcript,
        noise: NoiseSource,
        rng: np.random.Generator,
    ) -> FitResult:
        """Return the result of ``fit_model`` at the guaranteed ε.

        BoundaryViolation also for another guarantee than the claimed one, and for a release of
        another type than that of the model's family.
        """
        epsilon = self.guarantee.epsilon
        result = self.fit_model(counter, transcript, noise, epsilon=epsilon, rng=rng)
        result.require_guaranteed(what=self.method)
        expected = SyntheticTable if isinstance(self.model, TableModel) else Clusters
        if not isinstance(result.released, expected):
            raise BoundaryViolation(
                f"The method {self.method} must release {expected.__name__}, not "
                f"{type(result.released).__name__}"
            )
        return result

    def run_without_rows(self) -> FitResult:
        """Return the result of the fit on an empty table with seeded noise, which costs nothing, to
        find faults before the charge."""
        widest_fit = replace(self, spec=self.spec.widest)
        counter, rng = EmptyCounter(widest_fit.spec.counted_domain), np.random.default_rng(0)
        return widest_fit.run(counter, Transcript(), SeededNoise(0), rng)

    def run_over(
        self,
        table: pa.Table,
        key: bytes,
        *,
        noise: NoiseSource,
        rng: np.random.Generator,
        rows: PreparedRows | None = None,
    ) -> FinishedFit:
        """Discover undeclared bounds and levels, prepare the rows and fit the model to them; return
        the finished fit.

        table      the declared columns, as ``rows.table_to_arrow`` returns them
        key        the secret that chooses which rows of a person count
        rng        randomness of post-processing; it is copied, not advanced
        rows       the prepared rows of ``table`` if they exist already, else None
        """
        fit, discovery = self, tuple[Spend, ...]()
        if self.spec.to_discover:
            cost = self.spec.discover
            assert cost is not None
            accountant = Accountant(cost.epsilon, delta=cost.delta or Fraction(0))
            undeclared = UndeclaredRows.of_table(self.spec, table, key)
            domain = discover(self.spec, undeclared, accountant, Transcript(), noise)
            accountant.require_all_spent()
            spec, discovery = self.spec.with_domain(domain), accountant.spends
            self.model.check(spec.domain)
            fit = replace(self, spec=spec)
        rows = rows or prepare_rows(fit.spec, table, key, refuse=fit.must_fit)
        counter, transcript = rows.counter(), Transcript()
        result = fit.run(counter, transcript, noise, copy.deepcopy(rng))
        result = replace(result, spends=(*discovery, *result.spends))
        return FinishedFit(fit, result, rng, transcript, is_releasable_noise(noise))


def discovery_cost(
    value: object, domain: Domain, epsilon: Fraction, *, hint: str
) -> Discover | None:
    """Return the ε and δ that discover bounds and levels; None if no column is to be discovered.

    value     ``{"epsilon": 0.1, "delta": 1e-9}``, for example; None: a tenth of the fit's ε, and a
              δ of 1e-9 if there are levels to discover
    epsilon   ε of the fit, of which the cost is a part
    hint      words of a message: how to declare a column that is to be discovered

    The δ is None where only bounds are to be discovered, whatever ``value`` says. DeclarationError
    for another value, for an ε not below that of the fit, and for a cost without a column to
    discover.
    """
    undeclared = [each.undeclared for each in domain if each.undeclared is not None]
    if not undeclared and value is None:
        return None
    if not undeclared:
        raise DeclarationError(
            "discover: no column is left to be discovered, so it has no cost: leave `discover` "
            f"out, or declare a column {hint}"
        )
    # Where no column holds texts, δ buys nothing and is not spent.
    has_levels = not all(each.is_number for each in undeclared)
    if value is None:
        share = Fraction(epsilon * DEFAULT_SHARE * NANO // 1, NANO)
        delta = DEFAULT_DELTA if has_levels else None
        return Discover.model_construct(epsilon=share, delta=delta)
    if not isinstance(value, Mapping) or not {"epsilon"} <= set(value) <= {"epsilon", "delta"}:
        raise DeclarationError(
            'discover: expected {"epsilon": 0.1, "delta": 1e-9}, the cost of discovering columns, '
            f"got {value!r:.60}"
        )
    cost = exact_epsilon(value["epsilon"], of="discover.epsilon")
    delta = exact_delta(value.get("delta", DEFAULT_DELTA), of="discover.delta")
    if cost >= epsilon:
        raise DeclarationError(
            f"discover: expected an ε below that of the fit, {epsilon_text(epsilon)}, "
            f"got {epsilon_text(cost)}"
        )
    if has_levels and delta is None:
        raise DeclarationError(
            "discover: discovered levels need a δ above 0, not 0: write it as `delta`"
        )
    return Discover.model_construct(epsilon=cost, delta=delta if has_levels else None)


def discovered_form(attribute: Attribute) -> dict[str, Any]:
    """Return the discovered ``levels`` of a column as texts, or its ``bounds`` and inner ``edges``;
    those of times are texts."""
    cells, interval, clock = attribute.cells, attribute.coordinate, attribute.clock
    if isinstance(cells, Bins) and interval is not None:
        bounds, edges = (interval.lower, interval.upper), cells.edges[1:-1]
        if clock is None:
            return {"bounds": bounds, "edges": edges}
        return {"bounds": attribute.range, "edges": tuple(map(clock.text, edges))}
    return {"levels": cells.values if isinstance(cells, Levels) else ()}


class _StoredAnswers(Transcript):
    """The stored answers of a fit, which set ``rng`` to the state of ``row_rng`` after the last.

    A model may draw its questions, so it must begin with the same randomness. After the last answer
    it draws rows.
    """

    def __init__(
        self, stored: Transcript, *, rng: np.random.Generator, row_rng: np.random.Generator
    ) -> None:
        super().__init__()
        self._records = list(stored.records)
        self._rng, self._row_rng = rng, row_rng

    def recall(self, question: str, *, words: str = "") -> AnswerRecord | None:
        record = super().recall(question, words=words)
        if self._next == len(self._records):
            self._rng.bit_generator.state = self._row_rng.bit_generator.state
        return record


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A finished fit without its rows: its private results, and its declaration.

    first_rng      post-processing randomness as it was when the fit began
    transcript     all questions and noisy answers
    is_releasable  whether its noise may protect persons
    population     the population that paid for it, or None
    ledger_key     key of its charge; empty where nobody paid
    """

    fit: PrivateFit
    result: FitResult
    first_rng: np.random.Generator
    transcript: Transcript
    is_releasable: bool
    population: str | None = None
    ledger_key: str = ""

    def sample_again(self, rows: int, rng: np.random.Generator) -> SyntheticTable:
        """Return a synthetic table of ``rows`` new rows, drawn from the stored noisy answers at no
        further ε.

        rng   randomness of the rows
        """
        model, first_rng = self.fit.model, copy.deepcopy(self.first_rng)
        assert isinstance(model, TableModel)
        answers = _StoredAnswers(self.transcript, rng=first_rng, row_rng=rng)
        fit = replace(self.fit, model=replace(model, synthetic_rows=rows))
        result = fit.run(None, answers, OpenDPNoise(), first_rng)
        assert isinstance(result.released, SyntheticTable)
        return result.released

    def prepare_refinement(
        self, fit: PrivateFit, noise: NoiseSource, *, population: str | None
    ) -> PrivateFit:
        """Return ``fit``, which has a larger ε, changed so that it refines the answers of this fit.

        DeclarationError if it asks other questions than this fit, has another population or
        currency, or needs noise that protects persons, which that of this fit does not.
        """
        self._require_same_questions(fit)
        coarse, fine = self.fit.guarantee, fit.guarantee
        # First: without a population a fit may be paid in pure ε, whatever its `delta`.
        if self.population != population:
            raise DeclarationError(
                f"refines: both fits must have the same `population`, but the other one has "
                f"{self.population}, and this one {population}: pass that of the other"
            )
        if coarse.currency != fine.currency:
            raise DeclarationError(
                "refines: both fits must have one `delta`, but the other one's is not the "
                "delta of this fit: pass the same"
            )
        if not coarse.amount < fine.amount:
            raise DeclarationError(
                f"refines: the ε of the other fit must be below {epsilon_text(fine.epsilon)}, but "
                f"it is {epsilon_text(coarse.epsilon)}"
            )
        if is_releasable_noise(noise) and not self.is_releasable:
            raise DeclarationError(
                "refines: the noise of the other fit is from neither opendp nor exact, so it "
                "protects nobody: fit it with noise=None"
            )
        return replace(fit, refines=self.result)

    def _require_same_questions(self, fit: PrivateFit) -> None:
        for either, which in ((fit, "this one"), (self.fit, "the other one")):
            if not either.model.refines:
                refinable = ", ".join(name for name in MODELS if MODELS[name].refines)
                raise DeclarationError(
                    "refines: the method must ask the same questions at every ε, as "
                    f"{refinable} do, but {either.method} does not: fit anew without `refines`"
                )
            if either.earlier is not None or either.public is not None:
                name = "prior" if either.earlier is None else "plan_from"
                raise DeclarationError(
                    f"refines: neither fit may have {name}, but {which} has: fit both without it"
                )
            if either.spec.discover is not None:
                raise DeclarationError(
                    f"refines: the domain of both fits must be declared, but that of {which} is "
                    "discovered: declare it"
                )
        models = [texts_of(each.model, measuring=True) for each in (self.fit, fit)]
        labels = [texts.pop("label", "") for texts in models]
        for argument, earlier, later in (
            ("`method`", self.fit.method, fit.method),
            # `on_unknown` and types decide what may be missing, and what is whole.
            (
                "`domain`, `on_unknown` and types of columns",
                self.fit.spec.domain.attributes,
                fit.spec.domain.attributes,
            ),
            ("`constraints`", self.fit.spec.domain, fit.spec.domain),
            ("`label`", *labels),
            ("`method_params`", *models),
        ):
            if earlier != later:
                raise DeclarationError(
                    f"refines: both fits must have the same {argument}, but they differ: pass "
                    "the same to both"
                )
