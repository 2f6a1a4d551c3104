"""The state of a ledger: the sums of all rows, by which charges are admitted.

A sum over 100,000 rows is slow, and uses an index that may be damaged. So every writer updates the
sums in a small table, and puts the digest of that table into its row, inside the row's hash. Every
decision reads the table and compares its digest with the newest row's.

    kind         population  name           value
    ----         ----------  ----           -----
    ledger                                  {}: its ``entry`` is the number of the newest row
    population   its name                   the account and its sums
    source       the holder  the source     {}
    block        its name    window         the sums of its charges
    unfinished   the payer   release key    "reserved" or "interrupted"

A release that has ended has no row here, so the table stays small.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self, TypeVar

from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger.account import LIMITS, WINDOW_FACTS, Account, times_in_windows
from dp_pipeline.ledger.entries import CHARGING, Entry, blocks_of, charge_in_all_windows, delta_of
from dp_pipeline.ledger.head import Draft, canonical

Record = Draft | Entry
"""A ledger row, before or after it is stored."""


@dataclass(frozen=True)
class Population:
    """An account with the sums of its charges, in nano-ε or nano-ρ.

    opened       the number of the row that opened it
    facts        of the account, with raised limits, and the commitment to its key
    spent        the sum of all charges, each counted once for every window that it names
    month        the newest calendar month (UTC) that was charged; empty before the first
    month_spent  the sum of that month's charges
    releases     number of charges, with an ε or without
    not_dp       number of charges without ε
    delta_spent  the sum of the charges' own δ, exactly, as text
    everywhere, everywhere_delta   the same sums of charges that name no window although the
                 population has windows (those before it had any, as often as they count, and rows
                 that replace foreign ones); they count in every window
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
    def has_windows(self) -> bool:
        return bool(self.facts.get("windows"))

    def account(self, population: str) -> Account:
        """Return the account of this population, called ``population``, with its current limits;
        Damaged if its stored facts are invalid."""
        try:
            return Account.from_facts(population, self.facts)
        except (KeyError, TypeError, ValueError, DeclarationError):
            raise Damaged(
                f"The row of population {population} in the table `state` of the ledger was "
                "changed: `dp-pipeline budget restore --reason …` computes it anew"
            ) from None

    def with_charge(self, record: Record, *, month: str) -> Self:
        """Return a copy with the charge of one more ledger row added to its sums.

        month   when the row was written: "2026-11"
        """
        earlier = self.month_spent if month == self.month else 0
        delta = delta_of(record.facts)
        blocks = blocks_of(record.facts) if self.has_windows else ()
        is_everywhere = self.has_windows and not blocks
        nano = charge_in_all_windows(record.nano_epsilon, blocks)
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

    def with_windows(self, record: Record) -> Self:
        """Return a copy with the windows and limits of a ledger row that adds windows.

        Each window counts the ε or ρ of all earlier charges, as often as ``times_in_windows`` says,
        and their δ once.
        """
        facts = facts_with_new_limits(self.facts, record.facts, also=WINDOW_FACTS)
        times = times_in_windows(self.account(record.population), facts["unit"])
        return replace(
            self, facts=facts, everywhere=self.spent * times, everywhere_delta=self.delta_spent
        )


@dataclass(frozen=True)
class Block:
    """The sums of the charges of one time window, in nano-ε or nano-ρ.

    spent        the sum of all charges that name the window
    delta_spent  the sum of their own δ, exactly, as text
    """

    spent: int = 0
    delta_spent: str = "0"

    def with_charge(self, nano: int, delta: Fraction) -> Self:
        return type(self)(self.spent + nano, str(Fraction(self.delta_spent) + delta))


class StateKey(NamedTuple):
    """The key of a row of the table ``state``.

    kind         ``population``: an account with its sums; ``block``: the sums of a time window;
                 ``source``: a claim; ``unfinished``: a release that has not ended; ``ledger``: the
                 number of the newest ledger row
    population   whose row it is; empty for the kind ``ledger``
    name         window, source or release key; empty for the kinds ``population`` and ``ledger``
    """

    kind: str
    population: str = ""
    name: str = ""


