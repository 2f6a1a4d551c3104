"""TableModel: what every model that releases a synthetic table has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameters import integer, names

MOST_ESTIMATED_ROWS = 2_000_000
"""At a tiny ε an estimate of the number of rows is noise."""

BYTES_A_CELL = 8 * 6
"""A table's counts, its noise, its fit and what fitting needs beside it."""


def clique_cells(default: int) -> Any:
    """The parameter that bounds the cells of one measured table or clique."""
    return integer(default, at_least=4, at_most=1 << 24, measuring=True)


@dataclass(frozen=True)
class TableModel:
    """Public parameters of a model of a table of discrete attributes.

    attributes       discrete attributes; all when empty
    synthetic_rows   rows to draw; a noisy estimate of their number when None (at most 2,000,000)
    """

    attributes: tuple[str, ...] = names()
    synthetic_rows: int | None = integer(None, at_least=0, at_most=10**9)

    def chosen(self, domain: Domain) -> tuple[str, ...]:
        """The attributes to model, in declared order where none is named."""
        return self.attributes or domain.discrete

    def check(self, domain: Domain) -> None:
        """DeclarationError unless there are attributes with cells, each once, and every one of
        them fits into a clique by itself.
        """
        chosen, model = self.chosen(domain), type(self).__name__
        if not chosen:
            raise DeclarationError(f"{model}: expected attributes with cells, got none")
        if len(set(chosen)) != len(chosen):
            raise DeclarationError(f"{model}: expected each attribute once, got one twice")
        cap = getattr(self, "clique_cells", None)
        for name, size in zip(chosen, domain.shape(chosen), strict=True):
            if cap is not None and size > cap:
                raise DeclarationError(
                    f"{model}: expected cliques of at most {cap} cells, got {name} with {size}"
                )

    def most_cells(self, domain: Domain) -> int:
        """Most cells that the tables of this model can have together, the number of rows and the
        one-way tables included: known before it runs.
        """
        cap = getattr(self, "clique_cells", 0)
        sizes = domain.shape(self.chosen(domain))
        return 1 + sum(sizes) + sum(max(cap, size) for size in sizes)

    def rows_to_draw(self, estimate: float) -> int:
        """The declared number of synthetic rows, else the estimate as a whole number.

        >>> TableModel().rows_to_draw(1e30), TableModel(synthetic_rows=5).rows_to_draw(9.4)
        (2000000, 5)
        """
        if self.synthetic_rows is not None:
            return self.synthetic_rows
        return min(max(0, round(estimate)), MOST_ESTIMATED_ROWS)
