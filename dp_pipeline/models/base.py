"""The base of private models: public parameters, their check, and ``fit`` on a Curator.

``ModelFit`` is one fit of a model, with a budget that it spends exactly as claimed.
"""

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast

from numpy.random import Generator

from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import UNIT_WEIGHT, Domain
from dp_pipeline.config.encoding import Names
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.parameters import choice
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.gate.table_curator import PaidMarginals
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.results.accountant import Accountant, Spend
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import Clusters, Tables
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript

Released = Clusters | SyntheticTable | ClassTable

ROWS_SHARE = Fraction(2, 100)  # share of ε that buys a noisy number of rows where none is declared


@dataclass(frozen=True)
class PrivacyGuarantee:
    """The privacy that a model guarantees for a requested ε.

    kind      ``dp``, or ``not-dp`` for a published method without a finite ε
    epsilon   ε that the release costs in all, at the δ of ``currency`` if there is one; for
              ``not-dp`` only the requested one
    reason    why the model must not be used on sensitive rows; empty where it may
    currency  currency in which the noise is accounted: pure ε, or ρ with its δ
    """

    kind: Literal["dp", "not-dp"]
    epsilon: Fraction
    reason: str = ""
    currency: Currency = PURE

    def __post_init__(self) -> None:
        if self.kind == "not-dp" and not self.reason:
            raise BoundaryViolation(
                "A guarantee that is not private must say why, but its reason is empty"
            )

    @property
    def amount(self) -> Fraction:
        """The budget of the model in its currency: ε, or the largest ρ that implies this ε."""
        return self.currency.amount_of(self.epsilon)

    @property
    def is_dp(self) -> bool:
        """Whether the whole release is differentially private at ``epsilon``."""
        return self.kind == "dp"

    @property
    def is_plain(self) -> bool:
        """Whether the requested ε holds without a condition, so that sensitive rows may be
        released."""
        return not self.reason

    def label_state(self, state: str) -> str:
        """Return the name of a release's state: as it is where the requested ε holds, else with
        ``, composed`` at its end, or ``, not-dp`` where no ε holds."""
        if self.is_plain:
            return state
        return f"{state}, composed" if self.is_dp else f"{state}, {self.kind}"

    @property
    def composed(self) -> str:
        """The exact ``epsilon`` as text, or ``none`` if no ε holds for the release."""
        return epsilon_text(self.epsilon) if self.is_dp else "none"


