"""Fewer and bigger cliques where that lowers the error of their noisy tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dp_pipeline.release.junction_tree import JunctionTree, cell_count


def expected_error(cells: Sequence[int], epsilon: Fraction) -> Fraction:
    """Expected squared error of the tables of m cliques that share ε: 2m²/ε² · Σ_C |Ω_C|.

    Each of |Ω_C| cells has Laplace noise of scale m/ε, of variance 2(m/ε)² (Zhang et al., J.
    Computer Research and Development 55(12), 2018, Equation 13). The paper's example prints m²
    times the cells of the *whole* domain, without the 2/ε² and the sum over cliques: 2304 → 1296
    for this 1472 → 936, the same direction.

    >>> expected_error([12, 4, 18, 12], Fraction(1)), expected_error([12, 4, 36], Fraction(1))
    (Fraction(1472, 1), Fraction(936, 1))
    """
    return 2 * len(cells) ** 2 * sum(cells) / epsilon**2


def bigger_cliques(
    tree: JunctionTree, sizes: Mapping[str, int], *, most_cells: int
) -> JunctionTree:
    """Merge linked cliques as long as that lowers :func:`expected_error`, the best pair first.

    sizes        cells of every attribute
    most_cells   of a merged clique; cliques that have more already stay as they are

    Names of a merged clique are in the order of ``sizes``. A contracted link leaves a tree with
    running intersection. ε is the same before and after, so it decides nothing. (Bigger-Clique:
    the same paper, Algorithm 5; its maximum-cardinality labelling adds no edge to a chordal
    graph, so the step that is taken is the merger that its example shows.)

    >>> tree = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
    >>> bigger_cliques(tree, {"a": 2, "b": 2, "c": 2}, most_cells=8).cliques
    (('a', 'b', 'c'),)
    """
    while tree.links:
        growth, link = min((_growth(tree, one, sizes, most_cells), one) for one in tree.links)
        number, cells = len(tree.cliques), sum(tree.cells(sizes))
        if (number - 1) ** 2 * (cells + growth) >= number**2 * cells:
            break
        others = [clique for at, clique in enumerate(tree.cliques) if at not in link]
        tree = JunctionTree.of([*others, _union(tree, link, sizes)], sizes)
    return tree


def _growth(
    tree: JunctionTree, link: tuple[int, int], sizes: Mapping[str, int], most_cells: int
) -> float:
    """Cells that merging a link's cliques adds; infinite above ``most_cells``."""
    merged = cell_count(_union(tree, link, sizes), sizes)
    if merged > most_cells:
        return math.inf
    return merged - sum(cell_count(tree.cliques[at], sizes) for at in link)


def _union(tree: JunctionTree, link: tuple[int, int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    members = {name for at in link for name in tree.cliques[at]}
    return tuple(name for name in sizes if name in members)
