"""The base of private estimators, from the declaration of a fit to its warnings."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import discovery_price
from dp_pipeline.config.domain import Domain, Protection
from dp_pipeline.config.errors import DeclarationError, argument_text, require_integer
from dp_pipeline.config.parameters import from_text
from dp_pipeline.config.system_errors import to_path
from dp_pipeline.estimators.column_types import find_identifiers
from dp_pipeline.estimators.fit import FinishedFit, PrivateFit, discovery_cost
from dp_pipeline.estimators.frames import Features, is_among, require_exact_ids
from dp_pipeline.estimators.parameters import (
    InvalidParameter,
    decimal_text,
    exact_epsilon,
    generator,
    invalid_parameters,
    is_releasable_noise,
    noise_of,
)
from dp_pipeline.estimators.payment import row_secret, run_fit
from dp_pipeline.estimators.rows import draw_table, prepare_rows
from dp_pipeline.files import write_atomically
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS, require_units_released
from dp_pipeline.models.base import Model, guarantee_at
from dp_pipeline.reporting.plausibility import NoisyTotal, release_warnings
from dp_pipeline.results.clusters import Tables

MOST_DECLARED_ROWS = 10**15
"""Most rows of ``nominal_rows`` and ``at_most``, as many as a model takes."""

REHEARSED_ROWS = 1_000
"""Rows of a rehearsal where an estimator has no ``nominal_rows``."""


class WeakSignal(UserWarning):
    """A warning that a release is mostly noise, or of few rows, judged by its noisy counts."""


class FitSeries:
    """The number and total ε of an estimator's and its clones' fits without a population.

    count        number of fits
    epsilon      sum of their ε
    has_copies   whether a pickle was made, so that other processes may fit too
    """

    def __init__(self) -> None:
        self.count, self.epsilon = 0, Fraction(0)
        self.has_copies = self.has_warned = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[FitSeries], tuple[()]]:
        self.has_copies = True
        return FitSeries, ()

    def add(self, epsilon: Fraction) -> str:
        """Add one fit; return the number and total ε of all fits as text.

        It is empty for the first fit if no copy exists.
        """
        with self._lock:
            self.count += 1
            self.epsilon += epsilon
            if self.count < 2 and not self.has_copies:
                return ""
            copies = ", without those of other processes" if self.has_copies else ""
            return (
                f"{self.count} of it and its clones: ε={epsilon_text(self.epsilon)} in all{copies}"
            )


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that fits a private model and states the privacy of its fit.

    Without a population, its fits are counted together with those of its clones.

    _family           base class of the models that it may fit
    _discover_hint    words of a message: how to declare a column that is to be discovered
    _set_by           parameter of a model → the estimator's argument that sets it
    """

    population: Any
    _family: type[Model]
    _discover_hint: str
    _set_by: Mapping[str, str]
    _series: FitSeries
    _promise_text = ""

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        clone._series = self._fit_series()  # noqa: SLF001 - of the same class
        return clone

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling; a fitted estimator leaves out its count of fits."""
        state = dict(super().__getstate__())
        if self._promise_text:
            state.pop("_series", None)
        return state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._promise_text or str(super().__repr__(N_CHAR_MAX))

    def _fit_series(self) -> FitSeries:
        if not hasattr(self, "_series"):
            self._series = FitSeries()
        return self._series

    def _count_fit(self, promise: str, fit: PrivateFit) -> str:
        """Count a fit, unless a population pays for it; return the text of its guarantee.

        From the second fit on, the number and total ε of all fits are added to ``promise``, and the
        first time a warning says them.
        """
        if self.population is not None:
            return promise
        series = self._fit_series()
        text = series.add(fit.added_epsilon)
        if not text:
            return promise
        if not series.has_warned:
            series.has_warned = True
            warnings.warn(
                f"{type(self).__name__}: this is fit {text}, if they are of the same rows, and "
                "each further fit adds its own ε, as a grid search does for every candidate: pass "
                "`population` to let a ledger add them up and refuse what is too much",
                # The line that called ``fit``.
                stacklevel=6,
            )
        return f"{promise}; fit {text}"

    def _declared_model(self, *, has_prior: bool = False, **own: str) -> Model:
        """Return the model that ``method`` names, with the parameters of this estimator.

        has_prior   whether the fit gets public rows
        own         further parameters of the model, as texts

        Raises DeclarationError for a method of another family, for wrong parameters, and for an
        earlier fit or public rows that the method does not use.
        """
        name, model = self._find_model()
        params = {} if self.method_params is None else self.method_params
        if not isinstance(params, Mapping):
            raise DeclarationError(
                f"method_params: expected a mapping, got {type(params).__name__}"
            )
        parameters = {str(parameter): str(value) for parameter, value in params.items()}
        arguments = {parameter: parameter for parameter in ("nominal_rows", "plan_from")}
        for parameter, argument in {**self._set_by, **arguments, "prior": "prior of fit"}.items():
            if parameter in parameters:
                raise DeclarationError(
                    f"method_params: the parameter {parameter} must not be among them, as it is "
                    f"set by {argument}"
                )
        if self.plan_from is not None:
            self._require_plan(model)
            own["plan_from"] = "previous"
        if has_prior:
            own["prior"] = "frame"
            if "prior" not in _parameters_of(model):
                methods = [each for each in MODELS if "prior" in _parameters_of(MODELS[each])]
                raise DeclarationError(
                    f"prior: the method {name} uses no public rows: leave it out, or choose one of "
                    f"{', '.join(methods)}"
                )
        if self.nominal_rows is not None and "nominal_rows" in _parameters_of(model):
            own["nominal_rows"] = str(self.nominal_rows)
        return from_text(model, {**parameters, **own}, of=name)

    def _find_model(self) -> tuple[str, type[Model]]:
        method, family = self.method, self._family
        if isinstance(method, type) and issubclass(method, family) and is_dataclass(method):
            return method.__name__, method
        methods = [name for name, model in MODELS.items() if issubclass(model, family)]
        if not isinstance(method, str) or method not in methods:
            raise DeclarationError(
                f"method: expected one of {', '.join(methods)}, or the class of such a model, "
                f"got {method!r:.60}"
            )
        return method, MODELS[method]

    def _require_plan(self, model: type[Model]) -> None:
        earlier, kind, got = self.plan_from, type(self).__name__, ""
        if not isinstance(earlier, type(self)):
            got = f"it is a {type(earlier).__name__}"
        elif not hasattr(earlier, "spends_"):
            got = "it is not fitted"
        elif earlier.method != self.method:
            got = f"it is by {earlier.method!r:.40}"
        if got:
            raise DeclarationError(
                f"plan_from: the value must be a fitted {kind} by {self.method!r:.40}, but {got}: "
                "pass such a fit, or leave it out"
            )
        if not model.learns:
            methods = [
                name
                for name, each in MODELS.items()
                if each.learns and issubclass(each, self._family)
            ]
            raise DeclarationError(
                f"plan_from: the method {self.method} plans from no other fit: leave it out, or "
                f"choose {' or '.join(methods)}"
            )
        if is_releasable_noise(self.noise) and not earlier.fit_for_release_:
            raise DeclarationError(
                "plan_from: the noise of the other fit is from neither opendp nor exact, so it "
                "protects nobody: fit it with noise=None"
            )

    def _declare_fit(
        self, domain: Domain, model: Model, protection: Protection, delta: Fraction | None = None
    ) -> PrivateFit:
        method = self.method if isinstance(self.method, str) else type(model).__name__
        # What is wrong by itself is refused before what does not go together.
        epsilon = exact_epsilon(self.epsilon)
        cost = discovery_cost(self.discover, domain, epsilon, hint=self._discover_hint)
        nominal_rows = self.nominal_rows
        if nominal_rows is not None:
            nominal_rows = require_integer(
                nominal_rows, of="nominal_rows", least=1, most=MOST_DECLARED_ROWS
            )
        spec = DatasetSpec.of_domain(
            type(self).__name__,
            domain,
            discover=cost,
            protection=protection,
            purpose="release",
            nominal_rows=nominal_rows,
        )
        epsilon, domain = epsilon - (cost.epsilon if cost else 0), spec.widest.domain
        require_units_released(model, domain, of=method)
        model.check(domain)
        is_alone = self.population is None
        guarantee = guarantee_at(model, epsilon, delta, domain=domain, is_alone=is_alone)
        if not guarantee.is_plain:
            raise DeclarationError(
                f"{method}: the method must fulfil the requested ε, but with these parameters "
                f"it does not: {guarantee.reason}: choose other `method_params`, or another method"
            )
        return PrivateFit(spec, model, guarantee, method=method)

    def _run_declared(
        self,
        fit: PrivateFit,
        rows_of_X: Callable[[], pa.Table],
        *,
        refined: FinishedFit | None = None,
        rehearse: bool = False,
    ) -> FinishedFit:
        """Run a fit over the rows of X, charge its population if it has one, and store the text of
        its guarantee; return the finished fit.

        rows_of_X  returns the rows of X, with the declared columns and the person's
        refined    the fit that this one refines, or None
        rehearse   whether rows are drawn from the declaration instead, for nothing
        """
        if rehearse:
            table = draw_table(fit.spec, fit.public, self.nominal_rows or REHEARSED_ROWS)
            rng, key = generator(self.random_state), row_secret(None)
            rehearsed = fit.run_over(table, key, noise=SeededNoise(0), rng=rng)
            self._promise_text = self._promise(fit, is_rehearsal=True)
            return rehearsed
        first_rng, noise = generator(self.random_state), noise_of(self.noise)
        table = rows_of_X()
        key = row_secret(self.population)
        # Rows are looked at after the charge, unless something before depends on them.
        is_early = fit.is_refinable or (fit.must_fit and not fit.spec.to_discover)
        rows = prepare_rows(fit.spec, table, key, refuse=fit.must_fit) if is_early else None
        if refined is not None:
            fit = refined.prepare_refinement(fit, noise, population=self.population)
        promise = self._promise(fit)

        def run() -> FinishedFit:
            nonlocal promise
            # A fit that was refused before has cost nothing, and is not counted.
            promise = self._count_fit(promise, fit)
            return fit.run_over(table, key, noise=noise, rng=first_rng, rows=rows)

        counted, population = rows if fit.is_refinable else None, self.population
        finished = run_fit(fit, run, counted, noise=noise, population=population, refined=refined)
        self._promise_text = promise
        return finished

    def _promise(self, fit: PrivateFit, *, is_rehearsal: bool = False) -> str:
        discover, delta = fit.spec.discover, fit.guarantee.currency.delta or Fraction(0)
        epsilon = fit.guarantee.epsilon
        if discover is not None:
            epsilon, delta = epsilon + discover.epsilon, delta + (discover.delta or 0)
        text = epsilon_text(epsilon)
        is_exact = isinstance(self.epsilon, str | Fraction)
        requested = text if is_exact else decimal_text(self.epsilon, of="epsilon")
        if Fraction(requested) != epsilon:
            text += f" (rounded down from {requested})"
        if delta:
            text += f", δ={delta_text(delta)}"
        if fit.refines is not None:
            earlier = epsilon_text(fit.refines.guarantee.epsilon)
            text += f" together with the fit at ε={earlier} that it refines"
        caveats = "" if fit.public is None else "; its public rows are not protected"
        if discover is not None:
            caveats += f"; its domain is discovered for {discovery_price(discover)} of that"
        caveats += "" if is_releasable_noise(self.noise) else "; its noise protects nobody"
        if is_rehearsal:
            return (
                f"{fit.spec.name} by {fit.method}, a rehearsal of ε={text} for "
                f"{fit.spec.protection}: its rows are drawn from the declaration, those of X were "
                "not read, nothing was spent"
            )
        return (
            f"{fit.spec.name} by {fit.method}, fitted: ε={text}, "
            f"protects {fit.spec.protection} that is added or removed{caveats}"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not str(self.noise).startswith("seeded:")
        return tags

    def _protection(
        self, features: Features, person: Any, at_most: Any
    ) -> tuple[Protection, tuple[Any, ...]]:
        """Return the protected unit, and a tuple of the person's column, empty without one.

        Warns that single rows are protected if ``person`` is None and a column's name is like that
        of persons. DeclarationError for a wrong argument.
        """
        labels = features.labels or ()
        if person is None:
            if at_most is not None:
                raise DeclarationError(
                    "at_most: the value bounds the rows of a person, so it needs `person`, the "
                    "column that says whose rows they are"
                )
            names = ", ".join(find_identifiers(labels))
            if names:
                warnings.warn(
                    f"{type(self).__name__}: the fit protects one row, not all rows of one "
                    f"{names}: if somebody has several rows, pass `person` and `at_most`",
                    stacklevel=3,
                )
            return Protection(), ()
        if not is_among(person, labels):
            names = f", one of {', '.join(map(str, labels))}" if labels else ""
            raise DeclarationError(
                f"person: the value must be a column of a frame X{names}, not "
                f"{argument_text(person)}"
            )
        rows = require_integer(at_most, of="at_most", least=1, most=MOST_DECLARED_ROWS)
        values = features.columns[labels.index(person)]
        require_exact_ids(values)
        return Protection(str(person), rows), (values,)

    def save(self, path: Any) -> None:
        """Write the fitted estimator to a file, which is as private as the estimator itself.

        Parameters
        ----------
        path : str or Path
            A file, which is replaced whole.

        Raises
        ------
        InvalidParameter
            For a value that is no path; NotFittedError before a fit, and OSError where the file
            cannot be written.
        """
        check_is_fitted(self)
        with invalid_parameters():
            file_path = to_path(path, of="path")
        content = pickle.dumps(self)
        write_atomically(file_path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: Any) -> Any:
        """Return an estimator that ``save`` wrote. **A file of others may run any code.**

        Parameters
        ----------
        path : str or Path
            A file of ``save``.

        Returns
        -------
        estimator
            Fitted, of this class.

        Raises
        ------
        InvalidParameter
            For a value that is no path, and a file that holds another class, or no pickle that
            this version reads; OSError where it cannot be read.
        """
        with invalid_parameters():
            file_path = to_path(path, of="path")
        content = file_path.read_bytes()
        try:
            estimator = pickle.loads(content)  # noqa: S301 - the caller's own file
        except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
            raise InvalidParameter(
                f"path: the file must hold a {cls.__name__}, but it holds no pickle that this "
                "version reads: name a file that `save` wrote"
            ) from None
        if not isinstance(estimator, cls):
            is_ours = isinstance(estimator, PrivateEstimator)
            raise InvalidParameter(
                f"path: the file must hold a {cls.__name__}, but it holds a "
                f"{type(estimator).__name__}: "
                f"{'load it by that class' if is_ours else 'name a file that `save` wrote'}"
            )
        return estimator

    def _set_outcome(self, finished: FinishedFit, tables: Tables, total: NoisyTotal | None) -> None:
        fit = finished.fit
        self.spends_, self.fit_for_release_ = finished.result.spends, finished.is_releasable
        self.warnings_ = fit.spec.discovery_warnings + release_warnings(
            fit.spec, tables, total, epsilon=fit.guarantee.epsilon
        )

    def _warn(self) -> None:
        for weakness in self.warnings_:
            # The line that called ``fit``.
            warnings.warn(f"{type(self).__name__}: {weakness}", WeakSignal, stacklevel=3)


def _parameters_of(model: type[Model]) -> Collection[str]:
    return getattr(model, "__dataclass_fields__", {})