class Model:
    """A private model, whose fields are its public parameters.

    summary           one sentence for lists and the Dagster page
    accounts_in_rho   whether it accounts in ρ where a δ is declared; else always in ε
    needs_delta       whether it cannot run without one
    refines           whether it can make a release less noisy for what is added to its ε, by
                      measuring the same again: then it has ``refine``
    learns            whether it can plan from an earlier window's release: then it has the
                      parameters ``plan_from`` and ``smooth``, and ``fit_after``
    prior             a parameter of models that can use public rows: then it has
                      ``fit_with_public_rows``
    releases_units    whether it can release units with parts
    uncounted         what it releases instead of noisy counts that add up over time windows, as
                      words of a message; ``none`` if it releases such counts

    A method that a model lacks by these fields raises NotImplementedError.
    """

    summary: ClassVar[str]
    accounts_in_rho: ClassVar[bool] = False
    needs_delta: ClassVar[bool] = False
    refines: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    releases_units: ClassVar[bool] = False
    uncounted: ClassVar[str] = "none"

    @property
    def needs_public_rows(self) -> bool:
        """Whether the model reads the exact number of rows, as it may only on benchmarks under
        ``replace_one``."""
        return False

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:  # noqa: ARG002
        """Return the guarantee of the model for ε; pass ``domain`` if it depends on the
        attributes."""
        return PrivacyGuarantee("dp", epsilon)

    def is_better_pure(self, domain: Domain, delta: Fraction) -> bool:  # noqa: ARG002
        """Return whether pure ε is expected to have less noise than the ρ that implies ε at δ;
        False for a model that does not compare them.

        It depends on the declared domain alone and not on ε, so a refinement keeps the currency.
        """
        return False

    def for_targets(self, names: Names, domain: Domain) -> "Model":  # noqa: ARG002
        """Return a model with more weight on pairs with the attributes ``names``, which are to be
        predicted; the same model if it has no weights, or declares them itself."""
        return self

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError if the parameters do not fit the declared attributes."""
        raise NotImplementedError

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Released:
        """Return a release; spend the curator's whole budget.

        epsilon   the requested ε; the budget is that ε, or the amount of ``guarantee``: the ρ that
                  implies it, or a larger ε
        rng       generator of random choices that protect nobody: synthetic rows, starts of k-means
        """
        raise NotImplementedError

    def fit_after(
        self, earlier: Tables, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> Released:
        """Return a release as ``fit`` does, planned by the tables of an earlier release."""
        raise NotImplementedError

    def refine(
        self, coarse: Released, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> Released:
        """Return a less noisy release of the same rows, at ``epsilon`` in all.

        coarse   the release at a smaller ε, by this model; the curator has its marginals, and what
                 ``epsilon`` costs more, all of which is spent on them
        """
        raise NotImplementedError

    def fit_with_public_rows(
        self, public: PublicTable, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> Released:
        """Return a release as ``fit`` does, with public rows of the same attributes as prior
        knowledge."""
        raise NotImplementedError

    @property
    def prior_name(self) -> str:
        """The data set whose public rows the model is declared to use; empty if there is none."""
        return str(getattr(self, "prior", ""))

    @property
    def plans_from_earlier(self) -> bool:
        """Whether the model is declared to plan from the release of the previous window."""
        return getattr(self, "plan_from", NOTHING) != NOTHING


NOTHING = "nothing"


def plan_from() -> Any:
    """Return the parameter field ``plan_from``: ``previous`` to plan from the previous window's
    release, or ``nothing``, the default."""
    return choice(NOTHING, "previous")


def smooth() -> Any:
    """Return the parameter field ``smooth``: ``true`` if counts are averaged with the previous
    window's, or ``false``, the default."""
    return choice("false", "true")


def prior() -> Any:
    """Return the parameter field ``prior``: the name of a data set of public rows; empty: none."""

    def parse(text: str) -> str | None:
        return text if re.fullmatch(r"[a-z][a-z0-9_]{0,63}", text) else None

    expected = "the name of a data set with `purpose: benchmark`"
    metadata = {"parse": parse, "expected": expected, "measuring": True}
    return field(default="", metadata=metadata)


def require_plan(plans: str, smooths: str) -> None:
    """Raise DeclarationError if ``smooth`` is ``true`` but ``plan_from`` is ``nothing``.

    plans, smooths   values of the two parameters ``plan_from`` and ``smooth``
    """
    if smooths == "true" and plans == NOTHING:
        raise DeclarationError(
            "The parameter `smooth` counts the same boxes or tables again, so it needs `plan_from` "
            "with it, in a file as `plan_from: previous`: add it, or leave `smooth` out"
        )


def guarantee_of(
    model: Model, epsilon: Fraction, delta: Fraction | None = None, *, domain: Domain | None = None
) -> PrivacyGuarantee:
    """Return the guarantee of a model that is asked for ``epsilon``.

    A model that accounts in ρ guarantees ε at a declared δ; any other one guarantees pure ε.
    ``domain`` is needed where the guarantee depends on the attributes.

    Raises DeclarationError for a model that needs a δ where none is declared, and for an ε too
    small for a nano-ρ.
    """
    if delta is None and model.needs_delta:
        raise DeclarationError(
            f"{type(model).__name__} needs a δ: declare `delta`, in a file in its `ceiling`, or "
            "choose another model"
        )
    guarantee = model.guarantee(epsilon, domain)
    if delta is None or not model.accounts_in_rho:
        return guarantee
    currency = Currency(delta)
    # What buys nothing is refused here, before anybody plans with it.
    currency.amount_of(guarantee.epsilon)
    return replace(guarantee, currency=currency)


