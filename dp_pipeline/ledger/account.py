"""An account: the budget of one lineage, fixed when it opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction

from dp_pipeline.ledger.words import require_line
from dp_pipeline.schema.currency import PURE, Currency, delta_text
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import DeclarationError

RELATIONS = ("add_remove", "replace_one")
PURPOSES = ("release", "benchmark")


@dataclass(frozen=True)
class Account:
    """What may be spent on one population of persons, for ever.

    lineage   declared id of the population; never a file name or a content hash
    unit      the protected unit in words: "one row", "at most 20 rows of a person, column user"
    relation  "add_remove" or "replace_one": what neighbouring data sets differ by
    purpose   "release" (private rows) or "benchmark" (public rows, exact numbers are shown)
    ceiling   the sum of all ε that may ever be charged; None for a benchmark without a limit
    delta     None: the account counts in pure ε. Else it counts in ρ of zero-concentrated DP,
              and ``ceiling`` is an ε at this δ
    limit     the ceiling in what the account counts in; made from the ceiling when it opens,
              and kept in its row: no later conversion may move it

    Raises DeclarationError for any other value, and for a release without a ceiling.

    >>> Account("trips", "one row", "add_remove", "release", Fraction(10)).purpose
    'release'
    """

    lineage: str
    unit: str
    relation: str
    purpose: str
    ceiling: Fraction | None
    delta: Fraction | None = None
    limit: Fraction | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_line(self.lineage, of="lineage")
        require_line(self.unit, of=f"unit of lineage {self.lineage}")
        self._require_one_of(RELATIONS, self.relation, of="relation")
        self._require_one_of(PURPOSES, self.purpose, of="purpose")
        if self.ceiling is None and self.purpose == "release":
            raise DeclarationError(f"lineage {self.lineage}: a release needs a ceiling, got none")
        if self.ceiling is not None and not _is_positive(self.ceiling):
            raise DeclarationError(
                f"lineage {self.lineage}: expected a ceiling above 0 as a Fraction, "
                f"got {self.ceiling!r}"
            )
        if self.limit is None and self.ceiling is not None:
            object.__setattr__(self, "limit", self.currency.amount_of(self.ceiling))

    @property
    def currency(self) -> Currency:
        """What the account counts in."""
        return Currency(self.delta)

    def _require_one_of(self, expected: tuple[str, ...], got: str, *, of: str) -> None:
        if got not in expected:
            raise DeclarationError(
                f"lineage {self.lineage}: {of} is {' or '.join(expected)}, got {got!r}"
            )

    def facts(self) -> dict[str, str]:
        """The account as text for its row."""
        ceiling = "none" if self.ceiling is None else epsilon_text(self.ceiling)
        facts = {
            "unit": self.unit,
            "relation": self.relation,
            "purpose": self.purpose,
            "ceiling": ceiling,
            "currency": self.currency.name,
        }
        if self.delta is None:
            return facts
        limit = "none" if self.limit is None else epsilon_text(self.limit)
        return {**facts, "delta": delta_text(self.delta), "limit": limit}

    @classmethod
    def from_facts(cls, lineage: str, facts: Mapping[str, str]) -> Account:
        """The account that ``facts`` was written from; KeyError or ValueError if it was not."""
        ceiling = _amount(facts["ceiling"])
        declared = (lineage, facts["unit"], facts["relation"], facts["purpose"], ceiling)
        # Every account that counts in ρ says so; those of before there was another do not.
        if facts.get("currency", PURE.name) == PURE.name:
            return cls(*declared)
        return cls(*declared, Fraction(facts["delta"]), _amount(facts["limit"]))

    def require_same_as(self, opened: Account) -> None:
        """Refuse to go on under another declaration than the one at opening.

        Raises DeclarationError with both declarations of every differing field.
        """
        declared = [one.name for one in fields(self) if one.compare]
        names = [name for name in declared if getattr(self, name) != getattr(opened, name)]
        if names:
            raise DeclarationError(
                f"lineage {self.lineage}: opened with {_listed(opened.facts(), names)}, "
                f"now declared with {_listed(self.facts(), names)}"
            )


@dataclass(frozen=True)
class Balance:
    """What a lineage has spent, exactly, in what its account counts in.

    ceiling   None if there is no limit, or no account yet
    spent     the sum of all charges, settled or not: nothing is ever refunded
    left      ceiling − spent; None if there is no ceiling
    not_dp    how many releases without any ε were made
    currency  pure ε, or ρ with its δ
    """

    ceiling: Fraction | None
    spent: Fraction
    left: Fraction | None
    not_dp: int
    currency: Currency = PURE


def _is_positive(value: object) -> bool:
    return isinstance(value, Fraction) and value > 0


def _amount(text: str) -> Fraction | None:
    return None if text == "none" else Fraction(text)


def _listed(facts: Mapping[str, str], names: list[str]) -> str:
    return ", ".join(f"{name} {facts.get(name, 'none')!r}" for name in names)
