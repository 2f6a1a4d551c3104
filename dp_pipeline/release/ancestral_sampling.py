"""Rows of a Bayesian network: every attribute drawn from its parents, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.release.clique_join import rounded_counts
from dp_pipeline.schema.encoding import FloatArray, IntArray


@dataclass(frozen=True)
class Conditional:
    """How one attribute is drawn from those before it.

    parents   drawn before it; () for an attribute that is drawn by itself
    table     float64 ≥ 0 of any total, one axis a parent and the child's as the last
    """

    child: str
    parents: tuple[str, ...]
    table: FloatArray


def sample_network(
    network: Sequence[Conditional],
    rows: int,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
) -> IntArray:
    """Synthetic codes (rows, attributes), columns in the order of ``sizes``, rows in no order.

    network   every attribute of ``sizes`` once, after its parents

    In every cell of its parents a child is ∝ that slice of its table; a slice of nothing is
    replaced by the table's marginal over the child, that by equal levels. Numbers of rows are
    their expectations, rounded up or down without bias (``clique_join.rounded_counts``).
    Source: PrivBayes (TODS 2017), §3, which draws every row by itself.

    >>> coin = Conditional("a", (), np.array([1.0, 1.0]))
    >>> same = Conditional("b", ("a",), np.eye(2))
    >>> codes = sample_network([coin, same], 6, np.random.default_rng(0), {"a": 2, "b": 2})
    >>> codes.sum(axis=0).tolist(), bool((codes[:, 0] == codes[:, 1]).all())
    ([3, 3], True)
    """
    columns: dict[str, IntArray] = {}
    for one in network:
        keys = np.zeros(rows, dtype=np.int64)
        for name in one.parents:
            keys = keys * sizes[name] + columns[name]
        columns[one.child] = _drawn(one.table.reshape(-1, sizes[one.child]), keys, rng)
    return np.stack([columns[name] for name in sizes], axis=1)


def _drawn(table: FloatArray, keys: IntArray, rng: np.random.Generator) -> IntArray:
    """A level for every row; ``keys`` says the row of ``table`` (groups, levels)."""
    counts = rounded_counts(table, np.bincount(keys, minlength=len(table)), rng)
    # Random inside its group: a level depends on nothing but the parents.
    shuffled = rng.permutation(len(keys))
    grouped = shuffled[np.argsort(keys[shuffled], kind="stable")]
    levels = np.empty(len(keys), dtype=np.int64)
    levels[grouped] = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), counts.ravel())
    return levels


def overlap_links(sets: Sequence[tuple[str, ...]]) -> tuple[tuple[int, int], ...]:
    """(parent, child) places of a tree over the sets, each below the earlier one that it shares
    most attributes with; the first of several.

    >>> overlap_links((("b", "a"), ("c", "b"), ("d", "b", "a")))
    ((0, 1), (0, 2))
    """
    shared = [[len({*one} & {*other}) for other in sets[:at]] for at, one in enumerate(sets)]
    return tuple((one.index(max(one)), at) for at, one in enumerate(shared) if at)
