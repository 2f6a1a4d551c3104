"""A wrong parameter, as this package and as scikit-learn name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dp_pipeline.schema.errors import DeclarationError


class InvalidParameter(DeclarationError, ValueError):
    """A parameter or the form of ``X`` is wrong; nothing was charged or drawn."""


@contextmanager
def invalid_parameters() -> Iterator[None]:
    """What a declaration is refused for, as an error that is a ValueError too."""
    try:
        yield
    except DeclarationError as error:
        raise InvalidParameter(str(error)) from None
