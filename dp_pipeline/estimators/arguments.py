"""Constructor arguments as the values that a fit needs; nothing here sees a row."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from dp_pipeline.gate.noise import FIT_FOR_RELEASE, NoiseSource, OpenDPNoise, named_noise
from dp_pipeline.schema.currency import delta_text, parse_delta
from dp_pipeline.schema.epsilon import epsilon_text, parse_epsilon
from dp_pipeline.schema.errors import DeclarationError

MOST_CLUSTERS = 10_000
"""As many centres as a model takes."""


def exact_epsilon(value: object) -> Fraction:
    """ε of decimal text, a Fraction, a whole number, or a float by its shortest decimal text.

    Raises DeclarationError for anything else, and for what ``parse_epsilon`` refuses.

    >>> exact_epsilon(0.1) == exact_epsilon("0.1") == Fraction(1, 10)
    True
    """
    if isinstance(value, Fraction):
        return parse_epsilon(epsilon_text(value))
    return parse_epsilon(_decimal_text(value, of="epsilon"))


def exact_delta(value: object) -> Fraction | None:
    """δ as ``exact_epsilon`` reads it; None for 0, which is pure ε.

    Raises DeclarationError for anything else, and for what ``parse_delta`` refuses.

    >>> exact_delta(1e-9) == exact_delta("0.000000001") == Fraction(1, 10**9)
    True
    """
    if isinstance(value, Fraction):
        return parse_delta(delta_text(value)) if value else None
    text = _decimal_text(value, of="delta")
    return None if text.strip() in ("0", "0.0") else parse_delta(text)


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


def number_of_clusters(value: object) -> int:
    """A whole number in 1..10,000; DeclarationError for anything else."""
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else 0
    if not 1 <= whole <= MOST_CLUSTERS:
        raise DeclarationError(
            f"n_clusters: expected a whole number in 1..{MOST_CLUSTERS}, got {value!r:.60}"
        )
    return whole


def generator(random_state: object) -> np.random.Generator:
    """Post-processing randomness from what scikit-learn takes for ``random_state``."""
    from sklearn.utils import check_random_state

    words = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(words.tolist())
