"""An account: the budget of one population, fixed when it opens but for its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dp_pipeline.ledger.entries import require_line
from dp_pipeline.spec.amounts import PURE, Currency, delta_text, epsilon_text
from dp_pipeline.spec.errors import DeclarationError

RELATIONS = ("add_remove", "replace_one")
PURPOSES = ("release", "benchmark")
LIMITS = ("ceiling", "limit", "per_month", "month_limit", "delta_ceiling")
"""The facts that a raise says anew."""

_DECLARED_LIMITS = ("ceiling", "per_month", "delta_ceiling")
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
              discovery of levels; None: no charge has any

    All releases together are (ceiling, ``total_delta``)-private: see there.

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

    def __post_init__(self) -> None:
        require_line(self.population, of="population")
        require_line(self.unit, of=f"unit of population {self.population}")
        self._require_one_of(RELATIONS, self.relation, of="relation")
        self._require_one_of(PURPOSES, self.purpose, of="purpose")
        if self.ceiling is None and self.purpose == "release":
            raise DeclarationError(
                f"population {self.population}: a release needs a ceiling, got none"
            )
        self._require_amounts()
        for limit, amount in (("limit", self.ceiling), ("month_limit", self.per_month)):
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
        """Of all charges' own δ together; None for a benchmark without any limit."""
        if self.ceiling is None and self.delta_ceiling is None:
            return None
        return self.delta_ceiling or Fraction(0)

    def _require_one_of(self, expected: tuple[str, ...], got: str, *, of: str) -> None:
        if got not in expected:
            raise DeclarationError(
                f"population {self.population}: {of} is {' or '.join(expected)}, got {got!r}"
            )

    def _require_amounts(self) -> None:
        for name in ("ceiling", "per_month"):
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
        limits = self.ceiling, self.per_month
        if limits[0] is not None and limits[1] is not None and limits[1] > limits[0]:
            raise DeclarationError(
                f"population {self.population}: expected per_month at most the ceiling "
                f"{epsilon_text(limits[0])}, got {epsilon_text(limits[1])}"
            )

    def facts(self) -> dict[str, str]:
        """The account as text for its row."""
        facts = {
            "unit": self.unit,
            "relation": self.relation,
            "purpose": self.purpose,
            "currency": self.currency.name,
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
        return facts

    @classmethod
    def from_facts(cls, population: str, facts: Mapping[str, str]) -> Account:
        """The account that ``facts`` was written from; KeyError or ValueError if it was not."""
        # Every account that counts in ρ says so; those of before there was another do not.
        is_pure = facts.get("currency", PURE.name) == PURE.name
        per_month, delta_ceiling = facts.get("per_month", _NONE), facts.get("delta_ceiling", _NONE)
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
        )

    def raised(
        self,
        *,
        total: Fraction,
        per_month: Fraction | None,
        delta_ceiling: Fraction | None = None,
    ) -> Account:
        """The account with a higher ceiling, or the same and another limit of a month, or of δ.

        delta_ceiling   None: as it is

        Raises DeclarationError for a lower ceiling, of ε or of δ, for an account without one, and
        where nothing would change.
        """
        delta_ceiling = self.delta_ceiling if delta_ceiling is None else delta_ceiling
        if self.ceiling is None or not _is_positive(total) or total < self.ceiling:
            raise DeclarationError(
                f"population {self.population}: expected a ceiling of at least "
                f"{_text(self.ceiling)}, got {_text(total)}"
            )
        if (delta_ceiling or 0) < (self.delta_ceiling or 0):
            raise DeclarationError(
                f"population {self.population}: expected a ceiling of δ of at least "
                f"{_of_delta(self.delta_ceiling)}, got {_of_delta(delta_ceiling)}"
            )
        limits = total, per_month, delta_ceiling
        if limits == (self.ceiling, self.per_month, self.delta_ceiling):
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
        )

    def require_within(self, opened: Account) -> None:
        """Refuse to go on under another declaration than the one at opening, or one that asks for
        more than the account has. Lower limits, and none declared, go on: the account rules.

        Raises DeclarationError with both declarations of every differing field.
        """
        fixed = ("unit", "relation", "purpose", "delta")
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
