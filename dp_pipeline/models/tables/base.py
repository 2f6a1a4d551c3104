"""TableModel: what every model that releases a synthetic table has in common.

Families of a Bayesian network: a child and its parents, and which of them a table can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any, ClassVar

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer, names
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.base import Model
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable

MOST_ESTIMATED_ROWS = 2_000_000
"""At a tiny ε an estimate of the number of rows is noise."""

MOST_CLIQUE = 1 << 16
"""Cells of a clique that holds attributes of constraints."""

BYTES_A_CELL = 8 * 6
"""A table's counts, its noise, its fit and what fitting needs beside it."""


def clique_cells(default: int) -> Any:
    """The parameter that bounds the cells of one measured table or clique."""
    return integer(default, at_least=4, at_most=1 << 24, measuring=True)


@dataclass(frozen=True)
class TableModel(Model):
    """Public parameters of a model of a table of discrete attributes.

    attributes       discrete attributes; all when empty
    synthetic_rows   rows to draw; a noisy estimate of their number when None (at most 2,000,000)

    keeps_constraints   whether every row that it draws holds what the domain's constraints say
    """

    keeps_constraints: ClassVar[bool] = False

    attributes: tuple[str, ...] = names()
    synthetic_rows: int | None = integer(None, at_least=0, at_most=10**9)

    def chosen(self, domain: Domain) -> tuple[str, ...]:
        """The attributes to model, in declared order where none is named."""
        return self.attributes or domain.discrete

    def modelled(self, domain: Domain) -> tuple[str, ...]:
        """Those of them that are measured: of two that say the same in other words, by a
        constraint, the first; ``with_twins`` puts the other one back.
        """
        twins = {one.name for one in self._zeros(domain).without_twins()[1]}
        return tuple(name for name in self.chosen(domain) if name not in twins)

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Which cells over the attributes that are measured are empty, by constraints."""
        return self._zeros(domain).without_twins()[0]

    def _zeros(self, domain: Domain) -> StructuralZeros:
        return StructuralZeros(domain.allowed(self.chosen(domain)))

    def released_table(
        self,
        domain: Domain,
        rng: np.random.Generator,
        codes: IntArray,
        measured: tuple[NoisyMarginal, ...],
        cliques: tuple[Names, ...],
        links: tuple[tuple[int, int], ...] = (),
        *,
        groupings: Mapping[str, Grouping] | None = None,
    ) -> SyntheticTable:
        """What is released: drawn codes of the ``modelled`` attributes, and of their twins."""
        names, seed, groups = self.modelled(domain), int(rng.integers(1 << 62)), groupings or {}
        table = SyntheticTable(names, codes, measured, cliques, links, domain, seed, groups)
        return self.with_twins(table)

    def with_twins(self, table: SyntheticTable) -> SyntheticTable:
        """The table with the attributes that were not measured, each decided by another one."""
        twins = self._zeros(table.domain).without_twins()[1]
        if not twins:
            return table
        columns = dict(zip(table.attributes, table.codes.T, strict=True))
        cliques, links = list(table.cliques), list(table.links)
        for one in twins:
            other = columns[one.other]
            columns[one.name] = one.levels.astype(other.dtype)[other]
            above = next(at for at, clique in enumerate(cliques) if one.other in clique)
            links.append((above, len(cliques)))
            cliques.append((one.other, one.name))
        names = self.chosen(table.domain)
        codes = np.stack([columns[name] for name in names]).T
        return replace(
            table, attributes=names, codes=codes, cliques=tuple(cliques), links=tuple(links)
        )

    def check(self, domain: Domain) -> None:
        """DeclarationError unless there are attributes with cells, each once, and every one of
        them fits into a clique by itself; and unless it keeps the constraints, where there are any.
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
        zeros = self._zeros(domain)
        if zeros:
            self._check_constraints(domain, zeros)

    def _check_constraints(self, domain: Domain, zeros: StructuralZeros) -> None:
        model, names = type(self).__name__, self.chosen(domain)
        if not self.keeps_constraints:
            raise DeclarationError(
                f"{model}: expected no `constraints`, which its rows might break, got "
                f"{len(domain.constraints)}: one_shot keeps them, as does every model of a tree"
            )
        sizes = dict(zip(names, domain.shape(names), strict=True))
        if zeros.most_cells(sizes) > MOST_CLIQUE:
            raise DeclarationError(
                f"{model}: expected `constraints` that fit cliques of at most {MOST_CLIQUE} cells "
                f"together, got one of {zeros.most_cells(sizes)}"
            )
        if zeros.leave_nothing(sizes):
            raise DeclarationError(
                f"{model}: expected `constraints` that some row can keep, got some that contradict "
                "each other"
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


Sizes = Mapping[str, int]
"""Attribute → number of its cells."""

_DRAWS = 4
"""Draws for every family that is wanted: some are drawn twice."""


@dataclass(frozen=True)
class Family:
    """One attribute of a network and those that it is drawn from.

    parents   in declared order; none for an attribute that is drawn by itself
    """

    child: str
    parents: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The child, then its parents: the axes of the family's table."""
        return (self.child, *self.parents)


def maximal_sets(sizes: Sizes, cells: int) -> Iterator[tuple[str, ...]]:
    """Every set of attributes with at most ``cells`` cells together to which none can be added,
    in the order of ``sizes``.

    The next one is found without a search: attributes are taken from the largest to the
    smallest, so a set that leaves one out can be completed exactly when everything that is
    still to come would, together with it, pass ``cells``.
    Source: PrivBayes (TODS 2017), Algorithm 5, which builds all sets at once.

    >>> list(maximal_sets({"a": 2, "b": 3, "c": 2}, 6))
    [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    order = sorted(sizes, key=lambda name: -sizes[name])
    # rest[i]: cells of everything from the i-th attribute on.
    rest = [prod(sizes[name] for name in order[at:]) for at in range(len(order) + 1)]

    def sets(at: int, taken: tuple[str, ...], held: int, left_out: int) -> Iterator[set[str]]:
        if left_out and held * rest[at] * left_out <= cells:
            return
        if at == len(order):
            yield set(taken)
            return
        size = sizes[order[at]]
        if held * size <= cells:
            yield from sets(at + 1, (*taken, order[at]), held * size, left_out)
        yield from sets(at + 1, taken, held, size)

    for one in sets(0, (), 1, 0):
        yield tuple(name for name in sizes if name in one)


def drawn_set(sizes: Sizes, cells: int, rng: np.random.Generator) -> tuple[str, ...]:
    """One such set: the attributes in random order, each taken if it still fits."""
    names = list(sizes)
    taken, held = set(), 1
    for at in rng.permutation(len(names)).tolist():
        if held * sizes[names[at]] <= cells:
            taken.add(names[at])
            held *= sizes[names[at]]
    return tuple(name for name in names if name in taken)


def candidate_families(
    sizes: Sizes,
    placed: Sequence[str],
    *,
    cells: int,
    most: int,
    rng: np.random.Generator,
) -> tuple[Family, ...]:
    """What may come next: children not ``placed`` yet, with a maximal set of placed parents.

    sizes    of all attributes, in declared order
    cells    most that a family's table may have
    most     families to give: all where there are no more, else random ones, every child alike

    Without a family that has a parent there is none. Nothing here depends on rows.
    """
    before = {name: size for name, size in sizes.items() if name in placed}
    fits = cells // min(before.values())
    children = [name for name, size in sizes.items() if name not in before and size <= fits]
    every = (
        Family(child, parents)
        for child in children
        for parents in maximal_sets(before, cells // sizes[child])
    )
    few = tuple(islice(every, most + 1))
    if len(few) <= most:
        return few
    found: dict[Family, None] = {}
    for _ in range(_DRAWS * most):
        child = children[int(rng.integers(len(children)))]
        found[Family(child, drawn_set(before, cells // sizes[child], rng))] = None
        if len(found) == most:
            break
    return tuple(found)


def covering_sets(families: Sequence[Family]) -> tuple[tuple[str, ...], ...]:
    """Attributes of the families whose table no other family's table holds, in their order.

    The tables of the others are sums of these: PrivBayes measures d − k tables for a network
    of degree k over d binary attributes (TODS 2017, Algorithm 1).

    >>> covering_sets([Family("a"), Family("b", ("a",)), Family("c", ("a",))])
    (('b', 'a'), ('c', 'a'))
    """
    sets = [frozenset(one.attributes) for one in families]
    # A child is in no earlier family: only a later one can hold all attributes of one.
    kept = [not any(one < other for other in sets[at + 1 :]) for at, one in enumerate(sets)]
    return tuple(one.attributes for one, keep in zip(families, kept, strict=True) if keep)
