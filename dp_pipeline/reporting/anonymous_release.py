"""AnonymousRelease: what a card and a page say about one k-anonymous release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dp_pipeline.schema.errors import BoundaryViolation


@dataclass(frozen=True)
class KeptColumn:
    """A released column beside the label: the attribute that it tells of, and how, in words."""

    name: str
    source: str
    rule: str


@dataclass(frozen=True)
class LeftOut:
    """Rows of one label that were left out to keep the promise, and their share of its rows."""

    label: str
    rows: int
    share: float


@dataclass(frozen=True)
class AnonymousRelease:
    """One k-anonymous release, in words and numbers for a reader.

    title, dataset, lineage   what the data set is called, its name, and its population
    purpose      of the rows: ``benchmark`` are public, ``release`` sensitive
    method, summary   name of the method, and one sentence about it
    k, diversity   of the promise: rows and different labels of every class, at least
    suppress     most rows that could be left out to keep it: a share
    label        attribute that is released beside the columns and not counted among them
    columns      released ones beside the label
    outside      attributes that are neither label nor declared as quasi-identifiers
    measures     name → value, as ``metrics.disclosure`` has them, of the released rows
    suppressed   rows that were left out
    left_out     the same, one entry a label; of public rows only
    allowed      whether the data set file allows releases without ε by name
    earlier      releases of the same sensitive rows without ε before this one, a text each
    figures      name → value of what was tried with it, as ``anonymity_figures`` has them;
                 of public rows only
    provenance   name → text: snapshot, parameters, versions
    """

    title: str
    dataset: str
    lineage: str
    purpose: Literal["benchmark", "release"]
    method: str
    summary: str
    k: int
    diversity: int
    suppress: Fraction
    label: str
    columns: tuple[KeptColumn, ...]
    outside: tuple[str, ...]
    measures: Mapping[str, float]
    suppressed: int
    allowed: bool
    left_out: tuple[LeftOut, ...] = ()
    earlier: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Method and K."""
        return f"{self.method} at K = {self.k}"

    @property
    def is_release(self) -> bool:
        """Whether the rows are sensitive."""
        return self.purpose == "release"

    @property
    def promises_rows(self) -> bool:
        """Whether K says anything: every class has one row anyway."""
        return self.k > 1

    @property
    def rows(self) -> int:
        """Released rows."""
        return int(self.measures["rows"])

    def require_honest(self) -> None:
        """BoundaryViolation where a measure contradicts the promise, or where figures of sensitive
        rows, or labels of those that were left out, would be shown.
        """
        small = self.promises_rows and 0 < self.measures["k"] < self.k
        uniform = self.diversity > 1 and 0 < self.measures["distinct_l"] < self.diversity
        if small or uniform:
            raise BoundaryViolation(
                f"card of {self.dataset}/{self.name}: expected measures of a release that keeps "
                "its promise, got others"
            )
        if self.is_release and self.left_out:
            raise BoundaryViolation(
                f"card of {self.dataset}/{self.name}: expected no labels of sensitive rows that "
                "were left out, got some"
            )
        if self.is_release and self.figures:
            raise BoundaryViolation(
                f"card of {self.dataset}/{self.name}: expected no figures of sensitive rows, got "
                f"{', '.join(sorted(self.figures))}"
            )
