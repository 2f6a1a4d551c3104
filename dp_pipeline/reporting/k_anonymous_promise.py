"""AnonymousRelease: what a card and a page say about one k-anonymous release.

What a k-anonymous release promises, and what is in it: the same words on cards and pages.

What a k-anonymous release does not promise, with the figures of a release; worst first.

What each measure of a k-anonymous release is called, and says, in plain words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dp_pipeline.reporting.sections import NOT_DP
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.errors import BoundaryViolation


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
    figures      name → value of what was tried with it, as ``reporting.metrics`` has them;
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


@dataclass(frozen=True)
class MeasureWords:
    """One line about a measure.

    words      what it says of a release
    is_count   whether it is a whole number
    """

    words: str
    is_count: bool = False


MEASURES = {
    "rows": MeasureWords("released rows", is_count=True),
    "classes": MeasureWords("groups of rows with equal released columns", is_count=True),
    "promised_k": MeasureWords("K that was asked for; 0 and 1 promise nothing", is_count=True),
    "k": MeasureWords("rows of the smallest class", is_count=True),
    "rows_in_small_classes": MeasureWords("rows of classes smaller than K", is_count=True),
    "highest_risk": MeasureWords("chance to pick a person's row out of the smallest class"),
    "mean_risk": MeasureWords("the same chance, mean over the rows"),
    "alpha": MeasureWords("largest share of one label in one class; 1: a class has one label"),
    "distinct_l": MeasureWords("fewest different labels of a class", is_count=True),
    "entropy_l": MeasureWords("fewest labels that a class is worth, by its entropy"),
    "recursive_c": MeasureWords("most times that one label outweighs all others in a class"),
    "homogeneous_rows": MeasureWords("rows of classes with one label", is_count=True),
    "t_closeness": MeasureWords("farthest labels of a class from the table's; 0 alike, 1 apart"),
    "ordered_t_closeness": MeasureWords("the same for labels in order"),
    "delta_disclosure": MeasureWords("largest change of a label's share in a class, as logarithm"),
    "present_delta_disclosure": MeasureWords("the same, over labels that the class has"),
    "beta_likeness": MeasureWords(
        "largest gain of a label's share in a class, relative to the table"
    ),
    "containment_k": MeasureWords("a weaker notion, by containment; no k-anonymity", is_count=True),
}
"""By the names of ``metrics.disclosure``, in their order."""


def measure_words(name: str) -> str:
    """What a measure says; nothing of one that is not known here."""
    return MEASURES[name].words if name in MEASURES else ""


def measure_text(name: str, value: float) -> str:
    """A value as a person reads it.

    >>> [measure_text("rows", 1234.0), measure_text("alpha", 0.25), measure_text("alpha", math.inf)]
    ['1,234', '0.250', 'no bound']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if name in MEASURES and MEASURES[name].is_count else number_text(value)


def share_text(part: float, whole: float) -> str:
    """Part of a whole in percent, to three digits; a dash of nothing.

    >>> share_text(1, 8), share_text(1, 40000), share_text(0, 8)
    ('12.5 %', '0.00250 %', '0 %')
    """
    return f"{number_text(100 * part / whole)} %" if whole else "–"


MOST_NAMED = 12
"""Names that a sentence lists."""

NO_EPSILON = (
    "There is no ε: the rows were read as they are and the table is exact. What it tells of one "
    "person has no bound, and cannot be added to an ε."
)


def heading(release: AnonymousRelease) -> str:
    """The first line that anybody sees."""
    kind = ": k-anonymous" if release.promises_rows else ", NOT k-ANONYMOUS"
    return f"{NOT_DP}{kind} (K = {release.k})"


def promises(release: AnonymousRelease) -> tuple[str, ...]:
    """Sentences; where nothing is promised, one that says so."""
    said = []
    if release.promises_rows:
        said.append(
            "Every released row has its released columns in common with at least "
            f"{release.k - 1} other{'s' * (release.k > 2)}. Rows that have them in common are a "
            "class."
        )
    if release.diversity > 1:
        said.append(
            f"Every class has at least {release.diversity} different labels "
            f"({release.label}), however rare."
        )
    return tuple(said) or (
        f"Nothing. K = {release.k} asks for no size of a class: a row may be the only one with "
        "its columns.",
    )


def left_out_text(release: AnonymousRelease) -> str:
    """What was left out to keep the promise; of public rows by label, as a group may pay more
    than another.
    """
    exact = " This number is exact." if release.is_release else ""
    if not release.suppressed:
        return f"No row was left out.{exact}"
    said = (
        f"Left out to keep the promise: {release.suppressed:,} "
        f"row{'s' * (release.suppressed > 1)}, where at most "
        f"{epsilon_text(100 * release.suppress)} % could be.{exact}"
    )
    groups = [
        f"{one.label}: {one.rows:,} ({share_text(one.share, 1)} of them)"
        for one in release.left_out
    ]
    return f"{said} By label: {named(groups)}." if groups else said


