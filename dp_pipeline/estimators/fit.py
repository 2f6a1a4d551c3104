"""PrivateFit: one private model of rows in memory, through the gate.

The name of a method and its parameters → a model; nothing here sees a row.

Constructor arguments as the values that a fit needs; nothing here sees a row.

A wrong parameter, as this package and as scikit-learn name it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np

from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Answered, Curator
from dp_pipeline.gate.noise import (
    FIT_FOR_RELEASE,
    NoiseSource,
    OpenDPNoise,
    named_noise,
)
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Coarse, Model, PrivacyGuarantee, fit, guarantee_at, guarantee_of
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.clusters import Clusters, Tables
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.amounts import (
    LARGEST,
    NANO,
    SMALLEST,
    delta_text,
    epsilon_text,
    parse_delta,
    parse_epsilon,
)
from dp_pipeline.spec.discovered import Discover
from dp_pipeline.spec.domain import Domain, OneRow, Relation, distance
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError
from dp_pipeline.spec.parameters import from_text

UNIT = OneRow()
RELATION: Relation = "add_remove"
RELATION_WORDS = "added or removed"

ReleaseType = TypeVar("ReleaseType", Clusters, SyntheticTable)


@dataclass(frozen=True)
class Estimate(Generic[ReleaseType]):
    """What a fit releases.

    spends       every look at the rows; they add up to what the fit claims
    transcript   all questions and noisy answers
    answered     the marginals among them, as they may be refined
    """

    released: ReleaseType
    spends: tuple[Spend, ...]
    transcript: Transcript
    answered: Answered


@dataclass(frozen=True, eq=False)
class RefinedFit:
    """What a fit that refines an earlier one has of it.

    coarse     its release, and what was spent on that
    answered   its marginals, and what was paid for each
    epsilon    what it promised
    """

    coarse: Coarse
    answered: Answered
    epsilon: Fraction


@dataclass(frozen=True)
class PrivateFit(Generic[ReleaseType]):
    """Everything of one fit but the rows: public.

    estimator   name of its class
    method      name of the model
    releases    what the model gives
    guarantee   the ε that was asked of the model, and what it is accounted in
    discover    what its domain is discovered for, before and beside that
    earlier     the tables of the fit that it plans from, or None
    public      rows of others that it uses, or None
    refines     the fit whose answers it refines, or None
    """

    estimator: str
    method: str
    releases: type[ReleaseType]
    model: Model
    domain: Domain
    guarantee: PrivacyGuarantee
    discover: Discover | None = None
    earlier: Tables | None = None
    public: PublicTable | None = None
    refines: RefinedFit | None = None

    @property
    def amount(self) -> Fraction:
        """What it spends, in the currency of its guarantee: of a refinement, what it adds."""
        paid = Fraction(0) if self.refines is None else self.refines.coarse.amount
        return self.guarantee.amount - paid

    @property
    def paid(self) -> Fraction:
        """The ε that it adds to what was spent on its rows: with what its domain is discovered
        for, without what a fit that it refines has paid.
        """
        found = Fraction(0) if self.discover is None else self.discover.epsilon
        before = Fraction(0) if self.refines is None else self.refines.epsilon
        return self.guarantee.epsilon + found - before

    def run(
        self, counter: Counter, *, noise: NoiseSource, rng: np.random.Generator
    ) -> Estimate[ReleaseType]:
        """Ask through the gate; spends exactly ``amount``, or raises. ``rng`` is for
        post-processing.
        """
        return self._run(counter, noise, Transcript(), rng)

    def replayed(
        self, transcript: Transcript, *, noise: NoiseSource, rng: np.random.Generator
    ) -> Estimate[ReleaseType]:
        """The same fit over stored answers, without rows and at no cost; draws no noise."""
        return self._run(None, noise, transcript, rng)

    def _run(
        self,
        counter: Counter | None,
        noise: NoiseSource,
        transcript: Transcript,
        rng: np.random.Generator,
    ) -> Estimate[ReleaseType]:
        # A curator writes into them what it answers.
        answered = {} if self.refines is None else dict(self.refines.answered)

        def ask(accountant: Accountant) -> Curator:
            return Curator(
                counter,
                domain=self.domain,
                distance=distance(UNIT, RELATION),
                accountant=accountant,
                transcript=transcript,
                noise=noise,
                answered=answered,
            )

        fitted = fit(
            self.model,
            self.guarantee,
            ask,
            epsilon=self.guarantee.epsilon,
            rng=rng,
            earlier=self.earlier,
            public=self.public,
            coarse=None if self.refines is None else self.refines.coarse,
        )
        fitted.require_guaranteed(self.guarantee, what=self.method)
        if not isinstance(fitted.released, self.releases):
            raise BoundaryViolation(
                f"{self.method}: expected {self.releases.__name__}, got another release"
            )
        return Estimate(fitted.released, fitted.spends, transcript, answered)


_OF_CLUSTERING = {"k": "n_clusters", "columns": "the columns of X"}
_OF_TABLES = {"attributes": "the columns of domain"}


PLAN_FROM, PRIOR = "plan_from", "prior"
_LEARNED = {PLAN_FROM: PLAN_FROM, PRIOR: "prior of fit"}


def planning_params(plan_from: object, estimator: Any) -> dict[str, str]:
    """The parameter of a method that says that it plans from an earlier fit; none where there is
    none.

    Raises DeclarationError for what is no fitted estimator of the same class and method, and for a
    method that learns nothing.
    """
    if plan_from is None:
        return {}
    kind = type(estimator).__name__
    is_alike = isinstance(plan_from, type(estimator)) and hasattr(plan_from, "spends_")
    if not is_alike or getattr(plan_from, "method", None) != estimator.method:
        raise DeclarationError(
            f"{PLAN_FROM}: expected a fitted {kind} by {estimator.method!r:.40}, got another object"
        )
    name = _method(estimator.method, Model)
    if not MODELS[name].learns:
        known = ", ".join(one for one in MODELS if MODELS[one].learns)
        raise DeclarationError(
            f"{PLAN_FROM}: expected none of a method that plans from no other fit ({known} do), "
            f"got one of {name}"
        )
    return {PLAN_FROM: "previous"}


def prior_params(method: object) -> dict[str, str]:
    """The parameter of a method that says that it uses public rows, which have no name here.

    Raises DeclarationError for a method that uses none.
    """
    name = _method(method, Model)
    takers = [one for one in MODELS if PRIOR in _parameters_of(one)]
    if name not in takers:
        raise DeclarationError(
            f"prior: expected none for a method that uses no public rows ({', '.join(takers)} "
            f"does), got one for {name}"
        )
    return {PRIOR: "frame"}


def clustering_model(
    method: object,
    *,
    clusters: int,
    nominal_rows: object,
    params: Mapping[str, object] | None,
    learned: Mapping[str, str],
) -> Model:
    """The model of a method's name; ``nominal_rows`` reaches it if it plans with one.

    learned   the parameters that say what it learns from elsewhere

    Raises DeclarationError for a method that releases no centres, and for wrong parameters.
    """
    name = _method(method, Clustering)
    texts = _texts(name, params, nominal_rows, set_elsewhere=_OF_CLUSTERING)
    return from_text(MODELS[name], {**texts, **learned, "k": str(clusters)}, of=name)


def table_model(
    method: object,
    *,
    nominal_rows: object,
    params: Mapping[str, object] | None,
    learned: Mapping[str, str],
) -> Model:
    """The model of a method's name; ``nominal_rows`` reaches it if it plans with one.

    learned   the parameters that say what it learns from elsewhere

    Raises DeclarationError for a method that releases no table, and for wrong parameters.
    """
    name = _method(method, TableModel)
    texts = _texts(name, params, nominal_rows, set_elsewhere=_OF_TABLES)
    return from_text(MODELS[name], {**texts, **learned}, of=name)


def _method(method: object, family: type) -> str:
    methods = [name for name, model in MODELS.items() if issubclass(model, family)]
    if not isinstance(method, str) or method not in methods:
        raise DeclarationError(f"method: expected one of {', '.join(methods)}, got {method!r:.60}")
    return method


def _texts(
    method: str,
    params: Mapping[str, object] | None,
    nominal_rows: object,
    *,
    set_elsewhere: Mapping[str, str],
) -> dict[str, str]:
    """Parameters as a data set file would write them."""
    if params is not None and not isinstance(params, Mapping):
        raise DeclarationError(f"method_params: expected a mapping, got {type(params).__name__}")
    texts = {str(name): str(value) for name, value in (params or {}).items()}
    for name, where in {**set_elsewhere, **_LEARNED, "nominal_rows": "nominal_rows"}.items():
        if name in texts:
            raise DeclarationError(f"method_params: {name} is set by {where}, got it here")
    if nominal_rows is not None and "nominal_rows" in _parameters_of(method):
        texts["nominal_rows"] = str(nominal_rows)
    return texts


def _parameters_of(method: str) -> Collection[str]:
    return getattr(MODELS[method], "__dataclass_fields__", {})


def plain_guarantee(
    method: str,
    model: Model,
    epsilon: Fraction,
    *,
    domain: Domain,
    delta: Fraction | None = None,
    is_alone: bool = True,
) -> PrivacyGuarantee:
    """Return what the model promises at the ε, and the δ, of one fit.

    is_alone   whether no population pays for it

    Raises DeclarationError for a published variant that costs another ε than the one asked or
    has none, for one that is for benchmarks alone, and for a δ that the model has no use for.
    """
    guarantee = guarantee_of(model, epsilon, delta, domain=domain)
    if not guarantee.is_plain:
        raise DeclarationError(
            f"{method}: expected a sound variant, at the ε asked, got another: {guarantee.reason}"
        )
    return guarantee_at(model, epsilon, delta, domain=domain, is_alone=is_alone)


def exact_epsilon(value: object, *, of: str = "epsilon") -> Fraction:
    """ε of decimal text, a Fraction, a whole number, or a float by its shortest decimal text,
    rounded down to nine decimals: what was computed may have more, and less ε promises more.

    Raises DeclarationError for anything else, and for what ``parse_epsilon`` refuses.

    >>> exact_epsilon(0.1) == exact_epsilon("0.1") == Fraction(1, 10)
    True
    >>> exact_epsilon(2 / 3)
    Fraction(333333333, 500000000)
    """
    if isinstance(value, Fraction):
        return parse_epsilon(epsilon_text(value), of=of)
    text = _decimal_text(value, of=of)
    is_float = not isinstance(value, str | Integral)
    # What is out of range, or no number, is refused as it was written.
    if is_float and SMALLEST <= float(text) <= LARGEST:
        text = epsilon_text(Fraction(Fraction(text) * NANO // 1, NANO))
    return parse_epsilon(text, of=of)


def promised(of: PrivateFit[ReleaseType], *, asked: object, is_fit: bool) -> str:
    """What a fit promises, in one line.

    asked    its ``epsilon`` as it was written
    is_fit   whether its noise may protect persons
    """
    found, own = of.discover, of.guarantee.currency.delta or Fraction(0)
    paid = of.guarantee.epsilon + (found.epsilon if found else 0)
    delta = own + ((found.delta or 0) if found else 0)
    said = epsilon_text(paid)
    is_exact = isinstance(asked, str | Fraction)
    written = said if is_exact else _decimal_text(asked, of="epsilon")
    if Fraction(written) != paid:
        said += f" (rounded down from {written})"
    of_delta = f", δ={delta_text(delta)}" if delta else ""
    if of.refines is not None:
        of_delta += (
            f" together with the fit at ε={epsilon_text(of.refines.epsilon)} that it refines"
        )
    doubt = "" if of.public is None else "; its public rows are not protected"
    doubt += "" if is_fit else "; its noise protects nobody"
    return (
        f"{of.estimator} by {of.method}, fitted: ε={said}{of_delta}, "
        f"protects {UNIT} that is {RELATION_WORDS}{doubt}"
    )


def exact_delta(value: object, *, of: str = "delta") -> Fraction | None:
    """δ as ``exact_epsilon`` reads it; None for 0, which is pure ε.

    Raises DeclarationError for anything else, and for what ``parse_delta`` refuses.

    >>> exact_delta(1e-9) == exact_delta("0.000000001") == Fraction(1, 10**9)
    True
    """
    if isinstance(value, Fraction):
        return parse_delta(delta_text(value), of=of) if value else None
    text = _decimal_text(value, of=of)
    return None if text.strip() in ("0", "0.0") else parse_delta(text, of=of)


def _decimal_text(value: object, *, of: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(
            f"{of}: expected text, a Fraction, a whole number or a float, "
            f"got {type(value).__name__}"
        )
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def noise_of(value: object) -> NoiseSource:
    """OpenDP for None, the source that text names, or the source itself."""
    if value is None:
        return OpenDPNoise()
    if isinstance(value, str):
        return named_noise(value)
    if isinstance(value, type) or not hasattr(value, "fit_for_release"):
        raise DeclarationError(
            f"noise: expected None, opendp, exact, seeded:NUMBER or a source, got {value!r:.60}"
        )
    source: NoiseSource = value  # type: ignore[assignment]
    return source


def is_fit_for_release(value: object) -> bool:
    """Whether the source that ``noise_of`` gives is one that protects persons."""
    return type(noise_of(value)) in FIT_FOR_RELEASE


def generator(random_state: object) -> np.random.Generator:
    """Post-processing randomness from what scikit-learn takes for ``random_state``."""
    from sklearn.utils import check_random_state

    words = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(words.tolist())


class InvalidParameter(DeclarationError, ValueError):
    """A parameter or the form of ``X`` is wrong; nothing was charged or drawn."""


@contextmanager
def invalid_parameters() -> Iterator[None]:
    """What a declaration is refused for, as an error that is a ValueError too."""
    try:
        yield
    except DeclarationError as error:
        raise InvalidParameter(str(error)) from None
