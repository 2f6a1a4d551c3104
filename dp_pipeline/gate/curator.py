"""Curator: what a private model is handed in place of rows. It asks, and pays for every answer.

Each question goes the same way: charge; look up the transcript; only when the
answer was never drawn, look at the rows, add noise, store; then return it.
The exact answer lives between two lines of ``_answer`` and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction

import numpy as np

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.counts import MOST_GRID_CELLS, Counter
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.pyramid import pyramid
from dp_pipeline.gate.scores import Score
from dp_pipeline.release.accountant import LAPLACE, NOISY_MAX, Accountant, Spend
from dp_pipeline.release.measurement import NoisyGrid, NoisyMarginal, NoisyNodes
from dp_pipeline.release.quadtree import Nodes
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation, Damaged


class Curator:
    """The only way from a model to the rows.

    counter      exact answers, or None: a curator that can only replay its transcript
    domain       declared attributes, public
    reach        rows that two neighbouring data sets differ by, at most
    accountant   holds the ε of this release; a charge above it raises BudgetExceeded
    transcript   every answer is stored there before it is returned
    noise        where the noise comes from
    """

    def __init__(
        self,
        counter: Counter | None,
        *,
        domain: Domain,
        reach: int,
        accountant: Accountant,
        transcript: Transcript,
        noise: NoiseSource,
    ) -> None:
        self.domain, self.reach, self.accountant = domain, reach, accountant
        self._counter, self._transcript, self._noise = counter, transcript, noise
        self._levels: dict[tuple[tuple[str, ...], int], list[IntArray]] = {}

    def __repr__(self) -> str:
        return f"Curator({len(self.domain.names)} attributes, reach {self.reach})"

    def measure(self, attributes: tuple[str, ...], *, epsilon: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell noisy; () is the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        shape = self._require_table(attributes)
        what = f"marginal of {', '.join(attributes)}" if attributes else "number of rows"
        table = self._laplace(
            what,
            lambda counter: counter.count([attributes])[0].open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
        return NoisyMarginal(attributes, table.reshape(shape), self._scale(1, epsilon))

    def measure_grid(self, columns: tuple[str, ...], *, cells: int, epsilon: Fraction) -> NoisyGrid:
        """Counts of ``cells`` equal intervals an axis over the declared box.

        ⊕ one row is in one cell, empty cells are measured too: Δ1 = 1 a row.
        """
        self._require_grid(columns, cells)
        table = self._laplace(
            f"grid of {cells} cells an axis over {', '.join(columns)}",
            lambda counter: counter.grid(columns, cells).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
        shape = (cells,) * len(columns)
        return NoisyGrid(columns, table.reshape(shape), self._scale(1, epsilon))

    def measure_nodes(
        self, columns: tuple[str, ...], nodes: Nodes, *, depth: int, epsilon: Fraction
    ) -> NoisyNodes:
        """Counts of tree nodes of heights up to ``depth`` (the finest the model will ask for).

        ⊕ the nodes are disjoint, checked here, so one row is in at most one: Δ1 = 1 a row.
        No nodes at all is a measure too: charged, recorded, empty.
        """
        self._require_grid(columns, 1 << depth if depth >= 0 else 0)
        if not nodes.are_disjoint(len(columns), depth):
            raise BoundaryViolation("tree measure: expected disjoint nodes, got overlapping ones")
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(columns)}, depth {depth}",
            lambda counter: self._node_counts(counter, columns, nodes, depth),
            l1_per_row=1,
            epsilon=epsilon,
            detail=f"{nodes.heights.tolist()} {nodes.cells.tolist()}",
        )
        return NoisyNodes(table, self._scale(1, epsilon))

    def choose(
        self, what: str, candidates: Mapping[tuple[str, ...], Score], *, epsilon: Fraction
    ) -> tuple[str, ...]:
        """The attributes whose marginal has a nearly highest score, by noisy max.

        No score moves by more than the largest Δ∞ among them, at this reach.
        """
        if not candidates:
            raise BoundaryViolation(f"{what}: expected candidates to choose from, got none")
        names = list(candidates)
        for attributes in names:
            self._require_table(attributes)
        linf = max(score.linf(self.reach) for score in candidates.values())
        scale = mechanisms.choice_scale(linf=linf, epsilon=epsilon)

        def draw(counter: Counter) -> IntArray:
            tables = zip(candidates.values(), counter.count(names), strict=True)
            exact = [score.score(sealed.open_at_the_gate()) for score, sealed in tables]
            values = np.array(exact, dtype=np.int64)
            index = mechanisms.choose(values, linf=linf, epsilon=epsilon, noise=self._noise)
            return np.array(index, dtype=np.int64)

        spend = Spend(what, NOISY_MAX, epsilon, linf, scale)
        detail = "; ".join(f"{name} by {_content(score)}" for name, score in candidates.items())
        return names[int(self._answer(spend, draw, detail=detail))]

    def measure_distance(
        self, rule: NearestCentre, *, clip: int, shift: int, epsilon: Fraction
    ) -> IntArray:
        """Σ min(D, clip) >> shift over the rows, noisy; shape ().

        ⊕ one row adds a whole number in 0..clip >> shift: Δ1 = clip >> shift a row.
        """
        self._require_axes(rule.columns)
        rule.require_exact(clip=clip, shift=shift)
        return self._laplace(
            f"clipped squared distance to {len(rule.centres)} released centres, "
            f"clip {clip} shift {shift}",
            lambda counter: counter.distance_total(rule, clip=clip, shift=shift).open_at_the_gate(),
            l1_per_row=clip >> shift,
            epsilon=epsilon,
            detail=repr(rule),
        )

    def measure_marginal_error(
        self, released: dict[tuple[str, ...], IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Σ over m released marginals of Σ over cells of |2^16·c − n·q|, noisy; shape ().

        released   attributes → whole numbers q ≥ 0 of the marginal's shape, Σ q = 2^16

        ⊕ one more row changes c in one cell by 1 and n by 1, so one marginal's sum by at
        most 2^16 + Σ q = 2^17, and the total by m · 2^17.
        """
        for attributes, q in released.items():
            shape = self._require_table(attributes)
            if q.min() < 0 or q.sum() != 1 << 16 or q.shape != shape:
                raise BoundaryViolation("marginal error: expected q ≥ 0 with sum 2^16, got others")

        def exact(counter: Counter) -> IntArray:
            tables = counter.count(list(released))
            total = 0
            for q, sealed in zip(released.values(), tables, strict=True):
                counts = sealed.open_at_the_gate()
                total += int(np.abs((counts << 16) - counts.sum() * q).sum())
            return np.array(total, dtype=np.int64)

        digest = hashlib.sha256(b"".join(q.tobytes() for q in released.values())).hexdigest()
        return self._laplace(
            f"error of {len(released)} released marginals",
            exact,
            l1_per_row=len(released) << 17,
            epsilon=epsilon,
            detail=f"{list(released)} {digest}",
        )

    def _laplace(
        self,
        what: str,
        exact: Callable[[Counter], IntArray],
        *,
        l1_per_row: int,
        epsilon: Fraction,
        detail: str = "",
    ) -> IntArray:
        l1 = l1_per_row * self.reach
        spend = Spend(what, LAPLACE, epsilon, l1, self._scale(l1_per_row, epsilon))

        def draw(counter: Counter) -> IntArray:
            return mechanisms.measure(exact(counter), l1=l1, epsilon=epsilon, noise=self._noise)

        return self._answer(spend, draw, detail=detail)

    def _answer(
        self, spend: Spend, draw: Callable[[Counter], IntArray], *, detail: str = ""
    ) -> IntArray:
        """Charge, then look, then noise; stored before it is returned."""
        self.accountant.charge(spend)
        tail = f" [{hashlib.sha256(detail.encode()).hexdigest()[:16]}]" if detail else ""
        question = (
            f"{spend.mechanism}: {spend.what}{tail}, Δ={spend.sensitivity}, ε={spend.epsilon}"
        )
        stored = self._transcript.recall(question)
        if stored is not None:
            return stored
        if self._counter is None:
            raise Damaged(f"transcript: expected a stored answer to {question!r}, got none")
        noisy = draw(self._counter)
        self._transcript.store(question, noisy)
        return noisy

    def _scale(self, l1_per_row: int, epsilon: Fraction) -> Fraction:
        return mechanisms.laplace_scale(l1=l1_per_row * self.reach, epsilon=epsilon)

    def _require_table(self, attributes: tuple[str, ...]) -> tuple[int, ...]:
        """Shape of a marginal, refused before it is charged if no engine would count it."""
        cells = self.domain.cell_count(attributes)
        if len(set(attributes)) < len(attributes) or cells > MOST_GRID_CELLS:
            raise BoundaryViolation(
                f"marginal: expected different attributes and at most {MOST_GRID_CELLS} cells, "
                f"got {', '.join(attributes)} with {cells}"
            )
        return self.domain.shape(attributes)

    def _require_grid(self, columns: tuple[str, ...], cells: int) -> None:
        self._require_axes(columns)
        if cells < 1 or cells ** len(columns) > MOST_GRID_CELLS:
            raise BoundaryViolation(
                f"grid: expected 1 to {MOST_GRID_CELLS} cells, got {cells} an axis "
                f"on {len(columns)} axes"
            )

    def _require_axes(self, columns: tuple[str, ...]) -> None:
        self.domain.box(columns)
        if not columns or len(set(columns)) < len(columns):
            raise BoundaryViolation(
                f"axes: expected one or more different columns, got {', '.join(columns) or 'none'}"
            )

    def _node_counts(
        self, counter: Counter, columns: tuple[str, ...], nodes: Nodes, depth: int
    ) -> IntArray:
        """Exact counts of the nodes: one scan at the finest height, sums upwards, kept for the
        other measures of this release.
        """
        if (columns, depth) not in self._levels:
            finest = counter.grid(columns, 1 << depth).open_at_the_gate()
            self._levels[columns, depth] = pyramid(finest)
        levels = self._levels[columns, depth]
        counts = np.zeros(len(nodes), dtype=np.int64)
        for height in range(depth + 1):
            here = nodes.heights == height
            counts[here] = levels[height].ravel()[nodes.cells[here]]
        return counts


def _content(score: Score) -> str:
    """A score's type and fields: its repr would leave out the middle of a large table."""
    digest = hashlib.sha256()
    # Every score is a frozen dataclass.
    for field in fields(score):  # type: ignore[arg-type]
        values = np.asarray(getattr(score, field.name))
        digest.update(f"{field.name} {values.dtype} {values.shape} ".encode() + values.tobytes())
    return f"{type(score).__name__} {digest.hexdigest()}"
