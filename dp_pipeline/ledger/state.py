"""State: what all rows so far add up to. Admission asks it, and every row names it.

A sum over 100,000 rows is slow, and comes through an index that may be damaged. So every writer
keeps the sums in a small table, and writes the digest of that whole table into its row, inside
the row's hash. Whoever decides something reads the table whole, computes the digest again and
compares it with the newest row's: what one decides by is what the chain has said.

    kind         population  name           value
    ----         ----------  ----           -----
    ledger                                  {}: its ``entry`` is the number of the newest row
    population   its name                   the account and its sums
    source       the holder  the source     {}
    block        its name     window         the sums of what was charged to it
    unfinished   the payer   release key    "reserved" or "interrupted"

A release that has ended is no row here: the table grows with populations, sources, windows and
releases that nobody finished, not with releases.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger.account import LIMITS, Account
from dp_pipeline.ledger.entries import CHARGING, blocks_of, counted, delta_of
from dp_pipeline.ledger.head import canonical


class Record(Protocol):
    """What a row says, before it has its place or after."""

    @property
    def event(self) -> str: ...
    @property
    def population(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def nano_epsilon(self) -> int: ...
    @property
    def facts(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Population:
    """One account, and what it has paid, in nano-ε, or in nano-ρ where it counts in ρ.

    opened       the number of the row that opened it
    facts        of the account, raises and all, and the commitment to its key
    spent        the sum of all charges, each counted once for every window that it names
    month        the newest calendar month (UTC) that was charged; empty before the first
    month_spent  the sum of that month's charges
    releases     how many were charged, with an ε or without
    not_dp       how many of them have none
    delta_spent  the sum of the charges' own δ, exactly, as text
    everywhere, everywhere_delta   of a population whose rows are cut into windows, the sums of what
                 names none: rows that were taken out and did not say it. They count in every window
    """

    opened: int
    facts: Mapping[str, str]
    spent: int = 0
    month: str = ""
    month_spent: int = 0
    releases: int = 0
    not_dp: int = 0
    delta_spent: str = "0"
    everywhere: int = 0
    everywhere_delta: str = "0"

    @property
    def is_cut(self) -> bool:
        """Whether its rows are cut into windows."""
        return bool(self.facts.get("windows"))

    def account(self, population: str) -> Account:
        """The account as it is now; Damaged where the facts declare none."""
        try:
            return Account.from_facts(population, self.facts)
        except (KeyError, TypeError, ValueError, DeclarationError):
            raise Damaged(
                f"ledger: the account row of population {population} was changed"
            ) from None

    def charged(self, record: Record, *, month: str) -> Population:
        """After one more charge."""
        earlier = self.month_spent if month == self.month else 0
        delta = delta_of(record.facts)
        blocks = blocks_of(record.facts) if self.is_cut else ()
        is_everywhere = self.is_cut and not blocks
        nano = counted(record.nano_epsilon, blocks)
        return replace(
            self,
            spent=self.spent + nano,
            month=month,
            month_spent=earlier + nano,
            releases=self.releases + 1,
            not_dp=self.not_dp + (record.kind == "not-dp"),
            delta_spent=str(Fraction(self.delta_spent) + delta),
            everywhere=self.everywhere + record.nano_epsilon * is_everywhere,
            everywhere_delta=str(Fraction(self.everywhere_delta) + delta * is_everywhere),
        )


@dataclass(frozen=True)
class Block:
    """What was charged to one window of a population, in nano-ε or nano-ρ.

    spent        the sum of all charges that name it
    delta_spent  the sum of their own δ, exactly, as text
    """

    spent: int = 0
    delta_spent: str = "0"

    def charged(self, nano: int, delta: Fraction) -> Block:
        """After one more charge."""
        return Block(self.spent + nano, str(Fraction(self.delta_spent) + delta))


class Place(NamedTuple):
    """Which row of the table."""

    kind: str
    population: str = ""
    name: str = ""

    def columns(self) -> dict[str, str]:
        """Its values by the columns of the table."""
        return {"kind": self.kind, "population": self.population, "name": self.name}


_SEAL = Place("ledger")
_DIGITS = 64
"""Of a row's digest."""


@dataclass(frozen=True)
class Held:
    """A row of the table without its place."""

    entry: int
    value: str


class _Order:
    """The digests of all rows of the table in their one order, as one text that is changed in
    place: a row of the ledger changes two or three of them.

    >>> _Order({}).digest == hashlib.sha256(b"").hexdigest()
    True
    """

    def __init__(self, held: Mapping[Place, Held]) -> None:
        pairs = sorted((_sorted_by(place), _row_digest(place, one)) for place, one in held.items())
        self._keys = [key for key, _ in pairs]
        self._text = bytearray(b"".join(digest for _, digest in pairs))

    def __copy__(self) -> _Order:
        twin = _Order({})
        twin._keys, twin._text = list(self._keys), bytearray(self._text)
        return twin

    @property
    def digest(self) -> str:
        """SHA-256 over all of them."""
        return hashlib.sha256(self._text).hexdigest()

    def put(self, place: Place, held: Held | None) -> None:
        """What a place holds from now on; None of one that goes."""
        key = _sorted_by(place)
        at = bisect_left(self._keys, key)
        is_there = at < len(self._keys) and self._keys[at] == key
        start, end = at * _DIGITS, (at + is_there) * _DIGITS
        self._text[start:end] = b"" if held is None else _row_digest(place, held)
        if held is None and is_there:
            del self._keys[at]
        elif held is not None and not is_there:
            self._keys.insert(at, key)


def _sorted_by(place: Place) -> list[str]:
    # As text: what was planted may be no text, and has to give another digest, not an error.
    return [str(name) for name in place]


