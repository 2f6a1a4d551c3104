"""Constructor arguments as the values that a fit needs; nothing here sees a row."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from dp_pipeline.gate.noise import FIT_FOR_RELEASE, NoiseSource, OpenDPNoise, named_noise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, claim_of
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.models.parameters import from_text
from dp_pipeline.schema.epsilon import epsilon_text, parse_epsilon
from dp_pipeline.schema.errors import DeclarationError

_SET_ELSEWHERE = {"k": "n_clusters", "columns": "the columns of X", "nominal_rows": "nominal_rows"}


MOST_CLUSTERS = 10_000
"""As many centres as a model takes."""


def exact_epsilon(value: object) -> Fraction:
    """ε of decimal text, a Fraction, a whole number, or a float by its shortest decimal text.

    Raises DeclarationError for anything else, and for what ``parse_epsilon`` refuses.

    >>> exact_epsilon(0.1) == exact_epsilon("0.1") == Fraction(1, 10)
    True
    """
    if isinstance(value, str):
        return parse_epsilon(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(
            "epsilon: expected text, a Fraction, a whole number or a float, "
            f"got {type(value).__name__}"
        )
    if isinstance(value, Fraction):
        return parse_epsilon(epsilon_text(value))
    return parse_epsilon(str(int(value)) if isinstance(value, Integral) else repr(float(value)))


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


def number_of_clusters(value: object) -> int:
    """A whole number in 1..10,000; DeclarationError for anything else."""
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else 0
    if not 1 <= whole <= MOST_CLUSTERS:
        raise DeclarationError(
            f"n_clusters: expected a whole number in 1..{MOST_CLUSTERS}, got {value!r:.60}"
        )
    return whole


def clustering_model(
    method: object,
    *,
    clusters: int,
    nominal_rows: object,
    params: Mapping[str, object] | None,
) -> Model:
    """The model of a method's name; ``nominal_rows`` reaches it if it plans with one.

    Raises DeclarationError for a method that releases no centres, and for wrong parameters.
    """
    methods = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
    if not isinstance(method, str) or method not in methods:
        raise DeclarationError(f"method: expected one of {', '.join(methods)}, got {method!r:.60}")
    if params is not None and not isinstance(params, Mapping):
        raise DeclarationError(f"method_params: expected a mapping, got {type(params).__name__}")
    texts = {str(name): str(value) for name, value in (params or {}).items()}
    for name, where in _SET_ELSEWHERE.items():
        if name in texts:
            raise DeclarationError(f"method_params: {name} is set by {where}, got it here")
    texts["k"] = str(clusters)
    known = getattr(MODELS[method], "__dataclass_fields__", {})
    if nominal_rows is not None and "nominal_rows" in known:
        texts["nominal_rows"] = str(nominal_rows)
    return from_text(MODELS[method], texts, of=method)


def require_plain(method: str, model: Model, epsilon: Fraction) -> None:
    """Refuse a published variant that costs another ε than the one asked, or has none."""
    claim = claim_of(model, epsilon)
    if not claim.is_plain:
        raise DeclarationError(
            f"{method}: expected variant sound, at the ε asked, got another: {claim.reason}"
        )


def generator(random_state: object) -> np.random.Generator:
    """Post-processing randomness from what scikit-learn takes for ``random_state``."""
    from sklearn.utils import check_random_state

    words = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(words.tolist())
