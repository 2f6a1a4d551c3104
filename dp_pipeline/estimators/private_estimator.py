"""What private estimators have in common: model, promise, discovery, and what they warn of."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline.estimators.counted_fits import CountedFits
from dp_pipeline.estimators.discovery import cost_of, epsilon_left, find_domain, widest
from dp_pipeline.estimators.fit import PrivateFit
from dp_pipeline.estimators.parameters import (
    decimal_text,
    exact_epsilon,
    generator,
    is_fit_for_release,
    noise_of,
)
from dp_pipeline.estimators.refinement import FinishedFit, drawn
from dp_pipeline.estimators.rows import prepared_rows
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import FitResult, Model, guarantee_at, guarantee_of
from dp_pipeline.results.accountant import Spend
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript


class WeakSignal(UserWarning):
    """A release that says by its own noisy counts that it is mostly noise, or of few rows."""


class PrivateEstimator(CountedFits):
    """An estimator that fits a private model."""

    def _declared_fit(
        self,
        name: str,
        domain: Domain,
        releases: type[Clusters | SyntheticTable],
        model: Model,
        *,
        to_discover: str,
        delta: Fraction | None = None,
    ) -> PrivateFit:
        """The fit; before a discovery, its model and its price are those of as many cells as may be
        found.

        to_discover   what a column would have to say for something to be discovered
        """
        # What is wrong by itself is said before what does not go together.
        epsilon = exact_epsilon(self.epsilon)
        cost = cost_of(self.discover, domain, kind=to_discover)
        spec = DatasetSpec.of_domain(name, domain, discover=cost)
        epsilon, domain = epsilon_left(spec, epsilon), widest(spec).domain
        model.check(domain)
        guarantee = guarantee_of(model, epsilon, delta, domain=domain)
        if not guarantee.is_plain:
            raise DeclarationError(
                f"{self.method}: expected a sound variant, at the ε asked, got another: "
                f"{guarantee.reason}"
            )
        is_alone = self.population is None
        guarantee = guarantee_at(model, epsilon, delta, domain=domain, is_alone=is_alone)
        return PrivateFit(spec, self.method, releases, model, guarantee)

    def _draw(
        self,
        fit: PrivateFit,
        values: Sequence[Any],
        *,
        refines: FinishedFit | None = None,
        refuse: bool = False,
    ) -> tuple[FinishedFit, str]:
        """Run a declared fit over the columns of X, and what it promises; its domain is discovered
        before, where there is something to discover.

        refines   the fit that it refines, or None
        refuse    raise where a row does not fit, in place of leaving it out
        """
        began, noise = generator(self.random_state), noise_of(self.noise)
        # Rows are looked at after the charge, unless something before depends on them.
        is_early = fit.is_refinable or (refuse and not fit.spec.to_discover)
        rows = prepared_rows(fit.spec.domain, values, refuse=refuse) if is_early else None
        if refines is not None:
            fit = refines.refined_by(fit, self.noise)
        promise = self._promise(fit)

        def run(transcript: Transcript) -> FitResult:
            nonlocal fit, promise
            # What was refused before has cost nothing, and is no fit.
            promise = self._counted(promise, fit)
            looks: tuple[Spend, ...] = ()
            if fit.spec.to_discover:
                spec, looks = find_domain(fit.spec, values, noise)
                fit.model.check(spec.domain)
                fit = replace(fit, spec=spec)
            here = rows or prepared_rows(fit.spec.domain, values, refuse=refuse)
            rng = copy.deepcopy(began)
            fitted, _ = fit.run(here.counter(), noise=noise, rng=rng, transcript=transcript)
            return replace(fitted, spends=(*looks, *fitted.spends))

        fitted, transcript, draw = drawn(
            fit,
            run,
            rows if fit.is_refinable else None,
            noise=noise,
            population=self.population,
            refines=refines,
        )
        is_fit = is_fit_for_release(self.noise)
        return FinishedFit(fit, fitted, began, transcript, draw, is_fit), promise

    def _promise(self, of: PrivateFit) -> str:
        """What a fit promises, in one line."""
        found, own = of.spec.discover, of.guarantee.currency.delta or Fraction(0)
        paid = of.guarantee.epsilon + (found.epsilon if found else 0)
        delta = own + ((found.delta or 0) if found else 0)
        said = epsilon_text(paid)
        is_exact = isinstance(self.epsilon, str | Fraction)
        written = said if is_exact else decimal_text(self.epsilon, of="epsilon")
        if Fraction(written) != paid:
            said += f" (rounded down from {written})"
        of_delta = f", δ={delta_text(delta)}" if delta else ""
        if of.refines is not None:
            of_delta += (
                f" together with the fit at ε={epsilon_text(of.refines.epsilon)} that it refines"
            )
        doubt = "" if of.public is None else "; its public rows are not protected"
        doubt += "" if is_fit_for_release(self.noise) else "; its noise protects nobody"
        return (
            f"{of.spec.name} by {of.method}, fitted: ε={said}{of_delta}, "
            f"protects {of.spec.protection} that is added or removed{doubt}"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not str(self.noise).startswith("seeded:")
        return tags

    def _warn(self) -> None:
        """One WeakSignal a doubt, at the line that called ``fit``."""
        for doubt in self.warnings_:
            warnings.warn(f"{type(self).__name__}: {doubt}", WeakSignal, stacklevel=3)


def declared_model(
    estimator: Any,
    family: type,
    *,
    elsewhere: Mapping[str, str],
    has_prior: bool = False,
    **own: str,
) -> Model:
    """The model of an estimator's ``method``; ``nominal_rows`` reaches it if it plans with one.

    family      what it has to be
    elsewhere   parameter of models → the argument that sets it
    has_prior   whether public rows are used, which have no name here
    own         parameters that the estimator sets

    Raises DeclarationError for a method that is none of the family, for wrong parameters, and for
    what the method cannot learn from.
    """
    method, params = estimator.method, estimator.method_params
    methods = [name for name, model in MODELS.items() if issubclass(model, family)]
    if not isinstance(method, str) or method not in methods:
        raise DeclarationError(f"method: expected one of {', '.join(methods)}, got {method!r:.60}")
    learned = _planning(estimator) | (_prior(method) if has_prior else {})
    if params is not None and not isinstance(params, Mapping):
        raise DeclarationError(f"method_params: expected a mapping, got {type(params).__name__}")
    texts = {str(name): str(value) for name, value in (params or {}).items()}
    arguments = {"nominal_rows": "nominal_rows", "plan_from": "plan_from", "prior": "prior of fit"}
    for name, where in {**elsewhere, **arguments}.items():
        if name in texts:
            raise DeclarationError(
                f"method_params: expected no {name}: it is set by {where}, got one"
            )
    if estimator.nominal_rows is not None and "nominal_rows" in _parameters_of(method):
        texts["nominal_rows"] = str(estimator.nominal_rows)
    return from_text(MODELS[method], {**texts, **learned, **own}, of=method)


def _planning(estimator: Any) -> dict[str, str]:
    """The parameter that says that a method plans from an earlier fit, where there is one."""
    earlier, method = estimator.plan_from, estimator.method
    if earlier is None:
        return {}
    is_alike = isinstance(earlier, type(estimator)) and hasattr(earlier, "spends_")
    if not is_alike or getattr(earlier, "method", None) != method:
        raise DeclarationError(
            f"plan_from: expected a fitted {type(estimator).__name__} by {method!r:.40}, "
            "got another object"
        )
    if not MODELS[method].learns:
        raise DeclarationError(
            "plan_from: expected none of a method that plans from no other fit "
            f"({', '.join(name for name in MODELS if MODELS[name].learns)} do), got one of {method}"
        )
    if is_fit_for_release(estimator.noise) and not earlier.fit_for_release_:
        raise DeclarationError(
            "plan_from: expected a fit whose noise may protect persons as this one's may, got one "
            "with a seed or a source of its own"
        )
    return {"plan_from": "previous"}


def _prior(method: str) -> dict[str, str]:
    takers = [name for name in MODELS if "prior" in _parameters_of(name)]
    if method not in takers:
        raise DeclarationError(
            f"prior: expected none for a method that uses no public rows ({', '.join(takers)} "
            f"does), got one for {method}"
        )
    return {"prior": "frame"}


def _parameters_of(method: str) -> Collection[str]:
    return getattr(MODELS[method], "__dataclass_fields__", {})