def _row_digest(place: Place, held: Held) -> bytes:
    row = canonical([*place, held.entry, held.value])
    return hashlib.sha256(row.encode("ascii")).hexdigest().encode("ascii")


@dataclass
class State:
    """The table as values; ``take`` follows the rows of the ledger one by one.

    >>> State().rows
    0
    """

    held: dict[Place, Held] = field(default_factory=lambda: {_SEAL: Held(0, "{}")})
    _order: _Order | None = field(default=None, repr=False, compare=False)
    _populations: dict[str, Population] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """The number of the newest row that was taken; -1 where nothing says it."""
        return self.held[_SEAL].entry if _SEAL in self.held else -1

    @property
    def digest(self) -> str:
        """SHA-256 over all rows of the table, in one order."""
        if self._order is None:
            self._order = _Order(self.held)
        return self._order.digest

    def population(self, population: str) -> Population | None:
        """The account of a population and its sums; None if it was never opened."""
        if population not in self._populations:
            held = self.held.get(Place("population", population))
            if held is None:
                return None
            self._populations[population] = _population(held.value)
        return self._populations[population]

    def account(self, population: str) -> Account | None:
        """The account of a population as it is now; None if it was never opened."""
        found = self.population(population)
        return None if found is None else found.account(population)

    def block(self, population: str, name: str) -> Block:
        """What was charged to one window, with what was charged to all of them."""
        held, standing = (
            self.held.get(Place("block", population, name)),
            self.population(population),
        )
        found = Block() if held is None else _read(Block, held.value)
        if standing is None:
            return found
        return found.charged(standing.everywhere, Fraction(standing.everywhere_delta))

    def blocks(self, population: str) -> tuple[str, ...]:
        """The windows that were ever charged, by name."""
        of = (place for place in self.held if place.kind == "block")
        return tuple(sorted(place.name for place in of if place.population == population))

    def populations(self) -> tuple[str, ...]:
        """Every population with an account, in the order of opening."""
        found = [
            (_population(held.value).opened, place.population)
            for place, held in self.held.items()
            if place.kind == "population"
        ]
        return tuple(population for _, population in sorted(found))

    def claims(self) -> tuple[tuple[str, str], ...]:
        """Every claim, oldest first: the source and the population that holds it."""
        found = [(held.entry, place) for place, held in self.held.items() if place.kind == "source"]
        return tuple((place.name, place.population) for _, place in sorted(found))

    def unfinished(self, key: str) -> str | None:
        """Of a release that has not ended "reserved" or "interrupted", else None."""
        for place, held in self.held.items():
            if place.kind == "unfinished" and place.name == key:
                return str(_parsed(held.value)["state"])
        return None

    def unfinished_keys(self) -> tuple[str, ...]:
        """Of the releases that have not ended, in the order of their keys."""
        return tuple(sorted(place.name for place in self.held if place.kind == "unfinished"))

    def take(self, record: Record, *, sequence: int, time: str) -> set[Place]:
        """Follow the next row; gives the rows of the table that are others now, or are no more."""
        changed = self._changed(record, sequence=sequence, month=time[:7])
        changed[_SEAL] = {}
        for place, value in changed.items():
            held = None if value is None else Held(sequence, canonical(value))
            if held is None:
                self.held.pop(place, None)
            else:
                self.held[place] = held
            if self._order is not None:
                self._order.put(place, held)
            self._populations.pop(place.population, None)
        return set(changed)

    def _changed(
        self, record: Record, *, sequence: int, month: str
    ) -> dict[Place, dict[str, Any] | None]:
        """The values of the rows that a record changes; None of one that goes."""
        event, population, key = record.event, record.population, record.key or ""
        changed: dict[Place, dict[str, Any] | None] = {}
        now, standing = self.population(population), Place("population", population)
        if event == "account":
            changed[standing] = dict(vars(Population(opened=sequence, facts=dict(record.facts))))
        elif event == "source":
            changed[Place("source", population, record.source or "")] = {}
        elif event in ("reserve", "interrupted"):
            said = "reserved" if event == "reserve" else event
            changed[Place("unfinished", population, key)] = {"state": said}
        elif event in ("settled", "dead"):
            changed[Place("unfinished", population, key)] = None
        if event == "raise" and now is not None:
            facts = merged(now.facts, record.facts)
            changed[standing] = dict(vars(replace(now, facts=facts)))
        # A row that was taken out and looked like no charge counts as none.
        if event in CHARGING and now is not None and record.kind is not None:
            changed[standing] = dict(vars(now.charged(record, month=month)))
            changed |= self._charged_blocks(record) if now.is_cut else {}
        return changed

    def _charged_blocks(self, record: Record) -> dict[Place, dict[str, Any] | None]:
        changed: dict[Place, dict[str, Any] | None] = {}
        for name in blocks_of(record.facts):
            place = Place("block", record.population, name)
            held = self.held.get(place)
            before = Block() if held is None else _read(Block, held.value)
            charged = before.charged(record.nano_epsilon, delta_of(record.facts))
            changed[place] = dict(vars(charged))
        return changed


def merged(facts: Mapping[str, str], raised: Mapping[str, str]) -> dict[str, str]:
    """The facts of an account after a raise, which says all limits anew: one that it does not name
    is no more.
    """
    return {**{name: text for name, text in facts.items() if name not in LIMITS}, **raised}


Sums = TypeVar("Sums", Population, Block)


def _population(text: str) -> Population:
    return _read(Population, text)


def _read(kind: type[Sums], text: str) -> Sums:
    try:
        return kind(**_parsed(text))
    except TypeError:
        raise Damaged("ledger: a row of its sums is none") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        raise Damaged("ledger: a row of its sums cannot be parsed") from None
