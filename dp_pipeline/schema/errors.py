"""What can go wrong, as one line for a person and one exit code for a shell.

Every message says what was expected, what was got and of which object. A
message may show what a *declaration* says; it never shows a value of a row.
"""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.schema.name import is_name


class PipelineError(Exception):
    """Something failed; the message is one line that a person can act on."""

    exit_code = 1


class DeclarationError(PipelineError):
    """A declaration or an argument is wrong; nothing was read, charged or drawn."""

    exit_code = 2


class SourceError(PipelineError):
    """A source of rows cannot be read or does not have the declared columns."""


class NotPrepared(PipelineError):
    """A snapshot is not fit for a release: not validated, not prepared, or refused."""


class Damaged(PipelineError):
    """Something stored no longer matches its own checksum."""


class NoAnswer(Damaged):
    """A question without a stored answer, where nothing may be drawn."""


class UnknownFormat(PipelineError):
    """Something stored has a format that this program does not read; it may well be whole."""


class OtherQuestion(PipelineError):
    """A stored answer belongs to another question than is asked now; it is whole, and stays."""


class BoundaryViolation(PipelineError):
    """Code asked the gate for something that the gate does not do."""


class BudgetExceeded(PipelineError):
    """More ε was asked for than is left; nothing was charged and nothing was drawn.

    spent    for ever, or in ``month`` where that is named
    ceiling  for ever, or of each month
    symbol   of what the amounts are: ε, or ρ of zero-concentrated DP
    month    the calendar month (UTC) whose limit would be passed: "2026-11"; else empty
    account  whether the limit is an account's, which can be raised; what was asked for begins
             with the name of its data set, if it is of one
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        asked: Fraction,
        spent: Fraction,
        ceiling: Fraction,
        where: str,
        symbol: str = "ε",
        month: str = "",
        account: bool = True,
    ) -> None:
        self.asked, self.spent, self.ceiling, self.symbol = asked, spent, ceiling, symbol
        self.month = month
        self.left = ceiling - spent
        period, limit = (f" in {month}", "per_month") if month else ("", "ceiling")
        super().__init__(
            f"{what} refused by {where}: asked {symbol}={_decimal(asked)}, "
            f"spent{period} {_decimal(spent)}, left {_decimal(self.left)}, "
            f"{limit} {_decimal(ceiling)}{_remedy(what, month) if account else ''}"
        )


def _remedy(what: str, month: str) -> str:
    dataset = what.partition("/")[0]
    name = dataset if is_name(dataset) else "NAME"
    limit = "--total … --per-month …" if month else "--total …"
    later = ", or wait for the next month" if month else ""
    return f"; more, for ever: `dp-pipeline budget raise {name} {limit} --reason …`{later}"


def _decimal(value: Fraction) -> str:
    """Whole nano-ε as decimal text, rounded down: nothing is left that is not there."""
    whole, rest = divmod(value.numerator * 10**9 // value.denominator, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
