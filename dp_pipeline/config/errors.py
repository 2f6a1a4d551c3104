"""Errors, each with one line for a person and one exit code for a shell.

A message names the object, what was expected and what was got. It may show the text of a
declaration, and never a value of a row.
"""

import difflib
import re
from collections.abc import Collection, Iterable
from fractions import Fraction
from numbers import Integral, Real
from typing import Final

NAME: Final = "[a-z][a-z0-9_]{0,63}"
"""Regular expression of names of data sets, populations and attributes."""

EXPECTED_NAME: Final = "a-z, 0-9 and _, starting with a letter"


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a data set, a population or an attribute.

    >>> is_name("rides_2026"), is_name("Rides")
    (True, False)
    """
    return re.fullmatch(NAME, text) is not None


def list_some(names: Collection[str], separator: str = ", ", *, most: int = 140) -> str:
    """Return names as one text; where it has over ``most`` characters, a few and how many in all.

    >>> list_some(["cat", "dog"], " | "), list_some([str(index) for index in range(999)], most=9)
    ('cat | dog', '0, 1, 2, … (999 in all)')
    """
    text = separator.join(names)
    if len(text) <= most:
        return text
    some = text[:most].rpartition(separator)[0] or text[:most]
    return f"{some}{separator}… ({len(names)} in all)"


def one_of(names: Iterable[str], got: str) -> str:
    """Return the end of an error message: the valid names, the wrong one, and the nearest name.

    >>> one_of(["rides", "trips"], "ride")
    "must be one of rides, trips, not 'ride': did you mean rides?"
    >>> one_of(["rides", "trips"], "census")
    "must be one of rides, trips, not 'census'"
    """
    names = tuple(names)
    near = did_you_mean(got, names)
    return f"must be one of {list_some(names, most=500) or 'none'}, not {got[:60]!r}{near}"


def did_you_mean(got: str, names: Iterable[str]) -> str:
    """Return the end of an error message that proposes the nearest name; empty if none is near.

    >>> did_you_mean("Trip", ["rides", "trips"])
    ': did you mean trips?'
    """
    near = nearest(got, names)
    return f": did you mean {near}?" if near else ""


def nearest(got: str, names: Iterable[str]) -> str:
    """Return the name that is most similar to ``got``; empty if no name is similar."""
    near = difflib.get_close_matches(got[:60].lower(), list(names), n=1)
    return near[0] if near else ""


def require_integer(value: object, *, of: str, least: int, most: int | None = None) -> int:
    """Return an argument as int; DeclarationError unless it is an integer within the limits.

    of     name of the argument, for messages
    most   None: there is no upper limit

    A bool is no integer here; an integer of NumPy is one.
    """
    integer = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if integer is None or integer < least or (most is not None and integer > most):
        limits = f"of at least {least}" if most is None else f"in {least}..{most}"
        raise DeclarationError(f"{of}: expected an integer {limits}, got {argument_text(value)}")
    return integer


def argument_text(value: object) -> str:
    """Return an argument as a message shows it: a text or number, else its type alone, since an
    array or list may hold sensitive rows.

    >>> argument_text("keep"), argument_text(["Anna", "Bert"])
    ("'keep'", 'a value of type list')
    """
    is_shown = value is None or isinstance(value, str | Real)
    return f"{value!r:.60}" if is_shown else f"a value of type {type(value).__name__}"


class PipelineError(Exception):
    """Raised for any failure that a person can act on; its message is one line."""

    exit_code = 1

    def __reduce__(self) -> tuple[object, ...]:
        # With its fields: a pool of processes waits for ever for an error that it cannot unpickle.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class DeclarationError(PipelineError):
    """Raised when a declaration or an argument is wrong; nothing was read, charged or drawn."""

    exit_code = 2


class FieldError(DeclarationError, ValueError):
    """Raised when one field or argument has an invalid value.

    of     name of the object, for a message without a file
    field  names from the outermost field down to the wrong one, to find its line
    hint   end of the message: what to do, or which name was meant
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
    """Raised when a source of rows cannot be read or lacks declared columns."""


class NotPrepared(PipelineError):
    """Raised when a snapshot cannot be released: it is not validated, not prepared, or refused."""


class Damaged(PipelineError):
    """Raised when a stored object does not match its checksum or its format."""


class NoAnswer(Damaged):
    """Raised when a replay, which draws no noise, meets a question without a stored answer."""


class UnknownFormat(PipelineError):
    """Raised when a stored object has a format that this program does not read."""


class OtherQuestion(PipelineError):
    """Raised when the next stored answer belongs to another question than the current one."""


class BoundaryViolation(PipelineError):
    """Raised when code or a declaration asks for what the privacy boundary forbids."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message} (correct the code or declaration that asks for this, or report it)"
        )


class BudgetExceeded(PipelineError):
    """Raised when a request exceeds the remaining budget; nothing of it was charged or drawn.

    purpose    purpose of the charge; it begins with the name of its data set, if it has one
    spent      amount spent for ever, or in the period of ``part``
    ceiling    limit for ever, or for each period
    symbol     ε, ρ or δ
    part       the exceeded limit, as a data set file calls it, and its period: ``total`` without
               one, ``per_month`` of a calendar month (UTC), ``each_window`` of a window
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
        remedy = ""
        if account:
            dataset = purpose.partition("/")[0]
            dataset = dataset if is_name(dataset) else "NAME"
            options = {"each_window": "--each-window", "per_month": "--per-month"}
            option = "--delta" if symbol == "δ" else options.get(limit, "--total")
            remedy = f"; more, for ever: `dp-pipeline budget raise {dataset} {option} … --reason …`"
            remedy += ", or wait for the next month" if option == "--per-month" else ""
        super().__init__(
            f"{purpose} refused by {where}: requested {symbol}={text(requested)}, "
            f"spent{period} {text(spent)}, left {text(self.left)}, {limit} {text(ceiling)}{remedy}"
        )


def float_text(value: Fraction) -> str:
    """Return a δ as text, with three significant digits.

    >>> float_text(Fraction(1, 10**9)), float_text(Fraction(0))
    ('1e-09', '0')
    """
    return f"{float(value):.3g}"


def _decimal(value: Fraction) -> str:
    units, decimals = divmod(value.numerator * 10**9 // value.denominator, 10**9)
    return f"{units}.{decimals:09d}".rstrip("0").rstrip(".")
