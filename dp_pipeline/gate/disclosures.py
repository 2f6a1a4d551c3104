"""What published methods ask of the rows without noise: no ε holds for a release that does."""

from __future__ import annotations

from collections.abc import Callable

from dp_pipeline.gate.admissible import require_axes
from dp_pipeline.gate.counts import MOST_GRID_CELLS, Counter, Disclosing, Sealed
from dp_pipeline.gate.door import Door
from dp_pipeline.gate.question import Asked
from dp_pipeline.release.accountant import Disclosure
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


class Disclosures(Door):
    """Exact answers about benchmark rows, each recorded before it is looked up.

    BoundaryViolation before any look on data to be released. The accountant keeps
    every disclosure, so the release is ``not-dp`` whatever else it spends.
    """

    def disclose_bounds(self, columns: tuple[str, ...], *, reason: str) -> IntArray:
        """Smallest and largest fixed-point coordinate of every column, (2, d); the declared box
        where there is nobody.
        """
        require_axes(self.domain, columns)
        what = f"smallest and largest of {', '.join(columns)}"
        asked = ("bounds", columns)
        return self._disclosed(what, asked, reason, lambda counter: counter.bounds(columns))

    def disclose_records(
        self, columns: tuple[str, ...], many: int, salt: int, *, reason: str
    ) -> IntArray:
        """Fixed-point coordinates of ``many`` rows drawn by a hash of their content, (many, d);
        the middle of the box where there are fewer.

        salt   public, 0 … 2^63 − 1
        """
        require_axes(self.domain, columns)
        if not (1 <= many <= MOST_GRID_CELLS and 0 <= salt < 1 << 63):
            raise BoundaryViolation(
                f"records: expected 1 to {MOST_GRID_CELLS} of them and a salt in 0..2^63 − 1"
            )
        what = f"{many} records of {', '.join(columns)}, salt {salt}"
        asked = ("records", columns, many, salt)
        return self._disclosed(
            what, asked, reason, lambda counter: counter.records(columns, many, salt)
        )

    def _disclosed(
        self, what: str, asked: Asked, reason: str, look: Callable[[Disclosing], Sealed]
    ) -> IntArray:
        if not self._benchmark:
            raise BoundaryViolation(f"{what}: expected benchmark rows, got rows to be protected")
        self.accountant.disclose(Disclosure(what, reason))

        def exact(counter: Counter) -> IntArray:
            if not isinstance(counter, Disclosing):
                raise BoundaryViolation(f"{what}: expected an engine that discloses, got another")
            return look(counter).open_at_the_gate()

        return self._without_noise(f"disclosed without noise: {what}", asked, exact)
