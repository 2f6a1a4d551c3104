"""Many exact marginals of one table of codes, each row read as few times as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dp_pipeline.raw.counters.mixed_radix import Codes, contingency_table
from dp_pipeline.raw.counters.super_columns import count_plan, plan
from dp_pipeline.schema.encoding import IntArray

Names = tuple[str, ...]


def exact_marginals(
    codes: Codes, sizes: Mapping[str, int], marginals: Sequence[Names], *, rows: int
) -> list[IntArray]:
    """One int64 table a marginal, in the order asked and with its axes in the order asked.

    codes      attribute → codes (rows,), each below the attribute's size
    marginals  names all different inside one marginal; () is the number of rows, shape ()

    Marginals over the same attributes in another order are counted once.
    """
    wanted = {tuple(sorted(names)) for names in marginals if names}
    small = {names for names in wanted if len(names) <= 2}
    fused = plan(sizes, small, rows=rows)
    # Fusing pays when pairs of super-columns are fewer than the tables that they hold.
    tables = count_plan(fused, codes, rows=rows) if len(fused.tables) < len(small) else {}
    for names in wanted:
        if names not in tables and names[::-1] not in tables:
            tables[names] = contingency_table(codes, sizes, names, rows=rows)
    by_set = {frozenset(names): (names, table) for names, table in tables.items()}
    return [
        _turned(*by_set[frozenset(names)], names) if names else np.array(rows, dtype=np.int64)
        for names in marginals
    ]


def _turned(stored: Names, table: IntArray, asked: Names) -> IntArray:
    """A copy with its axes in the order asked: two answers never share memory."""
    return table.transpose([stored.index(name) for name in asked]).copy(order="C")
