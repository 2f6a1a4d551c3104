"""Charges and entries: the cost of one release, and one stored row of the ledger."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError


def require_line(text: str, *, of: str) -> None:
    """Raise DeclarationError unless ``text``, called ``of``, is one printable line, not empty and
    without outer spaces."""
    if not isinstance(text, str) or not text.strip():
        raise DeclarationError(f"The {of} must be text of one letter or more, not {text!r}")
    if text != text.strip():
        raise DeclarationError(f"The {of} must be text without outer spaces, not {text!r}")
    if not text.isprintable():
        raise DeclarationError(f"The {of} must be one line of printable text, not {text!r}")


def require_text(text: str, *, of: str) -> None:
    """Raise DeclarationError unless ``text``, called ``of``, is text that a database can store: not
    empty, without NUL and lone surrogates."""
    if not isinstance(text, str) or not text:
        raise DeclarationError(f"The {of} must be text of one letter or more, not {text!r}")
    if "\0" in text:
        raise DeclarationError(f"The {of} must be text without NUL, not {text!r}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DeclarationError(f"The {of} must be text that UTF-8 can store, not {text!r}")


def to_single_line(text: str) -> str:
    """Return a text as one line: each run of white space becomes one space, each unprintable letter
    a question mark; an empty text becomes "no reason given"."""
    line = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line) or "no reason given"


KINDS = ("dp", "not-dp")
MAX_CHARGE = 10**16
"""Largest charge in nano-ε: far above any declared ε, and 900 of them still fit an SQL integer."""

DELTA = "own_delta"
"""The fact of a charge that says its own δ, exactly."""
BLOCKS = "blocks"
"""The fact of a charge that names the windows whose rows it pays for."""

MAX_BLOCKS = 1000
_BLOCK = re.compile(r"[0-9A-Za-z:.+_-]{1,40}")

CHARGING = ("reserve", "restored")
"""Events whose rows may charge."""

_KEY = re.compile(r"[0-9a-f]{16,128}")


@dataclass(frozen=True)
class Charge:
    """The cost of one release in ε or ρ, with the account that pays and the facts to store.

    key           release key: 16 to 128 lower-case hex digits, chosen by the caller
    population       whose account pays
    kind          "dp", or "not-dp" for a publication without any ε
    nano_epsilon  ⌈ε·10⁹⌉, or ⌈ρ·10⁹⌉ of an account that counts in ρ; 0 exactly if ``kind``
                  is "not-dp"
    what          name of the release for messages: "trips/dpqt_kmeans at ε=0.1"
    facts         everything else to be stored, all text: snapshot, parameters, run id, …
    currency      what ``nano_epsilon`` is counted in; that of the account, or it is refused
    delta         its own δ, which the account adds up: that of the discovery of levels; 0: none.
                  Stored among the facts
    blocks        names of the windows whose rows it pays for, each once and sorted, where the
                  account has windows; () elsewhere. Stored among the facts

    Raises DeclarationError for other values.

    >>> Charge("0f" * 32, "trips", "dp", 100_000_000, "trips/grid at ε=0.1", {}).nano_epsilon
    100000000
    """

    key: str
    population: str
    kind: str
    nano_epsilon: int
    what: str
    facts: Mapping[str, str]
    currency: Currency = PURE
    delta: Fraction = Fraction(0)
    blocks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_line(self.what, of="what of a charge")
        require_line(self.population, of=f"population of {self.what}")
        require_key(self.key, of=f"key of {self.what}")
        self._require_cost()
        for name, text in self.facts.items():
            require_text(name, of=f"name of a fact of {self.what}")
            if not isinstance(text, str):
                raise DeclarationError(f"{self.what}: the fact {name!r} must be text, not {text!r}")
        if not isinstance(self.delta, Fraction) or not 0 <= self.delta < 1:
            raise DeclarationError(
                f"{self.what}: the δ must be a Fraction from 0 to below 1, not {self.delta!r}"
            )
        if self.delta and self.kind != "dp":
            raise DeclarationError(
                f"{self.what}: a {self.kind} charge must have no δ, but it has {self.delta}"
            )
        if not isinstance(self.blocks, tuple) or not _are_blocks(self.blocks):
            raise DeclarationError(
                f"{self.what}: the windows must be a tuple of at most {MAX_BLOCKS} names, sorted "
                "and without repetition, each 1 to 40 letters, digits or :.+_-, not "
                f"{str(self.blocks)[:60]!r}"
            )
        # A copy: what was reserved must not change with the caller's dictionary. Of δ and windows
        # the fields alone count: a fact of the same name would be charged too.
        facts = {name: text for name, text in self.facts.items() if name not in (DELTA, BLOCKS)}
        facts |= {DELTA: str(self.delta)} if self.delta else {}
        facts |= {BLOCKS: " ".join(self.blocks)} if self.blocks else {}
        object.__setattr__(self, "facts", facts)

    @property
    def charge_in_all_windows(self) -> int:
        return charge_in_all_windows(self.nano_epsilon, self.blocks)

    def _require_cost(self) -> None:
        if self.kind not in KINDS:
            raise DeclarationError(
                f"{self.what}: the kind of a charge must be dp or not-dp, not {self.kind!r}"
            )
        if type(self.nano_epsilon) is not int:
            raise DeclarationError(
                f"{self.what}: the charge must be an integer number of "
                f"nano-{self.currency.symbol}, not {self.nano_epsilon!r}"
            )
        lowest, highest = (1, MAX_CHARGE) if self.kind == "dp" else (0, 0)
        if not lowest <= self.nano_epsilon <= highest:
            raise DeclarationError(
                f"{self.what}: a {self.kind} charge must be from {lowest} to {highest} "
                f"nano-{self.currency.symbol}, not {self.nano_epsilon}"
            )


@dataclass(frozen=True)
class SpendRow:
    """A draw of noise of a release: what was measured, its part of the ε and its noise scale.

    what       what was measured
    mechanism  how: "laplace", "noisy_max", …
    epsilon    exact, not negative; its part of the charge, in what the account counts in
    scale      of the noise, exact, in the units of what was measured

    Raises DeclarationError for floats and negative numbers: a negative spend is a refund.

    >>> SpendRow("counts", "laplace", Fraction(1, 3), Fraction(3)).epsilon
    Fraction(1, 3)
    """

    what: str
    mechanism: str
    epsilon: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        require_text(self.what, of="what of a spend")
        require_text(self.mechanism, of=f"mechanism of spend {self.what!r}")
        for name in ("epsilon", "scale"):
            value = getattr(self, name)
            if not isinstance(value, Fraction) or value < 0:
                raise DeclarationError(
                    f"The {name} of spend {self.what!r} must be a Fraction of at least 0, not "
                    f"{value!r}"
                )


def require_key(key: str, *, of: str = "release key") -> None:
    """Raise DeclarationError unless a key, which names a lock file, is 16 to 128 lower-case
    hexadecimal digits."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise DeclarationError(
            f"The {of} must be 16 to 128 lower-case hexadecimal digits, not {key!r}"
        )


