"""Flipped bits in the pages of a small ledger, and what passes afterwards that must not."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

from dp_pipeline.config.errors import PipelineError
from dp_pipeline.ledger import DeadRelease, Ledger
from dp_pipeline_tests.ledger.population import account, charge, release

PAGE = 512
"""Bytes of a page: small, so that a few rows fill several and the trees have branches."""
SOURCE = "csv:/secret/rides.csv"


class SmallLedger:
    """One account with 3.8 of 4 spent, and a benchmark; releases settled, dead and unfinished.

    ``trips`` holds a source. A release without any ε is there. The file has pages of 512 bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ledger"
        self.ledger = ledger = Ledger(self.folder)
        ledger.open_account(account(ceiling="4"), sources=[SOURCE])
        ledger.open_account(account("bench", ceiling=None, purpose="benchmark"))
        for n in range(17):
            release(ledger, charge(f"settled {n}", epsilon="0.2"), "0.2")
        with ledger.reserve(charge("dead", epsilon="0.2")) as reservation:
            reservation.die("lost")
        release(ledger, charge("unfinished", epsilon="0.2"))
        release(ledger, charge("free", epsilon="0"))
        connection = sqlite3.connect(self.path, isolation_level=None)
        for statement in ("journal_mode = DELETE", f"page_size = {PAGE}"):
            connection.execute(f"PRAGMA {statement}")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        ledger.verify()
        self.good = self.path.read_bytes()
        self.head = self.folder.with_name("ledger.head")
        self.good_head = self.head.read_bytes()

    @property
    def path(self) -> Path:
        return self.folder / "ledger.sqlite"

    def flip(self, byte: int, bit: int) -> None:
        """The good ledger again, but for one bit."""
        damaged = bytearray(self.good)
        damaged[byte] ^= 1 << bit
        for leftover in self.folder.glob("ledger.sqlite-*"):
            leftover.unlink()
        self.path.write_bytes(damaged)
        self.head.write_bytes(self.good_head)

    def passed(self) -> list[str]:
        """What passes that must not: each a name of a promise that is broken; none is good."""
        matches = []
        for name, ask in self._attacks().items():
            try:
                if ask():
                    matches.append(name)
            except (PipelineError, DeadRelease):
                continue
        return matches

    def _attacks(self) -> dict[str, Callable[[], bool]]:
        ledger = self.ledger
        settled, dead = charge("settled 3", epsilon="0.2"), charge("dead", epsilon="0.2")
        unfinished = charge("unfinished", epsilon="0.2")

        def claims() -> bool:
            ledger.claim_source("bench", SOURCE)
            return True

        def public() -> bool:
            ledger.require_claimable("bench", SOURCE)
            return True

        def overspends() -> bool:
            return release(ledger, charge("more", epsilon="0.5")) == "new"

        return {
            "balance": lambda: ledger.balance("trips").spent != Fraction(38, 10),
            "not-dp": lambda: len(ledger.not_dp_releases("trips")) != 1,
            "public": public,
            "settled is lost": lambda: ledger.state(settled.key) != "settled",
            "dead is lost": lambda: ledger.state(dead.key) != "dead",
            "unfinished is lost": lambda: ledger.state(unfinished.key) != "reserved",
            "history": lambda: len(ledger.history(settled.key)[1].spends) != 1,
            "overspent": overspends,
            "claimed": claims,
            "settled is drawn again": lambda: release(ledger, settled) != "settled",
            "dead is drawn again": lambda: release(ledger, dead) != "dead",
        }


def flips(small: SmallLedger, places: Iterable[tuple[int, int]]) -> Counter[str]:
    """How many flips there were, how many ``verify`` saw, and what passed that must not have."""
    count: Counter[str] = Counter()
    for byte, bit in places:
        small.flip(byte, bit)
        count["flips"] += 1
        try:
            small.ledger.verify()
        except PipelineError:
            count["seen by verify"] += 1
        count.update(f"PASSED: {name}" for name in small.passed())
    return count
