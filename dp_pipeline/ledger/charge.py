"""A charge: what one release costs, and the spends it consists of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.ledger.words import require_line, require_text
from dp_pipeline.schema.currency import PURE, Currency
from dp_pipeline.schema.errors import DeclarationError

KINDS = ("dp", "not-dp")
LARGEST_CHARGE = 10**16
"""In nano-ε. Far above any ε that can be declared, and 900 of them still fit an SQL integer."""

_KEY = re.compile(r"[0-9a-f]{16,128}")


@dataclass(frozen=True)
class Charge:
    """One release, as the ledger sees it.

    key           release key: 16 to 128 lower-case hex digits, chosen by the caller
    lineage       whose account pays
    kind          "dp", or "not-dp" for a publication without any ε
    nano_epsilon  ⌈ε·10⁹⌉, or ⌈ρ·10⁹⌉ of an account that counts in ρ; 0 exactly if ``kind``
                  is "not-dp"
    what          the words for messages: "trips/dpqt_kmeans at ε=0.1"
    facts         whatever else is to be kept, all text: snapshot, parameters, run id, …
    currency      what ``nano_epsilon`` is counted in; that of the account, or it is refused

    Raises DeclarationError for anything else.

    >>> Charge("0f" * 32, "trips", "dp", 100_000_000, "trips/grid at ε=0.1", {}).nano_epsilon
    100000000
    """

    key: str
    lineage: str
    kind: str
    nano_epsilon: int
    what: str
    facts: Mapping[str, str]
    currency: Currency = PURE

    def __post_init__(self) -> None:
        require_line(self.what, of="what of a charge")
        require_line(self.lineage, of=f"lineage of {self.what}")
        require_key(self.key, of=f"key of {self.what}")
        self._require_cost()
        for name, text in self.facts.items():
            require_text(name, of=f"name of a fact of {self.what}")
            if not isinstance(text, str):
                raise DeclarationError(f"{self.what}: fact {name!r} must be text, got {text!r}")
        # A copy: what was reserved must not change with the caller's dictionary.
        object.__setattr__(self, "facts", dict(self.facts))

    def _require_cost(self) -> None:
        if self.kind not in KINDS:
            raise DeclarationError(f"{self.what}: kind is dp or not-dp, got {self.kind!r}")
        if type(self.nano_epsilon) is not int:
            raise DeclarationError(
                f"{self.what}: expected whole nano-ε as int, got {self.nano_epsilon!r}"
            )
        lowest, highest = (1, LARGEST_CHARGE) if self.kind == "dp" else (0, 0)
        if not lowest <= self.nano_epsilon <= highest:
            raise DeclarationError(
                f"{self.what}: a {self.kind} charge is {lowest} to {highest} nano-ε, "
                f"got {self.nano_epsilon}"
            )


@dataclass(frozen=True)
class SpendRow:
    """One draw of noise inside a release; a child row of its settlement.

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
                    f"spend {self.what!r}: {name} must be a Fraction of at least 0, got {value!r}"
                )


def require_key(key: str, *, of: str = "release key") -> None:
    """Refuse what is not a hex digest: a key names a file in ``locks/``.

    Raises DeclarationError.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise DeclarationError(f"{of}: expected 16 to 128 lower-case hex digits, got {key!r}")