_EXACT = re.compile(r"[0-9]+(/[0-9]+)?")


@dataclass(frozen=True)
class Entry:
    """One stored row of the ledger.

    sequence      1, 2, 3, …
    event         "account", "raise", "windows", "source", "retired", "reserve", "interrupted",
                  "settled" or "dead"; of the ledger itself "restored"
    time          UTC, ISO 8601
    population       whose account; empty on rows about the ledger itself
    key           release key; None on rows about the account alone
    source        the source claimed; None on all other rows
    kind          "dp" or "not-dp" of the release; None on rows about the account alone
    nano_epsilon  the charge of this row, nano-ρ where the account counts in ρ; 0 but for reserve
                  rows, and restored ones in the place of what looked like a charge
    what          name of the release, as in ``Charge``; of a restored row, which row it replaces
    facts         everything else, all text
    previous      hash of the row before
    hash          hash over all of these and the spends
    state         digest of what all rows add up to with this one
    spends        the draws of a settled release
    """

    sequence: int
    event: str
    time: str
    population: str
    key: str | None
    source: str | None
    kind: str | None
    nano_epsilon: int
    what: str
    facts: Mapping[str, str]
    previous: str
    hash: str
    state: str
    spends: tuple[SpendRow, ...]

    @property
    def charge_in_all_windows(self) -> int:
        return charge_in_all_windows(self.nano_epsilon, blocks_of(self.facts))

    @property
    def is_charge(self) -> bool:
        """Whether the row charges an account for a release, also by 0 for one without ε."""
        return self.kind is not None and self.event in CHARGING