def guarantee_at(
    model: Model,
    epsilon: Fraction,
    delta: Fraction | None,
    *,
    domain: Domain | None = None,
    is_alone: bool = False,
) -> PrivacyGuarantee:
    """Return the guarantee of one fit at a requested ε and δ, or at pure ε if δ is None.

    is_alone   whether no population pays for the fit: then pure ε is guaranteed, in spite of a δ,
               where that has less noise over ``domain``

    *Proof.* ε-DP is (ε, δ)-DP, so a fit by itself may take either. In an account of ρ the pure fit
    would cost ε²/2, many times ρ(ε, δ). For the same ρ its ε could be √(2ρ) at most, and Laplace
    noise would have twice the variance of Gaussian noise, σ² = Δ²/2ρ: there ρ is always better. ∎

    Raises DeclarationError for a δ that the model does not use: its result would be pure.
    """
    guarantee = guarantee_of(model, epsilon, delta, domain=domain)
    if guarantee.currency.delta != delta:
        raise DeclarationError(
            f"{type(model).__name__} is a model of pure ε and uses no δ, but "
            f"{delta_text(delta or Fraction(0))} is given: leave delta out"
        )
    if is_alone and domain and delta is not None and model.is_better_pure(domain, delta):
        return replace(guarantee, currency=PURE)
    return guarantee


def declared_guarantee(spec: DatasetSpec, model: Model, epsilon: Fraction) -> PrivacyGuarantee:
    """Return the guarantee of a declared model at ``epsilon``, under the δ of the data set if it
    has one."""
    return guarantee_of(model, epsilon, spec.delta, domain=spec.widest.domain)


def price(spec: DatasetSpec, guarantee: PrivacyGuarantee) -> Fraction:
    """Return the cost of a release and its evaluation, in the population's currency; 0 if no ε
    holds."""
    if not guarantee.is_dp:
        return Fraction(0)
    return spec.charge_for(spec.currency.cost_of(guarantee.amount, guarantee.currency))


def clustering_columns(columns: tuple[str, ...], domain: Domain) -> tuple[str, ...]:
    """Return the named columns, or all numeric attributes if none is named.

    DeclarationError if there are none, for a repeated name, and for one that is not numeric."""
    chosen = columns or domain.numeric
    if not chosen:
        raise DeclarationError(
            "A clustering needs numbers with bounds and `nullable: false`, but the data set has "
            "none: declare some"
        )
    if len(set(chosen)) != len(chosen):
        raise DeclarationError(
            f"A clustering needs each column once, but it has {', '.join(chosen)}: name each once"
        )
    domain.box(chosen)
    return chosen


def planning_units(
    curator: Curator, nominal_rows: int | None, epsilon: Fraction
) -> tuple[float, Fraction]:
    """Return a number of protected units to plan with, at distance 1, and the ε that is left.

    Published formulas take the number of rows N where a person is one row. With up to L rows of a
    person, noise is L times as large, so N rows at distance L count as N/L rows at distance 1. N is
    the declared ``nominal_rows``, or a noisy count for 2 % of ε; never the exact number of rows.
    """
    if nominal_rows is not None:
        return nominal_rows / curator.distance, epsilon
    noisy = curator.measure((), epsilon=epsilon * ROWS_SHARE)
    return max(1.0, float(noisy.table)) / curator.distance, epsilon * (1 - ROWS_SHARE)


