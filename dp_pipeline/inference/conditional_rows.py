"""Rows drawn from a junction tree where the codes of some attributes are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.consistency import ratio, spread
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.results.measurement import marginal_of

CELLS_A_BATCH = 1 << 22
"""Most cells of the largest clique, times rows, that are held in memory together."""

GOLDEN_RATIO = (5**0.5 - 1) / 2
"""The step whose multiples, modulo 1, are spread the most evenly (Weyl's sequence)."""


@dataclass
class _Factor:
    """The weights of a clique's cells for each row (rows, *sizes), over those of its attributes
    that have no code yet."""

    table: FloatArray
    names: Names

    def condition_on(self, codes: Mapping[str, IntArray]) -> _Factor:
        fixed = [name for name in self.names if name in codes]
        free = tuple(name for name in self.names if name not in codes)
        axes = [1 + self.names.index(name) for name in (*fixed, *free)]
        table = self.table.transpose([0, *axes])
        if fixed:
            rows = np.arange(len(table))
            table = table[(rows, *(codes[name] for name in fixed))]
        return _Factor(table, free)


def sample_conditionally(
    tree: JunctionTree,
    tables: Mapping[Names, FloatArray],
    evidence: Mapping[str, IntArray],
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """Return attribute → random codes (n,) of n rows, for each attribute of the tree without given
    codes.

    tree       tree whose cliques have all attributes
    tables     clique → cells ≥ 0 of any total; they agree on what cliques share
    evidence   attribute → its codes (n,), at least one attribute

    Where the given codes leave no cell of a clique, all its cells are equally likely.

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> tables = {("a", "b"): np.eye(2), ("b", "c"): np.array([[0.0, 1.0], [1.0, 0.0]])}
    >>> rng = np.random.default_rng(0)
    >>> codes = sample_conditionally(tree, tables, {"c": np.array([0, 1])}, rng)
    >>> codes["a"].tolist(), codes["b"].tolist()
    ([1, 0], [1, 0])
    """
    factors, fixed = {}, set[str]()
    for index, clique in enumerate(tree.cliques):
        table = np.asarray(tables[clique], dtype=np.float64)
        new = tuple(axis for axis, name in enumerate(clique) if name not in fixed)
        factors[index] = ratio(table, table.sum(axis=new, keepdims=True))
        fixed |= {*clique}
    rows = len(next(iter(evidence.values())))
    step = max(1, CELLS_A_BATCH // max(table.size for table in factors.values()))
    # Whoever draws for each attribute goes by this order, which no hash may decide.
    columns = {name: np.zeros(rows, dtype=np.int64) for name in sorted(fixed - {*evidence})}
    for start in range(0, rows, step):
        part = slice(start, start + step)
        batch = _sample_batch(
            tree, factors, {name: codes[part] for name, codes in evidence.items()}, rng
        )
        for name, codes in columns.items():
            codes[part] = batch[name]
    return columns


def _sample_batch(
    tree: JunctionTree,
    conditionals: Mapping[int, FloatArray],
    evidence: Mapping[str, IntArray],
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """Return attribute → codes of a batch of rows, those of ``evidence`` included.

    conditionals   position of a clique → probabilities given its separator
    """
    rows = len(next(iter(evidence.values())))
    factors = {}
    for index, table in conditionals.items():
        factor = _Factor(table[None], tree.cliques[index]).condition_on(evidence)
        weights = np.broadcast_to(factor.table, (rows, *factor.table.shape[1:]))
        factors[index] = _Factor(weights, factor.names)
    for parent, child in reversed(tree.links):
        above, below = factors[parent], factors[child]
        # The first axis, of rows, has no name.
        shared = ("", *(name for name in above.names if name in below.names))
        message = marginal_of(below.table, ("", *below.names), shared)
        weights = above.table * spread(message, shared, ("", *above.names))
        factors[parent] = _Factor(weights, above.names)
    codes = dict(evidence)
    for index, clique in enumerate(tree.cliques):
        factor = factors[index].condition_on(codes)
        if factor.names:
            alike = sorted(codes, key=lambda name: name in clique)
            context = [codes[name] for name in alike]
            cells = _draw_cells(factor.table.reshape(rows, -1), context, rng)
            levels = np.unravel_index(cells, factor.table.shape[1:])
            codes |= dict(zip(factor.names, levels, strict=True))
    return codes


def _draw_cells(
    weights: FloatArray, context: Sequence[IntArray], rng: np.random.Generator
) -> IntArray:
    """Return a random cell for each row (n,) by the row's weights (n, cells); where all of them are
    0, cells are equally likely.

    context   codes (n,) that rows of like weights share, the most important last

    Such rows take evenly spread quantiles in random order, so that the numbers of their cells are
    nearly the expected ones: independent draws would add an error of sampling.
    """
    sums = np.cumsum(weights, axis=1)
    is_empty = sums[:, -1] <= 0
    sums[is_empty] = np.arange(1, sums.shape[1] + 1)
    quantiles = np.empty(len(sums))
    order = np.lexsort((rng.random(len(sums)), *context))
    quantiles[order] = (rng.random() + GOLDEN_RATIO * np.arange(len(sums))) % 1
    is_below = sums <= quantiles[:, None] * sums[:, -1:]
    return np.asarray(is_below.sum(axis=1), dtype=np.int64)