def entry_from(row: Mapping[str, Any], spends: Sequence[Mapping[str, Any]]) -> Entry:
    """Return a stored ledger row and its spends as an Entry; Damaged if a value is invalid."""
    part = "facts"
    try:
        parsed = {"facts": json.loads(row["facts"])}
        part = "spends"
        parsed[part] = tuple(
            SpendRow(
                spend["what"],
                spend["mechanism"],
                _fraction(spend["epsilon"]),
                _fraction(spend["scale"]),
            )
            for spend in spends
        )
        part = "columns"
        return Entry(**{**row, **parsed})
    except (ValueError, TypeError, ZeroDivisionError, RecursionError, DeclarationError):
        raise Damaged(f"The {part} of ledger row {row['sequence']} cannot be parsed") from None


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str):
        raise TypeError("The exact number of a ledger row must be stored as text")
    # "1e999999999" would be computed for hours.
    if _EXACT.fullmatch(text) is None:
        raise ValueError("The exact number of a ledger row must be stored as one or two integers")
    return Fraction(text)


def delta_of(facts: Mapping[str, str]) -> Fraction:
    """Return the own δ of a charge, from the facts of its ledger row; 0 if it has none, Damaged if
    the text is invalid."""
    try:
        return _fraction(facts.get(DELTA, "0"))
    except (TypeError, ValueError, ZeroDivisionError):
        raise Damaged(
            "The δ of a charge in the ledger cannot be read, so it was changed: `dp-pipeline "
            "budget verify` names its row and says what to do"
        ) from None


def _are_blocks(blocks: Sequence[str]) -> bool:
    are_names = all(isinstance(block, str) and _BLOCK.fullmatch(block) for block in blocks)
    return are_names and list(blocks) == sorted(set(blocks)) and len(blocks) <= MAX_BLOCKS


def blocks_of(facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the time windows that a charge pays for, from the facts of its ledger
    row; () if it names none, Damaged if the text is invalid."""
    text = facts.get(BLOCKS)
    if text is None:
        return ()
    blocks = tuple(text.split(" ")) if isinstance(text, str) else ()
    if not blocks or not _are_blocks(blocks):
        raise Damaged(
            "The windows of a charge in the ledger cannot be read, so they were changed: "
            "`dp-pipeline budget verify` names its row and says what to do"
        )
    return blocks


def charge_in_all_windows(nano_epsilon: int, blocks: Sequence[str]) -> int:
    """Return a charge in billionths of ε or ρ times the number of its windows (at least 1).

    This product is what the charge adds to the sums of the account and of the month.

    *Proof.* A release whose noise hides the rows that a person has in one window is ε-private for
    those. Take her rows out of m windows one after the other: m steps, each of which makes a result
    at most e^ε times as likely. So all of her rows cost mε. ∎ Source: Dwork, Roth 2014, theorem 2.2
    (group privacy). Of ρ it would be m²ρ, so ``reservation`` lets no such charge in.

    >>> charge_in_all_windows(5, ()), charge_in_all_windows(5, ("2026-W01", "2026-W02"))
    (5, 10)
    """
    return nano_epsilon * max(1, len(blocks))


class DeadRelease(PipelineError):
    """Raised for a charged release that can never be complete: its answers are lost, or a person
    gave it up."""


class ReservationOver(PipelineError):
    """Raised when a reservation is used after its release settled or died, or its block ended."""


class UnbalancedSpends(PipelineError):
    """Raised when the spends of a release do not add up to its charge; it stays unsettled."""
