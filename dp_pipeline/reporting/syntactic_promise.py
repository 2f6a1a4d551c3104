"""What a k-anonymous release promises, and what is in it: the same words on cards and pages."""

from __future__ import annotations

from dp_pipeline.reporting.anonymous_release import AnonymousRelease, KeptColumn
from dp_pipeline.reporting.disclosure_words import share_text
from dp_pipeline.reporting.sections import NOT_DP
from dp_pipeline.schema.epsilon import epsilon_text

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
