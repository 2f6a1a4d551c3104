"""Sections that reports of several studies have: verdicts claim by claim, and what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_pipeline.studies.markdown import markdown_table
from dp_pipeline.studies.verdict import Verdict


@dataclass(frozen=True)
class Judged:
    """What came of one claim.

    found   what it was measured by → the verdict
    """

    sentence: str
    source: str
    found: Mapping[str, Verdict]


def bullets(facts: Iterable[str]) -> str:
    """One line a fact."""
    return "\n".join(f"* {fact}" for fact in facts)


def verdicts(judged: Sequence[Judged], *, over: str = "ε") -> Iterator[str]:
    """A table with one line a claim and measure, and where each claim held."""
    yield markdown_table(
        ["claim", "source", "measured by", "verdict"],
        (line for number, one in enumerate(judged, start=1) for line in _lines(number, one)),
    )
    yield f"Where, claim by claim (data set: {over}):"
    yield "\n".join(f"{number}. {_where(one)}" for number, one in enumerate(judged, start=1))


def _lines(number: int, judged: Judged) -> Iterator[list[str]]:
    """One line a measure; the claim is said once."""
    said = [f"{number}. {judged.sentence}", judged.source]
    for measure, verdict in judged.found.items():
        yield [*said, measure, f"**{verdict.short}**"]
        said = ["", ""]


def _where(judged: Judged) -> str:
    """What is the same of several measures is said once."""
    titles: dict[str, list[str]] = defaultdict(list)
    for measure, verdict in judged.found.items():
        titles[verdict.text].append(measure)
    return " ".join(f"{', '.join(names)}: {text}." for text, names in titles.items())


def refused(failures: Mapping[tuple[Any, ...], str]) -> Iterator[str]:
    """Place → the line of a system that refused there; nothing where none did."""
    if not failures:
        return
    yield "## Refused"
    yield "These systems cannot be run there:"
    yield bullets(f"{' '.join(map(str, place))}: {why}" for place, why in failures.items())
