"""What can go wrong, as one line for a person and one exit code for a shell.

Every message says what was expected, what was got and of which object. It may show what a
*declaration* says; it never shows a value of a row.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

NAME: Final = "[a-z][a-z0-9_]{0,63}"
"""The form of names of data sets, populations and attributes, as a regular expression: safe in
paths, in columns and in Dagster. Also in the JSON Schema."""

EXPECTED_NAME: Final = "a-z, 0-9 and _, starting with a letter"


def is_name(text: str) -> bool:
    """Return whether a text may name a data set, a population or an attribute.

    >>> is_name("rides_2026"), is_name("Rides")
    (True, False)
    """
    return re.fullmatch(NAME, text) is not None


def one_of(names: Iterable[str], got: str) -> str:
    """Return the part of a refusal that lists the declared names, the one that was got, and the
    nearest. Names of rows are never listed.

    >>> one_of(["rides", "trips"], "ride")
    "one of rides, trips, got 'ride': did you mean rides?"
    >>> one_of(["rides", "trips"], "census")
    "one of rides, trips, got 'census'"
    """
    names = tuple(names)
    return f"one of {', '.join(names) or 'none'}, got {got[:60]!r}{did_you_mean(got, names)}"


def did_you_mean(got: str, names: Iterable[str]) -> str:
    """Return the nearest of the names as the end of a refusal; empty where none is near.

    >>> did_you_mean("Trip", ["rides", "trips"])
    ': did you mean trips?'
    """
    near = nearest(got, names)
    return f": did you mean {near}?" if near else ""


def nearest(got: str, names: Iterable[str]) -> str:
    """Return the name that is most like ``got``; empty where none is."""
    near = difflib.get_close_matches(got[:60].lower(), list(names), n=1)
    return near[0] if near else ""


class PipelineError(Exception):
    """Something failed; the message is one line that a person can act on."""

    exit_code = 1

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error with its fields, which its message alone could not restore.

        A pool of processes waits for ever for an error that it cannot read.
        """
        return type(self).__new__, (type(self), *self.args), self.__dict__


class DeclarationError(PipelineError):
    """A declaration or an argument is wrong; nothing was read, charged or drawn."""

    exit_code = 2


class FieldError(DeclarationError, ValueError):
    """One field or argument is not what was expected.

    of     the object, for a message without a file
    field  names from the outermost field down to the wrong one: for the line in a file
    hint   the end of the message: what to do, or which name was meant
    """

    def __init__(
        self,
        expected: str,
        got: str,
        *,
        of: str = "",
        field: tuple[str | int, ...] = (),
        hint: str = "",
    ) -> None:
        self.expected, self.got, self.field, self.hint = expected, got, field, hint
        super().__init__(f"{of}: expected {expected}, got {got}{hint}")


class SourceError(PipelineError):
    """A source of rows cannot be read, or does not have the declared columns."""


class NotPrepared(PipelineError):
    """A snapshot is not fit for a release: not validated, not prepared, or refused."""


class NotDiscovered(PipelineError):
    """The noisy answers that were paid for are too few to make a domain of."""


class Damaged(PipelineError):
    """Something stored no longer matches its own checksum."""


class NoAnswer(Damaged):
    """A question without a stored answer, where nothing may be drawn."""


class UnknownFormat(PipelineError):
    """Something stored has a format that this program does not read."""


class OtherQuestion(PipelineError):
    """A stored answer belongs to another question than the one that is asked now; it stays."""


class BoundaryViolation(PipelineError):
    """Code asked the gate for something that the gate does not do."""


class BudgetExceeded(PipelineError):
    """More ε was requested than is left; nothing was charged and nothing was drawn.

    purpose    what was to be paid for; it begins with the name of its data set, if it is of one
    spent      for ever, or in the part of time that ``part`` names
    ceiling    for ever, or of each part of time
    symbol     of the amounts: ε, ρ or δ
    part       the limit that would be passed, as a data set file calls it, and its part of time:
               ``total`` of nothing, ``per_month`` of a calendar month (UTC), ``each_window`` of a
               window. A ``ceiling`` of δ may be of a window too
    account    whether the limit is an account's, which can be raised
    """

    exit_code = 3

    def __init__(
        self,
        purpose: str,
        *,
        requested: Fraction,
        spent: Fraction,
        ceiling: Fraction,
        where: str,
        symbol: str = "ε",
        part: tuple[str, str] = ("total", ""),
        account: bool = True,
    ) -> None:
        self.requested, self.spent, self.ceiling, self.symbol = requested, spent, ceiling, symbol
        self.left = ceiling - spent
        limit, name = part
        period, limit = (f" in {name}", limit) if name else ("", "ceiling")
        text = float_text if symbol == "δ" else _decimal
        remedy = _remedy(purpose, "delta" if symbol == "δ" else limit) if account else ""
        super().__init__(
            f"{purpose} refused by {where}: requested {symbol}={text(requested)}, "
            f"spent{period} {text(spent)}, left {text(self.left)}, {limit} {text(ceiling)}{remedy}"
        )


_OPTIONS = {
    "delta": "--delta …",
    "each_window": "--each-window …",
    "per_month": "--per-month …",
}


def _remedy(purpose: str, limit: str) -> str:
    dataset = purpose.partition("/")[0]
    name = dataset if is_name(dataset) else "NAME"
    options = _OPTIONS.get(limit, "--total …")
    later = ", or wait for the next month" if limit == "per_month" else ""
    return f"; more, for ever: `dp-pipeline budget raise {name} {options} --reason …`{later}"


def float_text(value: Fraction) -> str:
    """Return a δ for people, in three digits.

    >>> float_text(Fraction(1, 10**9)), float_text(Fraction(0))
    ('1e-09', '0')
    """
    return f"{float(value):.3g}"


def _decimal(value: Fraction) -> str:
    """Return decimal text, rounded down to nano-ε: nothing is left that is not there."""
    units, decimals = divmod(value.numerator * 10**9 // value.denominator, 10**9)
    return f"{units}.{decimals:09d}".rstrip("0").rstrip(".")
