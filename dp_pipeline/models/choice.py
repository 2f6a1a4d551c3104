"""A parameter that is one of a few words; see ``parameters``."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def choice(*words: str, measuring: bool = True) -> Any:
    """One of ``words``; the first is the default."""
    return field(
        default=words[0],
        metadata={
            "parse": lambda text: text if text in words else None,
            "expected": f"one of {', '.join(words)}",
            "measuring": measuring,
        },
    )
