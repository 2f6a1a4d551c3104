"""An account: the budget of one population, fixed when it opens but for its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import get_args

from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.windows import Within
from dp_pipeline.ledger.entries import require_line

RELATIONS = ("add_remove", "replace_one")
PURPOSES = ("release", "benchmark")
WITHIN = get_args(Within)
LIMITS = (
    *("ceiling", "limit", "per_month", "month_limit", "delta_ceiling"),
    *("each_window", "window_limit"),
)
"""The facts that a raise says anew."""

_DECLARED_LIMITS = ("ceiling", "per_month", "delta_ceiling", "each_window")
_NONE = "none"


@dataclass(frozen=True)
class Account:
    """What may be spent on one population of persons, for ever and in a month.

    population   declared id of the population; never a file name or a content hash
    unit      the protected unit in words: "one row", "at most 20 rows of a person, column user"
    relation  "add_remove" or "replace_one": what neighbouring data sets differ by
    purpose   "release" (private rows) or "benchmark" (public rows, exact numbers are shown)
    ceiling   the sum of all ε that may ever be charged; None for a benchmark without a limit
    delta     None: the account counts in pure ε. Else it counts in ρ of zero-concentrated DP,
              and ``ceiling`` is an ε at this δ
    limit     the ceiling in what the account counts in; made from the ceiling when it opens or is
              raised, and kept in that row: no later conversion may move it
    per_month   the sum of all ε that may be charged in one calendar month (UTC), or None: a rate
              under the ceiling, not beside it
    month_limit   ``per_month`` in what the account counts in, kept like ``limit``
    delta_ceiling   the sum of all δ that charges may ever have, beside ``delta``: that of the
              discovery of levels; None: no charge has any. Of each window where ``within`` says so
    windows   how the population's rows are cut by their time, in words: "every week, UTC"; empty
              where they are not. Each window is a block, and every charge names its blocks
    within    whom all of it protects: "window", a person's rows of one window; "ever", all of hers
    each_window   the sum of all ε that may be charged to one window, or None
    window_limit  ``each_window`` in what the account counts in, kept like ``limit``

    All releases together are (ceiling, ``total_delta``)-private: see there. Within a window all
    releases are (each_window, ``total_delta``)-private for the rows of that window.

    *Proof.* Neighbouring data sets differ in one person's rows of one window. A release reads the
    rows of the windows that its charge names, and no other row decides anything of it: of two
    neighbours a release of other windows sees the same rows, and is drawn alike. What is left are
    the charges that name this window, and they compose as those of any account. ∎ Source: McSherry
    2009, theorem 4 (parallel composition); which release is asked for may depend on all noisy
    answers so far, as in adaptive composition, because the proof goes answer by answer.

    A release may read several windows: its charge names them all and is a charge of each, and the
    sums over all windows count it once for each (``entries.counted``). So ``ceiling`` bounds what a
    person costs who has rows in every window, whatever ``within`` says.

    Raises DeclarationError for any other value, and for a release without a ceiling.

    >>> Account("trips", "one row", "add_remove", "release", Fraction(10)).purpose
    'release'
    """

    population: str
    unit: str
    relation: str
    purpose: str
    ceiling: Fraction | None
    delta: Fraction | None = None
    limit: Fraction | None = field(default=None, compare=False)
    per_month: Fraction | None = None
    month_limit: Fraction | None = field(default=None, compare=False)
    delta_ceiling: Fraction | None = None
    windows: str = ""
    within: Within = "ever"
    each_window: Fraction | None = None
    window_limit: Fraction | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_line(self.population, of="population")
        require_line(self.unit, of=f"unit of population {self.population}")
        self._require_one_of(RELATIONS, self.relation, of="relation")
        self._require_one_of(PURPOSES, self.purpose, of="purpose")
        self._require_windows()
        most = self.each_window if self.within == "window" else self.ceiling
        if most is None and self.purpose == "release":
            limit = "limit of each window" if self.within == "window" else "ceiling"
            raise DeclarationError(
                f"population {self.population}: a release needs a {limit}, got none"
            )
        self._require_amounts()
        limits = (
            ("limit", self.ceiling),
            ("month_limit", self.per_month),
            ("window_limit", self.each_window),
        )
        for limit, amount in limits:
            if getattr(self, limit) is None and amount is not None:
                object.__setattr__(self, limit, self.currency.amount_of(amount))

    @property
    def currency(self) -> Currency:
        """What the account counts in."""
        return Currency(self.delta)

    @property
    def total_delta(self) -> Fraction:
        """The δ of everything that the account pays for: that of its conversion from ρ, and what
        its charges may have of their own.

        *Proof.* A charge with a δ of its own is (ε, δ)-private, so δ-approximate ε²/2-zCDP. In pure
        ε, charges compose to (Σε, Σδ). In ρ they compose to Σδ-approximate Σρ-zCDP, which
        is (ε, Σδ + ``delta``)-private for the ε that Σρ means at ``delta``. ∎ Sources: Dwork,
        Rothblum, Vadhan 2010 (basic composition); Bun, Steinke 2016, section 8.
        """
        return (self.delta or Fraction(0)) + (self.delta_ceiling or Fraction(0))

    @property
    def most_delta(self) -> Fraction | None:
        """Of all charges' own δ together, of one window where those are protected; None for a
        benchmark without any limit.
        """
        if self.ceiling is None and self.each_window is None and self.delta_ceiling is None:
            return None
        return self.delta_ceiling or Fraction(0)

    def _require_one_of(self, expected: tuple[str, ...], got: str, *, of: str) -> None:
        if got not in expected:
            raise DeclarationError(
                f"population {self.population}: {of} is {' or '.join(expected)}, got {got!r}"
            )

    def _require_windows(self) -> None:
        of = f"population {self.population}"
        self._require_one_of(WITHIN, self.within, of="within")
        if self.windows:
            require_line(self.windows, of=f"windows of {of}")
        elif self.within == "window" or self.each_window is not None:
            raise DeclarationError(f"{of}: expected windows for a limit of each, got none")

    def _require_amounts(self) -> None:
        for name in ("ceiling", "per_month", "each_window"):
            amount = getattr(self, name)
            if amount is not None and not _is_positive(amount):
                raise DeclarationError(
                    f"population {self.population}: expected a {name} above 0 as a Fraction, "
                    f"got {amount!r}"
                )
        delta = self.delta_ceiling
        if delta is not None and not (_is_positive(delta) and delta < 1):
            raise DeclarationError(
                f"population {self.population}: expected a delta_ceiling between 0 and 1 as a "
                f"Fraction, got {delta!r}"
            )
        for name in ("per_month", "each_window"):
            part = getattr(self, name)
            if self.ceiling is not None and part is not None and part > self.ceiling:
                raise DeclarationError(
                    f"population {self.population}: expected {name} at most the ceiling "
                    f"{epsilon_text(self.ceiling)}, got {epsilon_text(part)}"
                )

    def facts(self) -> dict[str, str]:
        """The account as text for its row."""
        facts = {
            "unit": self.unit,
            "relation": self.relation,
            "purpose": self.purpose,
            "currency": self.currency.name,
            **({"windows": self.windows, "within": self.within} if self.windows else {}),
            **self.limits(),
        }
        return facts if self.delta is None else {**facts, "delta": delta_text(self.delta)}

    def limits(self) -> dict[str, str]:
        """What a raise may change, as text; of a month only where there is such a limit."""
        facts = {"ceiling": _text(self.ceiling)}
        if self.delta is not None:
            facts["limit"] = _text(self.limit)
        if self.per_month is not None:
            facts["per_month"] = _text(self.per_month)
            if self.delta is not None:
                facts["month_limit"] = _text(self.month_limit)
        if self.delta_ceiling is not None:
            facts["delta_ceiling"] = delta_text(self.delta_ceiling)
        if self.each_window is not None:
            facts["each_window"] = _text(self.each_window)
            if self.delta is not None:
                facts["window_limit"] = _text(self.window_limit)
        return facts

    @classmethod
    def from_facts(cls, population: str, facts: Mapping[str, str]) -> Account:
        """The account that ``facts`` was written from; KeyError or ValueError if it was not."""
        is_pure = facts["currency"] == PURE.name
        per_month, delta_ceiling = facts.get("per_month", _NONE), facts.get("delta_ceiling", _NONE)
        each = facts.get("each_window", _NONE)
        return cls(
            population=population,
            unit=facts["unit"],
            relation=facts["relation"],
            purpose=facts["purpose"],
            ceiling=_amount(facts["ceiling"]),
            delta=None if is_pure else Fraction(facts["delta"]),
            limit=None if is_pure else _amount(facts["limit"]),
            per_month=_amount(per_month),
            month_limit=None if is_pure or per_month == _NONE else _amount(facts["month_limit"]),
            delta_ceiling=_amount(delta_ceiling),
            windows=facts.get("windows", ""),
            within=_within(facts.get("within", "ever")),
            each_window=_amount(each),
            window_limit=None if is_pure or each == _NONE else _amount(facts["window_limit"]),
        )

    def raised(
        self,
        *,
        total: Fraction | None,
        per_month: Fraction | None,
        delta_ceiling: Fraction | None = None,
        each_window: Fraction | None = None,
    ) -> Account:
        """The account with a higher ceiling, or the same and another limit of a month, of each
        window or of δ. Where rows are cut into windows, a total or a limit of each that was missing
        may be added: it then stays, like any other.

        total          None only where the account has none, because each window has a limit
        delta_ceiling, each_window   None: as they are

        Raises DeclarationError for a lower ceiling, of ε or of δ, for an account without one or
        without windows, and where nothing would change.
        """
        delta_ceiling = self.delta_ceiling if delta_ceiling is None else delta_ceiling
        each_window = self.each_window if each_window is None else each_window
        self._require_not_lower("ceiling", total)
        self._require_not_lower("each_window", each_window)
        if (delta_ceiling or 0) < (self.delta_ceiling or 0):
            raise DeclarationError(
                f"population {self.population}: expected a ceiling of δ of at least "
                f"{_of_delta(self.delta_ceiling)}, got {_of_delta(delta_ceiling)}"
            )
        limits = total, per_month, delta_ceiling, each_window
        if limits == (self.ceiling, self.per_month, self.delta_ceiling, self.each_window):
            raise DeclarationError(
                f"population {self.population}: expected a change, got the ceiling {_text(total)} "
                f"and per_month {_text(per_month)} that it has"
            )
        return replace(
            self,
            ceiling=total,
            limit=self.limit if total == self.ceiling else None,
            per_month=per_month,
            month_limit=self.month_limit if per_month == self.per_month else None,
            delta_ceiling=delta_ceiling,
            each_window=each_window,
            window_limit=self.window_limit if each_window == self.each_window else None,
        )

    def _require_not_lower(self, name: str, asked: Fraction | None) -> None:
        has = getattr(self, name)
        if has is None and (self.windows or (name == "each_window" and asked is None)):
            return  # None as before, or one that is added.
        if has is None or asked is None or not _is_positive(asked) or asked < has:
            what = "a ceiling" if name == "ceiling" else f"an {name}"
            raise DeclarationError(
                f"population {self.population}: expected {what} of at least {_text(has)}, "
                f"got {_text(asked)}"
            )

    def require_within(self, opened: Account) -> None:
        """Refuse to go on under another declaration than the one at opening, or one that asks for
        more than the account has. Lower limits, and none declared, go on: the account rules.

        Raises DeclarationError with both declarations of every differing field.
        """
        fixed = ("unit", "relation", "purpose", "delta", "windows", "within")
        names = [name for name in fixed if getattr(self, name) != getattr(opened, name)]
        if names:
            raise DeclarationError(
                f"population {self.population}: opened with {_listed(opened.facts(), names)}, "
                f"now declared with {_listed(self.facts(), names)}"
            )
        more = [name for name in _DECLARED_LIMITS if self._asks_for_more(opened, name)]
        if more:
            raise DeclarationError(
                f"population {self.population}: its account has {_listed(opened.facts(), more)}, "
                f"now declared with {_listed(self.facts(), more)}: a file does not raise it, "
                "`dp-pipeline budget raise` does, with a reason"
            )

    def difference_from(self, opened: Account) -> str:
        """One line for a person where a declaration says other limits than the account; else
        empty.
        """
        names = [name for name in _DECLARED_LIMITS if getattr(self, name) != getattr(opened, name)]
        if not names:
            return ""
        return (
            f"population {self.population}: the file declares {_listed(self.facts(), names)}; the "
            f"account has {_listed(opened.facts(), names)}, and the account rules"
        )

    def _asks_for_more(self, opened: Account, name: str) -> bool:
        declared, has = getattr(self, name), getattr(opened, name)
        if name == "delta_ceiling":
            # An account without one has no δ to give.
            return bool((declared or 0) > (has or 0))
        return declared is not None and has is not None and bool(declared > has)


def _within(text: str) -> Within:
    if text not in WITHIN:
        raise ValueError("within: neither window nor ever")
    return "window" if text == "window" else "ever"


def _is_positive(value: object) -> bool:
    return isinstance(value, Fraction) and value > 0


def _amount(text: str) -> Fraction | None:
    return None if text == _NONE else Fraction(text)


def _text(amount: Fraction | None) -> str:
    return _NONE if amount is None else epsilon_text(amount)


def _of_delta(amount: Fraction | None) -> str:
    return _NONE if amount is None else delta_text(amount)


def _listed(facts: Mapping[str, str], names: list[str]) -> str:
    return ", ".join(f"{name} {facts.get(name, _NONE)!r}" for name in names)