_SEAL = StateKey("ledger")
_DIGITS = 64
"""Hexadecimal digits of a row's digest."""


@dataclass(frozen=True)
class StateValue:
    """The value of a row of the table ``state``.

    entry   the number of the ledger row that wrote it
    value   its content, as JSON
    """

    entry: int
    value: str


class _Digests:
    """The digests of all rows of the table ``state``, sorted by key, which ``put`` updates.

    >>> _Digests({}).total == hashlib.sha256(b"").hexdigest()
    True
    """

    def __init__(self, rows: Mapping[StateKey, StateValue]) -> None:
        pairs = sorted((_sort_key(key), _row_digest(key, value)) for key, value in rows.items())
        self._keys = [key for key, _ in pairs]
        self._text = bytearray(b"".join(digest for _, digest in pairs))

    @property
    def total(self) -> str:
        return hashlib.sha256(self._text).hexdigest()

    def put(self, key: StateKey, value: StateValue | None) -> None:
        """Replace or add the digest of the row with a key; None removes it."""
        sort_key = _sort_key(key)
        position = bisect_left(self._keys, sort_key)
        is_there = position < len(self._keys) and self._keys[position] == sort_key
        start, end = position * _DIGITS, (position + is_there) * _DIGITS
        self._text[start:end] = b"" if value is None else _row_digest(key, value)
        if value is None and is_there:
            del self._keys[position]
        elif value is not None and not is_there:
            self._keys.insert(position, sort_key)


def _sort_key(key: StateKey) -> list[str]:
    # As text: what was planted may be no text, and has to give another digest, not an error.
    return [str(name) for name in key]


def _row_digest(key: StateKey, value: StateValue) -> bytes:
    row = canonical([*key, value.entry, value.value])
    return hashlib.sha256(row.encode("ascii")).hexdigest().encode("ascii")


