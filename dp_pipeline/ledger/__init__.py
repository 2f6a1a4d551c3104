"""The durable privacy ledger: what every population may spend, has spent, and on what.

It knows no rows, no models and no orchestration. A release is reserved here
*before* any row is read, and is never refunded:

>>> import tempfile
>>> from fractions import Fraction
>>> from pathlib import Path
>>> from dp_pipeline.ledger import Account, Charge, Ledger, SpendRow
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = Ledger(Path(folder.name) / "ledger")
>>> account = ledger.open_account(Account("trips", "one row", "add_remove", "release", Fraction(1)))
>>> charge = Charge("ab" * 32, "trips", "dp", 100_000_000, "trips/grid at ε=0.1", {})
>>> with ledger.reserve(charge) as reservation:
...     reservation.settle([SpendRow("cells", "laplace", Fraction(1, 10), Fraction(10))])
>>> ledger.balance("trips").remaining
Fraction(9, 10)
>>> with ledger.reserve(charge) as reservation:
...     reservation.state
'settled'
>>> folder.cleanup()
"""

from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.balance import Balance
from dp_pipeline.ledger.entries import (
    Charge,
    DeadRelease,
    Entry,
    ReservationOver,
    SpendRow,
    UnbalancedSpends,
)
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.ledger.reservation import Reservation

__all__ = [
    "Account",
    "Balance",
    "Charge",
    "DeadRelease",
    "Entry",
    "Ledger",
    "Reservation",
    "ReservationOver",
    "SpendRow",
    "UnbalancedSpends",
]
