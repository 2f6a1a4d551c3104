"""Growing a Bayesian network, one attribute and its parents at a time, by what depends most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import Score
from dp_pipeline.models.network_families import Family, Sizes, candidate_families

ScoreOf = Callable[[Family], Score]


def grown_network(
    curator: Curator,
    sizes: Sizes,
    score_of: ScoreOf,
    *,
    cells: int,
    candidates: int,
    step_price: Fraction,
    rng: np.random.Generator,
) -> tuple[tuple[Family, ...], int]:
    """Every attribute's family, parents before children, and how many steps were paid for.

    sizes        of the attributes, in declared order
    score_of     the score of a family's table
    cells        most that a family's table has
    candidates   most families to choose from at a step
    step_price   ε of one step, at most one fewer than there are attributes

    Where one family is on offer, or none, nothing is asked; without an offer some attribute that
    is left is drawn by itself. Which one, the first attribute and the sample of families are
    random, and depend on declared sizes and on what was chosen before.
    """
    families = [Family(_any_of(list(sizes), rng))]
    paid = 0
    while len(families) < len(sizes):
        placed = [one.child for one in families]
        found = candidate_families(sizes, placed, cells=cells, most=candidates, rng=rng)
        if len(found) > 1:
            paid += 1
            by_table = {one.attributes: one for one in found}
            scores = {table: score_of(one) for table, one in by_table.items()}
            what = f"network, step {len(placed)}"
            families.append(by_table[curator.choose(what, scores, epsilon=step_price)])
        else:
            left = [name for name in sizes if name not in placed]
            families.append(found[0] if found else Family(_any_of(left, rng)))
    return tuple(families), paid


def _any_of(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]
