"""Picture: one PNG of a report, and the name of its file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """One PNG of the report.

    file   its name in the folder of the study
    """

    dataset: str
    file: str
    title: str
    content: bytes