@dataclass
class State:
    """The contents of the table ``state``, updated by each ledger row.

    >>> State().sequence
    0
    """

    rows: dict[StateKey, StateValue] = field(default_factory=lambda: {_SEAL: StateValue(0, "{}")})
    _digests: _Digests | None = field(default=None, repr=False, compare=False)
    _populations: dict[str, Population] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sequence(self) -> int:
        """The number of the newest ledger row that was added; -1 if the table is invalid."""
        return self.rows[_SEAL].entry if _SEAL in self.rows else -1

    @property
    def digest(self) -> str:
        """The SHA-256 over the digests of all rows of the table, sorted by key, in hex digits."""
        if self._digests is None:
            self._digests = _Digests(self.rows)
        return self._digests.total

    def population(self, population: str) -> Population | None:
        """Return the account of a population with its sums; None if it was never opened."""
        if population not in self._populations:
            row = self.rows.get(StateKey("population", population))
            if row is None:
                return None
            self._populations[population] = _read(Population, row.value)
        return self._populations[population]

    def account(self, population: str) -> Account | None:
        sums = self.population(population)
        return None if sums is None else sums.account(population)

    def block(self, population: str, name: str) -> Block:
        """Return the sums of one window, including charges that count in every window."""
        own, sums = self._own_block(population, name), self.population(population)
        if sums is None:
            return own
        return own.with_charge(sums.everywhere, Fraction(sums.everywhere_delta))

    def _own_block(self, population: str, name: str) -> Block:
        row = self.rows.get(StateKey("block", population, name))
        return Block() if row is None else _read(Block, row.value)

    def _keys(self, kind: str) -> list[StateKey]:
        return [key for key in self.rows if key.kind == kind]

    def blocks(self, population: str) -> tuple[str, ...]:
        """Return the names of a population's windows that were ever charged, sorted."""
        keys = self._keys("block")
        return tuple(sorted(key.name for key in keys if key.population == population))

    def populations(self) -> tuple[str, ...]:
        opened = [
            (_read(Population, self.rows[key].value).opened, key.population)
            for key in self._keys("population")
        ]
        return tuple(population for _, population in sorted(opened))

    def claims(self) -> tuple[tuple[str, str], ...]:
        claims = sorted((self.rows[key].entry, key) for key in self._keys("source"))
        return tuple((key.name, key.population) for _, key in claims)

    def unfinished(self, key: str) -> str | None:
        """Return "reserved" or "interrupted" for a release that has not ended, else None."""
        for row in self._keys("unfinished"):
            if row.name == key:
                return str(_parsed(self.rows[row].value)["state"])
        return None

    def unfinished_keys(self) -> tuple[str, ...]:
        return tuple(sorted(key.name for key in self._keys("unfinished")))

    def take(self, record: Record, *, sequence: int, time: str) -> set[StateKey]:
        """Update the table by the next ledger row; return the keys of the rows that it changes.

        sequence, time   number of the ledger row, and its time in ISO 8601
        """
        changes = self._changes(record, sequence=sequence, month=time[:7])
        changes[_SEAL] = {}
        for key, content in changes.items():
            value = None if content is None else StateValue(sequence, canonical(content))
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
            if self._digests is not None:
                self._digests.put(key, value)
            self._populations.pop(key.population, None)
        return set(changes)

    def _changes(
        self, record: Record, *, sequence: int, month: str
    ) -> dict[StateKey, dict[str, Any] | None]:
        """Return, by key, the new contents of the rows that a ledger row changes; None for a row
        that it removes."""
        event, population, release = record.event, record.population, record.key or ""
        changes: dict[StateKey, dict[str, Any] | None] = {}
        sums, account = self.population(population), StateKey("population", population)
        unfinished = StateKey("unfinished", population, release)
        if event == "account":
            changes[account] = dict(vars(Population(opened=sequence, facts=dict(record.facts))))
        elif event == "source":
            changes[StateKey("source", population, record.source or "")] = {}
        elif event in ("reserve", "interrupted"):
            changes[unfinished] = {"state": "reserved" if event == "reserve" else event}
        elif event in ("settled", "dead"):
            changes[unfinished] = None
        if event == "raise" and sums is not None:
            changes[account] = dict(
                vars(replace(sums, facts=facts_with_new_limits(sums.facts, record.facts)))
            )
        if event == "windows" and sums is not None:
            changes[account] = dict(vars(sums.with_windows(record)))
        # A row that was taken out and looked like no charge counts as none.
        if event in CHARGING and sums is not None and record.kind is not None:
            changes[account] = dict(vars(sums.with_charge(record, month=month)))
            for name in blocks_of(record.facts) if sums.has_windows else ():
                block = self._own_block(population, name)
                charged = block.with_charge(record.nano_epsilon, delta_of(record.facts))
                changes[StateKey("block", population, name)] = dict(vars(charged))
        return changes


def facts_with_new_limits(
    facts: Mapping[str, str], changed: Mapping[str, str], *, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the facts of an account with ``changed`` in place of all its limits.

    also   names of further facts that are left out unless ``changed`` has them
    """
    replaced = (*LIMITS, *also)
    return {**{name: text for name, text in facts.items() if name not in replaced}, **changed}


Sums = TypeVar("Sums", Population, Block)


def _read(kind: type[Sums], text: str) -> Sums:
    try:
        return kind(**_parsed(text))
    except TypeError:
        raise Damaged(
            "A row of the table `state` in the ledger has other fields than this program writes: "
            "`dp-pipeline budget restore --reason …` computes it anew"
        ) from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        raise Damaged(
            "A row of the table `state` in the ledger cannot be parsed: `dp-pipeline budget "
            "restore --reason …` computes it anew"
        ) from None
