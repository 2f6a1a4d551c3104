"""The arguments of estimators as exact values, and the error for wrong ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from dp_pipeline.config import amounts
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.noise import RELEASABLE_SOURCES, NoiseSource, OpenDPNoise, parse_noise


def exact_epsilon(value: object, *, of: str = "epsilon") -> Fraction:
    """Return ε as a Fraction from decimal text, a Fraction, an integer, or a float's shortest
    decimal text.

    A float is rounded down to nine decimals: less ε promises more.

    Raises DeclarationError for anything else, and for what ``parse_epsilon`` refuses.

    >>> exact_epsilon(0.1) == exact_epsilon("0.1") == Fraction(1, 10)
    True
    >>> exact_epsilon(2 / 3)
    Fraction(333333333, 500000000)
    """
    if isinstance(value, Fraction):
        return amounts.parse_epsilon(amounts.epsilon_text(value), of=of)
    text = decimal_text(value, of=of)
    is_float = not isinstance(value, str | Integral)
    # What is out of range, or no number, is refused as it was written.
    if is_float and amounts.SMALLEST <= float(text) <= amounts.LARGEST:
        text = amounts.epsilon_text(Fraction(Fraction(text) * amounts.NANO // 1, amounts.NANO))
    return amounts.parse_epsilon(text, of=of)


def exact_delta(value: object, *, of: str = "delta") -> Fraction | None:
    """Return δ as ``exact_epsilon`` returns ε; None for 0 and None, which mean pure ε.

    Raises DeclarationError for anything else, and for what ``parse_delta`` refuses.

    >>> exact_delta(1e-9) == exact_delta("0.000000001") == Fraction(1, 10**9)
    True
    """
    if value is None:
        return None
    if isinstance(value, Fraction):
        return amounts.parse_delta(amounts.delta_text(value), of=of) if value else None
    text = decimal_text(value, of=of)
    return None if text.strip() in ("0", "0.0") else amounts.parse_delta(text, of=of)


def decimal_text(value: object, *, of: str) -> str:
    """Return the shortest decimal text of a number, or a text as it is; DeclarationError for values
    of other types."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(
            f"{of}: expected text, a Fraction, a whole number or a float, "
            f"got {type(value).__name__}"
        )
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def noise_of(value: object) -> NoiseSource:
    """Return the noise source for the argument ``noise``, a name or a source; OpenDP for None.

    DeclarationError for anything else.
    """
    if value is None:
        return OpenDPNoise()
    if isinstance(value, str):
        return parse_noise(value)
    if isinstance(value, type) or not hasattr(value, "is_releasable"):
        raise DeclarationError(
            f"noise: expected None, opendp, exact, seeded:NUMBER or a source, got {value!r:.60}"
        )
    source: NoiseSource = value  # type: ignore[assignment]
    return source


def is_releasable_noise(value: object) -> bool:
    """Return whether the argument ``noise``, a name or a source, protects persons, as OpenDP and
    the exact sampler do."""
    return type(noise_of(value)) in RELEASABLE_SOURCES


def generator(random_state: object) -> np.random.Generator:
    """Return a NumPy generator, for post-processing, that a scikit-learn ``random_state`` seeds."""
    from sklearn.utils import check_random_state

    words = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(words.tolist())


class InvalidParameter(DeclarationError, ValueError):
    """Raised when a parameter or the form of ``X`` is wrong; nothing was charged or drawn."""


@contextmanager
def invalid_parameters() -> Iterator[None]:
    """Turn a DeclarationError of the block into InvalidParameter, which is also a ValueError."""
    try:
        yield
    except DeclarationError as error:
        raise InvalidParameter(str(error)) from None


@contextmanager
def name_argument(argument: str) -> Iterator[None]:
    """Put the name of an argument in place of ``X`` in DeclarationErrors of the block."""
    try:
        yield
    except DeclarationError as error:
        text = str(error)
        if not text.startswith("X: "):
            raise
        raise DeclarationError(f"{argument}: {text.removeprefix('X: ')}") from None
