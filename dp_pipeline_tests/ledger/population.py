"""Declarations, charges and child processes for the tests of the ledger."""

import hashlib
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.amounts import nano_epsilon
from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.ledger import Account, Charge, Entry, Ledger, SpendRow
from dp_pipeline.ledger.audit import Audit

WHY = {"reason": "agreed", "by": "ana"}
NANO = Fraction(1, 10**9)


def require_refused(error: type[Exception], words: str, *queries: Callable[[], object]) -> None:
    """Fail unless every query is refused with these words, in one line."""
    for query in queries:
        with pytest.raises(error, match=words) as refusal:
            query()
        assert "\n" not in str(refusal.value)


def account(
    population: str = "trips", *, ceiling: str | None = "1", purpose: str = "release", **other: Any
) -> Account:
    exact = None if ceiling is None else Fraction(ceiling)
    declared = {"unit": "one row", "relation": "add_remove", **other}
    return Account(population=population, purpose=purpose, ceiling=exact, **declared)


def weekly(*, each: str | None = "1", ceiling: str | None = None, **other: Any) -> Account:
    """An account of rides by the week, which promises one week where nothing else is said."""
    declared = {"windows": "every week, UTC", "within": "window", "unit": "rows of a rider"}
    each_window = None if each is None else Fraction(each)
    return account("rides", ceiling=ceiling, each_window=each_window, **{**declared, **other})


def in_windows(name: object, *blocks: str, epsilon: str = "0.1", **other: Any) -> Charge:
    """A charge to rides that names windows."""
    new_charge = charge(name, epsilon=epsilon, population="rides")
    return replace(new_charge, blocks=blocks, **other)


def charge(name: object = "a", *, epsilon: str = "0.1", population: str = "trips") -> Charge:
    return Charge(
        key=hashlib.sha256(str(name).encode()).hexdigest(),
        population=population,
        kind="dp" if Fraction(epsilon) else "not-dp",
        nano_epsilon=nano_epsilon(Fraction(epsilon)),
        what=f"{population}/grid {name}",
        facts={"model": "grid", "run id": "r1"},
    )


def spends(*epsilons: str) -> list[SpendRow]:
    return [SpendRow("cells", "laplace", Fraction(e), 1 / Fraction(e)) for e in epsilons]


def release(ledger: Ledger, new_charge: Charge, *epsilons: str) -> str:
    """Reserve and, if there is anything to settle, settle."""
    with ledger.reserve(new_charge) as reservation:
        if reservation.state != "settled" and (epsilons or new_charge.kind == "not-dp"):
            reservation.settle(spends(*epsilons))
        return reservation.state


def audit(*rows: Entry) -> None:
    """Audit rows one after the other; Damaged at the first that cannot be."""
    auditor = Audit()
    for row in rows:
        auditor.take(row)


def raw(folder: Path, *statements: str, checks: bool = True) -> None:
    """SQL behind the ledger's back; without ``checks`` the triggers go first."""
    connection = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
    try:
        if not checks:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


class Child:
    """A process of its own, and the lines it reported before it ended or was killed."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self._read, write = os.pipe()
        # fork: a hundred times faster to start, and the ledger promises to survive it.
        context = multiprocessing.get_context("fork")
        # daemon: a child that waits for a test that has failed must not outlive it.
        self.process: BaseProcess = context.Process(
            target=work, args=(write, *arguments), daemon=True
        )
        self.process.start()
        os.close(write)
        self._rest = b""

    def line(self) -> str:
        """Wait for one line; empty at the end."""
        while b"\n" not in self._rest:
            chunk = os.read(self._read, 65536)
            if not chunk:
                break
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def lines(self) -> list[str]:
        """Wait for the end and give all lines that were not asked for yet."""
        lines = list(iter(self.line, ""))
        os.close(self._read)
        self.process.join()
        return lines

    def kill(self) -> list[str]:
        self.process.kill()
        return self.lines()


def say(pipe: int, word: object) -> None:
    """One write, so that a kill never leaves half a line."""
    os.write(pipe, f"{word}\n".encode())


def die_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def attempt(pipe: int, place: Callable[[], Ledger], charge_of: Callable[[int], Charge], times: int):
    """Say how many of so many charges were let in."""
    ledger, accepted = place(), 0
    for n in range(times):
        with suppress(BudgetExceeded):
            release(ledger, charge_of(n))
            accepted += 1
    say(pipe, accepted)
