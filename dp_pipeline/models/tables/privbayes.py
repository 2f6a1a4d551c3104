"""PrivBayes: a Bayesian network of noisy tables, and rows drawn along it.

The network grows by one family, an attribute and its parents, at a time, by the strongest
dependence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import prod
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import choice, integer, share
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import FScore, Independence, MutualInformation, Score
from dp_pipeline.inference.clique_join import Conditional, overlap_links, sample_network
from dp_pipeline.inference.consistency import project_to_simplex
from dp_pipeline.inference.fitted_tree import estimate_rows
from dp_pipeline.models.base import PrivacyGuarantee, planning_units
from dp_pipeline.models.tables.base import Sizes, TableModel, clique_cells
from dp_pipeline.results.accountant import split
from dp_pipeline.results.measurement import marginal_of
from dp_pipeline.results.synthetic_table import SyntheticTable

DRAWS_A_FAMILY = 4  # most draws for every family of a sample, as some families are drawn twice


@dataclass(frozen=True)
class Family:
    """An attribute of a Bayesian network, with its parents.

    parents   in declared order; none for an attribute that is drawn by itself
    """

    child: str
    parents: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The child and then its parents, which are the axes of the family's table."""
        return (self.child, *self.parents)


def maximal_sets(sizes: Sizes, cells: int) -> Iterator[tuple[str, ...]]:
    """Yield every maximal set of attributes with at most ``cells`` cells together.

    Attributes are taken from the largest to the smallest, in the order of ``sizes``: a set without
    one of them can be completed exactly when all later ones would, together with it, exceed
    ``cells``, so the next set is found without a search. Source: PrivBayes (TODS 2017), Algorithm
    5, which builds all sets at once.

    >>> list(maximal_sets({"a": 2, "b": 3, "c": 2}, 6))
    [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    order = sorted(sizes, key=lambda name: -sizes[name])
    # cells_from[i]: cells of everything from the i-th attribute on.
    cells_from = [prod(sizes[name] for name in order[i:]) for i in range(len(order) + 1)]

    def sets(i: int, chosen: tuple[str, ...], size: int, left_out: int) -> Iterator[set[str]]:
        if left_out and size * cells_from[i] * left_out <= cells:
            return
        if i == len(order):
            yield set(chosen)
            return
        next_size = sizes[order[i]]
        if size * next_size <= cells:
            yield from sets(i + 1, (*chosen, order[i]), size * next_size, left_out)
        yield from sets(i + 1, chosen, size, next_size)

    for chosen in sets(0, (), 1, 0):
        yield tuple(name for name in sizes if name in chosen)


def random_maximal_set(sizes: Sizes, cells: int, rng: Generator) -> tuple[str, ...]:
    """Return a random maximal set of attributes with at most ``cells`` cells together.

    Attributes are tried in random order, so some sets are likelier than others.
    """
    names = list(sizes)
    chosen, size = set(), 1
    for i in rng.permutation(len(names)).tolist():
        if size * sizes[names[i]] <= cells:
            chosen.add(names[i])
            size *= sizes[names[i]]
    return tuple(name for name in names if name in chosen)


def candidate_families(
    sizes: Sizes, parents: Sequence[str], *, most_cells: int, most: int, rng: Generator
) -> tuple[Family, ...]:
    """Return the families that a network may add next: a new child with a maximal set of parents.

    sizes       number of levels of every attribute, in declared order
    parents     attributes that are in the network already, at least one
    most_cells  most cells of a family's table
    most        most families to return; if there are more, a random sample of at most so many, in
                which each draw takes every child with the same probability

    Families without a parent are left out. Nothing here depends on rows.
    """
    parent_sizes = {name: size for name, size in sizes.items() if name in parents}
    largest = most_cells // min(parent_sizes.values())
    children = [
        name for name, size in sizes.items() if name not in parent_sizes and size <= largest
    ]
    every_family = (
        Family(child, chosen)
        for child in children
        for chosen in maximal_sets(parent_sizes, most_cells // sizes[child])
    )
    families = tuple(islice(every_family, most + 1))
    if len(families) <= most:
        return families
    sample: dict[Family, None] = {}
    for _ in range(DRAWS_A_FAMILY * most):
        child = children[int(rng.integers(len(children)))]
        chosen = random_maximal_set(parent_sizes, most_cells // sizes[child], rng)
        sample[Family(child, chosen)] = None
        if len(sample) == most:
            break
    return tuple(sample)


def covering_sets(families: Sequence[Family]) -> tuple[tuple[str, ...], ...]:
    """Return the attribute sets of the families that are not part of another family's set.

    The other tables are sums of these: PrivBayes measures d − k tables for a network of degree k
    over d binary attributes (TODS 2017, Algorithm 1).

    >>> covering_sets([Family("a"), Family("b", ("a",)), Family("c", ("a",))])
    (('b', 'a'), ('c', 'a'))
    """
    sets = [frozenset(family.attributes) for family in families]
    # A child is in no earlier family: only a later one can hold all attributes of one.
    return tuple(
        family.attributes
        for i, family in enumerate(families)
        if not any(sets[i] < later for later in sets[i + 1 :])
    )


ScoreOf = Callable[[Family], Score]


def grow_network(
    curator: Curator,
    sizes: Sizes,
    score_of: ScoreOf,
    *,
    cells: int,
    candidates: int,
    step_price: Fraction,
    rng: Generator,
) -> tuple[tuple[Family, ...], int]:
    """Grow a network by private choices; return the family of every attribute, parents first, and
    the number of paid steps.

    sizes        number of levels of every attribute, in declared order
    score_of     function from a family to the score by which its table is chosen
    cells        most cells of a family's table
    candidates   most families to choose from at a step
    step_price   ε of one step, at most one fewer than there are attributes

    With at most one family on offer nothing is paid; without one, a remaining attribute is drawn by
    itself. That attribute, the first one and the sample of families are random, and depend on
    declared sizes and earlier choices alone.
    """
    families = [Family(_any_of(list(sizes), rng))]
    paid = 0
    while len(families) < len(sizes):
        parents = [family.child for family in families]
        offered = candidate_families(sizes, parents, most_cells=cells, most=candidates, rng=rng)
        if len(offered) > 1:
            paid += 1
            by_table = {family.attributes: family for family in offered}
            scores = {table: score_of(family) for table, family in by_table.items()}
            step = f"network, step {len(parents)}"
            families.append(by_table[curator.choose(step, scores, epsilon=step_price)])
        else:
            orphans = [name for name in sizes if name not in parents]
            families.append(offered[0] if offered else Family(_any_of(orphans, rng)))
    return tuple(families), paid


def _any_of(names: Sequence[str], rng: Generator) -> str:
    return names[int(rng.integers(len(names)))]


NETWORK_SEED = 2014
"""Seed of the network's random choices, the same for every release: ``rng`` depends on the
post-processing, which must not change what is measured."""


@dataclass(frozen=True)
class PrivBayes(TableModel):
    """A Bayesian network grown privately: each new attribute gets the parents that it depends on
    most.

    score             what a child depends on its parents by: ``R``; ``I``, mutual information, or
                      ``F``, of binary attributes, both on benchmarks alone, where one row is
                      replaced and the number of rows is public
    structure_share   β: share of ε that chooses the network
    usefulness        θ: rows of an average cell, in scales of its noise, at least
    candidates        most families (child and parents) to choose from at a step: where there
                      are more, a sample by a fixed seed, which depends on no row
    clique_cells      most cells of a table, however large ε is
    negatives         noisy tables are ``projected`` to the nearest one without negative cells,
                      or ``clipped`` at 0 as published
    nominal_rows      N, a declared constant; None pays 2 % of ε for a noisy one

    ε1 = β·ε pays for d − 1 steps of ε1/(d − 1), ε2 = ε − ε1 for the tables. The first attribute
    is drawn by a fixed seed. A step chooses a child X and a maximal set of parents Π by noisy
    max of n·R, R = ½‖P(X, Π) − P(X)P(Π)‖₁, of n·I or of n·F. A table over X and Π is useful where
    N/cells ≥ θ·m/ε2, m the number of tables. All attributes binary: the degree is the largest k
    at which m = d − k tables of 2^(k+1) cells are; else m = d, and Π is as large as that allows.
    An attribute that fits with no other one is drawn by itself. Where no choice is left no step
    is asked, and its share goes to the tables. A table that another one holds is not measured,
    as published for the first k attributes.

    *Proof.* A step is a noisy max of scores, each with its sensitivity (``gate.scores``: one
    row moves n·R by less than 2), and costs ε1/(d − 1). The families on offer are functions of
    declared sizes, N and earlier answers. One row is in one cell of each table: Δ1 = 1 under
    add/remove, times the distance. The tables share equally what N and the steps left, so the
    total is ε, exactly. Projection and sampling are post-processing. ∎

    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes" (SIGMOD 2014; TODS 2017),
    Algorithms 1, 2, 4 and 5. Its usefulness for neighbours that replace a row, at distance 2, is
    N·ε2/(2·d·cells) ≥ θ. Not here: generalised levels of an attribute as parents.
    """

    summary: ClassVar[str] = "a Bayesian network of noisy tables, and rows drawn along it"

    score: str = choice("R", "I", "F")
    structure_share: Fraction = share(Fraction(3, 10))
    usefulness: int = integer(4, at_least=1, at_most=10**6, measuring=True)
    candidates: int = integer(200, at_least=1, at_most=10**5, measuring=True)
    clique_cells: int = clique_cells(8192)
    negatives: str = choice("projected", "clipped", measuring=False)
    nominal_rows: int | None = integer(None, at_least=1, measuring=True)

    @property
    def needs_public_rows(self) -> bool:
        """Whether the model reads the exact number of rows: for every score but ``R``."""
        return self.score != "R"

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:  # noqa: ARG002
        """Return the guarantee of ε, on benchmarks alone if the number of rows must be public."""
        if not self.needs_public_rows:
            return PrivacyGuarantee("dp", epsilon)
        return PrivacyGuarantee("dp", epsilon, f"score {self.score} needs a public number of rows")

    def check(self, domain: Domain) -> None:
        super().check(domain)
        for name in self.chosen_attributes(domain) if self.score == "F" else ():
            if domain[name].size != 2:
                raise DeclarationError(
                    f"PrivBayes needs binary attributes for score F, but {name} has "
                    f"{domain[name].size} cells: choose another `score`"
                )

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy tables of a network, and rows drawn by ``rng`` along it."""
        names = self.chosen_attributes(curator.domain)
        sizes = dict(zip(names, curator.domain.shape(names), strict=True))
        public = curator.public_rows() if self.needs_public_rows else None
        nominal = public if self.nominal_rows is None else self.nominal_rows
        units, remaining = planning_units(curator, nominal, epsilon)
        step_price = remaining * self.structure_share / max(1, len(names) - 1)
        families, paid = grow_network(
            curator,
            sizes,
            lambda family: self._score_of(family, sizes, public),
            cells=self._useful_cells(sizes, units * float(remaining * (1 - self.structure_share))),
            candidates=self.candidates,
            step_price=step_price,
            rng=np.random.default_rng(NETWORK_SEED),
        )
        sets = covering_sets(families)
        shares = split(remaining - paid * step_price, [1] * len(sets))
        measured = curator.tabulate(dict(zip(sets, shares, strict=True)))
        rows = estimate_rows(measured)
        if self.negatives == "clipped":
            tables = [np.maximum(marginal.table, 0).astype(np.float64) for marginal in measured]
        else:
            total = float(max(1, rows))
            tables = [project_to_simplex(marginal.table, total=total) for marginal in measured]
        network = [_conditional(family, sets, tables) for family in families]
        codes = sample_network(network, self.rows_to_draw(rows), rng, sizes)
        return self.released_table(curator.domain, rng, codes, measured, sets, overlap_links(sets))

    def _useful_cells(self, sizes: Sizes, signal: float) -> int:
        """Return the most cells of a table whose rows stand out from noise.

        signal   N·ε2 as in the class, N in protected units
        """
        d = len(sizes)
        if max(sizes.values()) > 2:
            return int(min(self.clique_cells, signal / (self.usefulness * d)))
        useful = [
            degree
            for degree in range(min(d, self.clique_cells.bit_length() - 1))
            if signal >= self.usefulness * (d - degree) * (2 << degree)
        ]
        return 2 << max(useful, default=0)

    def _score_of(self, family: Family, sizes: Sizes, public: int | None) -> Score:
        if public is None:
            return Independence()
        if self.score == "F":
            return FScore()
        levels = sizes[family.child], prod(sizes[name] for name in family.parents)
        return MutualInformation(public, binary=min(levels) <= 2)


def _conditional(
    family: Family, sets: Sequence[tuple[str, ...]], tables: Sequence[FloatArray]
) -> Conditional:
    names = (*family.parents, family.child)
    i = next(i for i, attributes in enumerate(sets) if set(names) <= set(attributes))
    return Conditional(family.child, family.parents, marginal_of(tables[i], sets[i], names))
