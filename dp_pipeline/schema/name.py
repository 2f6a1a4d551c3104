"""Names of data sets, lineages and attributes: safe in paths, in columns and in Dagster."""

from __future__ import annotations

import re
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
