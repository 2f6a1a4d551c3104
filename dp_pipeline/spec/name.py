"""Names of data sets, lineages and attributes: safe in paths, in columns and in Dagster."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

NAME: Final = "[a-z][a-z0-9_]{0,63}"
"""As a regular expression, also of the JSON Schema."""

EXPECTED_NAME: Final = "a-z, 0-9 and _, starting with a letter"


def is_name(text: str) -> bool:
    """Whether ``text`` is one.

    >>> is_name("rides_2026"), is_name("Rides")
    (True, False)
    """
    return re.fullmatch(NAME, text) is not None


def one_of(known: Iterable[str], got: str) -> str:
    """What a refusal says of a name that is not known: which there are, which one was got, and the
    nearest. For names that are public: declared ones, never those of rows.

    >>> one_of(["rides", "trips"], "ride")
    "one of rides, trips, got 'ride': did you mean rides?"
    >>> one_of(["rides", "trips"], "census")
    "one of rides, trips, got 'census'"
    """
    listed = tuple(known)
    return f"one of {', '.join(listed) or 'none'}, got {got[:60]!r}{did_you_mean(got, listed)}"


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """The nearest of the known names as the end of a refusal; empty where none is near.

    >>> did_you_mean("Trip", ["rides", "trips"])
    ': did you mean trips?'
    """
    near = nearest(got, known)
    return f": did you mean {near}?" if near else ""


def nearest(got: str, known: Iterable[str]) -> str:
    """The known name that is most like ``got``; empty where none is."""
    near = difflib.get_close_matches(got[:60].lower(), list(known), n=1)
    return near[0] if near else ""