@dataclass(frozen=True)
class FitResult:
    """The result of one fit, which a fit at a larger ε may refine.

    spends       the cost of every query to the rows, in all the budget
    kind         ``dp``, or ``not-dp`` where anything was disclosed without noise
    guarantee    the guarantee that the model claimed before the fit
    paid         the answers that may be refined, and what was paid for each
    free_spends  the cost of counting rows that no other query counts: it adds nothing to the ε of
                 the release
    """

    released: Released
    spends: tuple[Spend, ...]
    kind: str
    guarantee: PrivacyGuarantee
    paid: PaidMarginals = field(default_factory=dict)
    free_spends: tuple[Spend, ...] = ()

    def require_guaranteed(self, *, what: str) -> None:
        """Raise BoundaryViolation if the fit is ``not-dp`` but ``dp`` was claimed, or the reverse.

        what   the fit, in words of the message
        """
        if self.kind != self.guarantee.kind:
            raise BoundaryViolation(
                f"The fit of {what} must be {self.guarantee.kind} as its model claims, but it is "
                f"{self.kind}"
            )


@dataclass(frozen=True)
class ModelFit:
    """One fit of a model, without the rows.

    spec       the declaration of the rows
    earlier    tables of an earlier release from which to plan, or None
    public     public rows of the same attributes to use, or None; then ``earlier`` is ignored
    refines    result of the fit of the same rows to refine, or None; its cost is not spent again,
               and the other two are ignored
    """

    spec: DatasetSpec
    model: Model
    guarantee: PrivacyGuarantee
    earlier: Tables | None = None
    public: PublicTable | None = None
    refines: FitResult | None = None

    @property
    def amount(self) -> Fraction:
        """The ε or ρ that the fit spends; of a refinement, what it adds to the earlier fit."""
        return self.guarantee.amount - (self.refines.guarantee.amount if self.refines else 0)

    def curator(self, executor: QueryExecutor[Counter], paid: PaidMarginals) -> Curator:
        """Return the curator of the rows, or of the stored answers, of an executor.

        executor   where units have parts, its counter is asked for tables alone
        paid       answers that may be refined, to which the curator adds its own
        """
        domain, distance = self.spec.domain, self.spec.distance
        if domain.parts is not None:
            distance *= UNIT_WEIGHT
            if executor.counter is not None:
                # It answers questions about tables, and refuses all others.
                parts = cast(Counter, PartsCounter(executor.counter, domain))
                executor = replace(executor, counter=parts)
        is_benchmark = not self.spec.is_release
        return Curator(executor, domain, distance, is_benchmark, self.spec.relation, paid)

    def fit_model(
        self,
        counter: Counter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        epsilon: Fraction,
        rng: Generator,
    ) -> FitResult:
        """Fit the model to noisy answers, add them to ``transcript``, and return the result.

        In pure ε, a new clustering gets a noisy number of the rows that were dropped for a value
        that is not as declared, at no further cost.

        counter   exact answers; None repeats a fit from stored ones, without cost or noise
        epsilon   the requested ε, for which ``guarantee`` holds
        rng       see ``Model.fit``

        BoundaryViolation unless the fit spends exactly ``amount``.
        """
        paid = dict(self.refines.paid) if self.refines else {}
        accountant = Accountant(self.amount, self.guarantee.currency)
        curator = self.curator(QueryExecutor(counter, accountant, transcript, noise), paid)
        model = self.model
        if self.refines is not None:
            released = model.refine(self.refines.released, curator, epsilon=epsilon, rng=rng)
        elif self.public is not None:
            released = model.fit_with_public_rows(self.public, curator, epsilon=epsilon, rng=rng)
        elif self.earlier is None:
            released = model.fit(curator, epsilon=epsilon, rng=rng)
        else:
            released = model.fit_after(self.earlier, curator, epsilon=epsilon, rng=rng)
        accountant.require_all_spent()
        is_first = isinstance(released, Clusters) and self.refines is None
        # What rows without a place cost beside the others is proved of ε, not of ρ.
        if is_first and curator.domain.leaves_rows_out and accountant.currency == PURE:
            released = replace(cast("Clusters", released), left_out=curator.measure_left_out())
        free = () if accountant.free_spend is None else (accountant.free_spend,)
        return FitResult(
            released, accountant.spends, accountant.kind, self.guarantee, paid, free_spends=free
        )
