"""What a k-anonymous release does not promise, with the figures of a release; worst first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dp_pipeline.reporting.anonymous_release import AnonymousRelease
from dp_pipeline.reporting.disclosure_words import measure_text, share_text
from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.reporting.syntactic_promise import named

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