def columns_text(release: AnonymousRelease) -> str:
    """The released columns; of many, only how many of each attribute."""
    columns = release.columns
    if not columns:
        return f"Released: {release.label} alone, no column was kept."
    if len(columns) <= MOST_NAMED:
        return f"Released: {release.label}; {_in_words(columns)}."
    sources = list(dict.fromkeys(one.source for one in columns))
    many = {one: sum(column.source == one for column in columns) for one in sources}
    counted = ", ".join(f"{source} ({count})" for source, count in many.items())
    return f"Released: {release.label}; {len(columns)} columns about {counted}."


def _in_words(columns: tuple[KeptColumn, ...]) -> str:
    """The rule of each; the names where one rule is that of all."""
    rules = {one.rule for one in columns}
    if len(rules) > 1 or len(columns) == 1:
        return "; ".join(one.rule for one in columns)
    return f"{', '.join(one.name for one in columns)}, of each {rules.pop()}"


def named(names: tuple[str, ...] | list[str]) -> str:
    """The first names, and how many more there are.

    >>> named(("a", "b"))
    'a; b'
    """
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


_NO_ROW = "Here no row was released."


@dataclass(frozen=True)
class Limit:
    """One thing that a k-anonymous release does not promise.

    words    that hold for every such release
    here     the figures of one, in a sentence
    caption, figure   one figure of each of many releases, and what it is; none where there is none
    """

    name: str
    words: str
    here: Callable[[AnonymousRelease], str]
    caption: str = ""
    figure: Callable[[AnonymousRelease], str] | None = None


def _homogeneity(release: AnonymousRelease) -> str:
    if not release.rows:
        return _NO_ROW
    found = release.measures["homogeneous_rows"]
    return (
        f"Here {share_text(found, release.rows)} of the rows ({found:,.0f} of {release.rows:,}) "
        "are in such classes."
    )


def _guessing(release: AnonymousRelease) -> str:
    if not release.rows:
        return _NO_ROW
    names = ("alpha", "highest_risk", "mean_risk")
    alpha, highest, mean = (release.measures[name] for name in names)
    return (
        f"Here up to {share_text(alpha, 1)} of a class have the same label (α); a row itself is "
        f"found with a chance of {share_text(highest, 1)} at most, {share_text(mean, 1)} on "
        "average."
    )


def _closeness(release: AnonymousRelease) -> str:
    if not release.rows:
        return _NO_ROW
    t, beta = (release.measures[name] for name in ("t_closeness", "beta_likeness"))
    text = f"Here the labels of one class are {number_text(t)} away from those of the table (t)"
    return f"{text}; one label is {number_text(1 + beta)} times as frequent in a class as there."


def _composition(release: AnonymousRelease) -> str:
    if not release.is_release:
        return "Here the rows are public, and other releases of them are not listed."
    if not release.earlier:
        return f"Here none was recorded before this one for population {release.lineage}."
    return (
        f"Here {len(release.earlier)} came before, of population {release.lineage}: "
        f"{named(release.earlier)}."
    )


def _membership(release: AnonymousRelease) -> str:
    many = len(release.columns)
    return (
        f"Here the choice of {many} column{'s' * (many != 1)} and the sizes of "
        f"{measure_text('classes', release.measures['classes'])} classes are exact."
    )


def _outside(release: AnonymousRelease) -> str:
    text = f"Here {release.label} is released and is none of the counted columns"
    if not release.outside:
        return f"{text}; every other attribute was declared as known from elsewhere."
    many = len(release.outside)
    return (
        f"{text}; {many} attribute{'s were' if many > 1 else ' was'} not declared as known from "
        f"elsewhere and not looked at: {named(release.outside)}."
    )


LIMITS = (
    Limit(
        "Homogeneity",
        "In a class with one label, whoever finds a person's class knows the person's label.",
        _homogeneity,
        "Rows in classes with one label",
        lambda release: share_text(release.measures["homogeneous_rows"], release.rows),
    ),
    Limit(
        "Guessing",
        "Where labels differ, one may prevail: whoever finds the class guesses right that often.",
        _guessing,
        "Largest share of one label in one class (α)",
        lambda release: measure_text("alpha", release.measures["alpha"]),
    ),
    Limit(
        "Closeness",
        "The labels of a class may be far from those of the whole table, which tells something of "
        "everybody in the class.",
        _closeness,
        "Distance of a class's labels from the table's (t), in 0..1",
        lambda release: measure_text("t_closeness", release.measures["t_closeness"]),
    ),
    Limit(
        "Two releases",
        "Whoever has two k-anonymous releases of the same persons looks for a person in both; "
        "what is in both classes may be one row.",
        _composition,
    ),
    Limit(
        "Membership",
        "One row more or less can change which columns are kept, and changes the size of a class: "
        "nothing bounds what that tells of whether a person is among the rows.",
        _membership,
        "Columns kept / classes counted exactly",
        lambda release: f"{len(release.columns)} / {release.measures['classes']:,.0f}",
    ),
    Limit(
        "Columns outside",
        "K counts the released columns only. Whoever knows anything else of a person that is "
        "published with them finds the row among fewer.",
        _outside,
    ),
)
