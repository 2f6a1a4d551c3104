"""The fit of the distribution of a junction tree to noisy marginals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.consistency import (
    NoisyTable,
    project_to_simplex,
    reconcile_tables,
    spread,
    variance_of,
)
from dp_pipeline.inference.graphical_model import GraphicalModel, Projection
from dp_pipeline.results.measurement import marginal_of
from dp_pipeline.threads import one_thread

ENTROPY = 0.35
"""Tuned: weight of the entropy, in rows per deviation of a table's noise, by which cells that noise
has made negative get a small share in place of none."""

FULL_DOUBT = 60.0
"""Tuned: mean squared dependence of a cell, in variances of its noise, for the full entropy."""

ITERATIONS = 150
"""Most steps of L-BFGS-B: a limit of time."""

KEPT_STEPS = 50
"""Steps that L-BFGS-B remembers."""

NEWTON_STEPS = 30
LONGEST_STEP = 5.0
"""Numerical: Newton's steps when a table is fitted alone, and the longest of them, in nats."""

LEAST_ROWS = 0.01
PART_OF_NOISE = 0.01
"""Numerical: sum of the differences of a table's cells at which it fits well enough, in rows, and
as a part of the sum of the standard deviations of their noise."""

SMALLEST_TARGET = 1e-12
SMALLEST_SHARE = 1e-9
"""Numerical: least target of a cell, and least share of a level, for finite logarithms."""


@dataclass(frozen=True, eq=False)
class TreeFit:
    """Noisy tables that were reconciled once, for any number of fits of a junction tree's
    distribution to them.

    start      attribute → shares of its levels; without tables a fit is their product
    rows       number of rows, at least 1
    tables     attributes → reconciled table; none is inside another one
    variances  attributes → variance of a cell, first for ``tables``, then for ``inside``
    inside     attributes → marginal of a reconciled table that was also measured by itself

    With y the reconciled tables of N rows, σ² the variance of their cells and μ those of the
    tree's distribution, minimises ½ Σ ‖N μ_a − y_a‖² / σ_a² + w · KL(μ ‖ start). The sum is over
    everything that was measured, what is inside a larger table too: y is the least-squares solution
    of it, so this is the sum of squares of the noise but for a constant, and where shares cannot be
    negative what was measured better gives way less. One table that has every attribute, and
    nothing beside it, is projected to the nearest shares instead: there is nothing to make agree.

    The dual, log Z(θ) − Σ ⟨θ_a, y_a/N⟩ + ½ Σ λ_a ‖θ_a‖² with λ_a = w · σ_a² / N², is convex and
    has no constraint; one inference gives its value and its gradient, and L-BFGS-B minimises it.
    It ends where noise outweighs what is left (``PART_OF_NOISE``). Where its ``iterations`` run out
    before, tables are made to fit one by one (``_Dual.fit_in_turn``). On one thread, so that any
    computer that replays a release fits the same bytes.

    Sources: maximum entropy with relaxed constraints, Dudík, Phillips, Schapire, JMLR 2007;
    marginals of noisy tables by graphical models, McKenna, Sheldon, Miklau, ICML 2019.

    >>> from dp_pipeline.inference.junction_tree import JunctionTree
    >>> from dp_pipeline.inference.consistency import TableEstimate
    >>> model = GraphicalModel(JunctionTree((("a",),), ()), {"a": 2})
    >>> table = TableEstimate(("a",), np.array([300.0, 100.0]), variance=1e-6)
    >>> TreeFit.of(model, [table], {"a": np.array([0.5, 0.5])}).run()[0].round(3).tolist()
    [0.75, 0.25]
    """

    model: GraphicalModel
    start: Mapping[str, FloatArray]
    rows: float
    tables: Mapping[Names, FloatArray]
    variances: Mapping[Names, float]
    inside: Mapping[Names, FloatArray]

    @classmethod
    @one_thread()
    def of(
        cls, model: GraphicalModel, measured: Sequence[NoisyTable], start: Mapping[str, FloatArray]
    ) -> "TreeFit":
        """Return noisy tables, each inside one clique of the model, reconciled for fits."""
        sizes = {name: model.sizes[name] for name in start}
        rows, tables = reconcile_tables(measured, sizes) if measured else (1.0, {})
        # Marginals of reconciled tables that were also measured by themselves.
        inside: dict[Names, FloatArray] = {}
        for table in measured:
            names = tuple(name for name in sizes if name in table.attributes)
            if names and names not in tables:
                wider = next(wider for wider in tables if set(names) < set(wider))
                inside[names] = marginal_of(tables[wider], wider, names)
        variances = {names: variance_of(names, measured) for names in (*tables, *inside)}
        return cls(model, start, max(1.0, rows), tables, variances, inside)

    @cached_property
    def _projection(self) -> Projection:
        return Projection(self.model, list(self.variances))

    @one_thread()
    def run(
        self,
        extra_potentials: Sequence[FloatArray] = (),
        entropy: float = ENTROPY,
        iterations: int = ITERATIONS,
    ) -> list[FloatArray]:
        """Return the probabilities of each clique's cells, one table for each node of the model,
        that fit the tables best.

        extra_potentials   log-potentials that are added to those of ``start``, one table a node
        entropy            w, weight of the entropy
        iterations         most steps of L-BFGS-B
        """
        from scipy.optimize import minimize

        base = product_potentials(self.model, self.start, extra_potentials)
        if not self.tables:
            return self.model.marginals(base)[0]
        is_alone = len(self.model.nodes) == len(self.variances) == 1
        if is_alone and not any(table.any() for table in extra_potentials):
            ((names, table),) = self.tables.items()
            if len(names) == len(self.start):
                counts = project_to_simplex(table, self.rows)
                axes = [names.index(name) for name in self.model.nodes[0].names]
                return [np.asarray(counts.transpose(axes) / counts.sum())]
        deviation = float(np.median(np.sqrt([self.variances[names] for names in self.tables])))
        weight = entropy * self._entropy_part * self.rows / deviation
        tables = [*self.tables.values(), *self.inside.values()]
        target = np.concatenate([table.ravel() for table in tables]) / self.rows
        variances = np.repeat(list(self.variances.values()), [table.size for table in tables])
        penalty = weight * (variances / self.rows**2)
        firsts = np.cumsum([0, *(table.size for table in tables)])[:-1]
        noise = np.add.reduceat(np.sqrt(variances), firsts)
        tolerances = np.maximum(LEAST_ROWS, PART_OF_NOISE * noise) / self.rows
        dual = _Dual(self.model, base, self._projection, target, penalty, firsts, tolerances)
        # How steep the dual is, is between the share of a cell and what the entropy adds: a third
        # of that way is where the fewest steps are needed.
        scale = (np.maximum(target, 0.0) + penalty) ** (-1 / 3)
        last_slope = np.empty(len(target))

        def scaled_dual(scaled: FloatArray) -> tuple[float, FloatArray]:
            value, last_slope[:] = dual.value_and_slope(scaled * scale)
            return value, last_slope * scale

        def end_where_tables_fit(_: FloatArray) -> None:
            if dual.differences(last_slope).max() < 1:
                raise StopIteration

        best = minimize(
            scaled_dual,
            np.zeros(len(target)),
            jac=True,
            method="L-BFGS-B",
            callback=end_where_tables_fit,
            options={"maxiter": iterations, "maxcor": KEPT_STEPS, "ftol": 1e-10, "gtol": 1e-8},
        )
        theta = best.x * scale
        if best.nit >= iterations:
            theta = dual.fit_in_turn(theta, times=iterations // 3)
        return dual.marginals(theta)[0]

    @property
    def _entropy_part(self) -> float:
        """The factor on the weight of the entropy, 0 to 1, smaller the more tables exceed noise.

        It follows from the median, over tables of several attributes, of the mean squared
        difference of a cell from the product of its one-way marginals, in variances of its noise.
        """
        squares = []
        for names, table in self.tables.items():
            if len(names) > 1:
                product = self.rows * reduce(np.multiply.outer, [self.start[n] for n in names])
                squares.append(float(np.mean((table - product) ** 2)) / self.variances[names])
        median = float(np.median(squares)) if squares else 0.0
        return float(min(1.0, (FULL_DOUBT / max(median, 1.0)) ** 0.5))


@dataclass(frozen=True, eq=False)
class _Dual:
    """The dual problem of a fit over θ, with one number for each cell of the tables.

    base         log-potentials where θ is 0, one table a node of the model
    target       share of the rows that each cell is to have
    penalty      λ of each cell
    firsts       (tables,) position of each table's first cell
    tolerances   (tables,) sum of the slopes of a table's cells, without their signs, below which
                 the table fits well enough
    """

    model: GraphicalModel
    base: Sequence[FloatArray]
    projection: Projection
    target: FloatArray
    penalty: FloatArray
    firsts: IntArray
    tolerances: FloatArray

    def differences(self, slope: FloatArray) -> FloatArray:
        """Return how far each table is from its target (tables,), in units of its tolerance."""
        return np.asarray(np.add.reduceat(np.abs(slope), self.firsts) / self.tolerances)

    def marginals(self, theta: FloatArray) -> tuple[list[FloatArray], float]:
        """Return the probabilities of every node's cells, and log Z."""
        added = self.projection.backward(theta)
        return self.model.marginals([b + t for b, t in zip(self.base, added, strict=True)])

    def value_and_slope(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value of the dual and its gradient in θ."""
        tables, log_total = self.marginals(theta)
        slope = self.projection.forward(tables) - self.target + self.penalty * theta
        value = log_total - float(theta @ self.target) + float(self.penalty @ theta**2) / 2
        return value, slope

    def fit_in_turn(self, theta: FloatArray, *, times: int) -> FloatArray:
        """Return θ after repeatedly fitting the single table that is furthest off, until all fit
        well enough.

        times   most tables that are fitted, one after the other

        Where noise is far below the counts, slopes are flat along cells that are next to nothing,
        and steps along them are short; this one is exact (iterative proportional fitting: Deming,
        Stephan, Annals of Mathematical Statistics 1940). With μ the shares of the cells of one
        table, the change δ solves μ·e^δ + λ·(θ + δ) = y cell by cell, by Newton's steps. Of 16
        binary attributes at ε = 100, pairs inside cliques are .0002 off and not .0088.
        """
        theta, ends = theta.copy(), [*self.firsts[1:], len(theta)]
        for _ in range(times):
            slope = self.value_and_slope(theta)[1]
            differences = self.differences(slope)
            worst = int(differences.argmax())
            if differences[worst] < 1:
                break
            cells = slice(self.firsts[worst], ends[worst])
            penalty = self.penalty[cells]
            target = self.target[cells] - penalty * theta[cells]
            shares = np.maximum(slope[cells] + target, SMALLEST_TARGET)
            change = np.log(np.maximum(target, SMALLEST_TARGET) / shares)
            for _ in range(NEWTON_STEPS):
                raised = shares * np.exp(change)
                step = (raised + penalty * change - target) / (raised + penalty)
                change -= np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            theta[cells] += change
        return theta


def product_potentials(
    model: GraphicalModel,
    start: Mapping[str, FloatArray],
    extra_potentials: Sequence[FloatArray] = (),
) -> list[FloatArray]:
    """Return log-potentials, one table for each node, of independent attributes.

    start              attribute → shares of its levels, which are raised to ``SMALLEST_SHARE``
    extra_potentials   log-potentials that are added to them
    """
    potentials = model.zeros()
    for name, shares in start.items():
        index = model.smallest_node_with((name,))
        logs = np.log(np.maximum(shares, SMALLEST_SHARE))
        potentials[index] += spread(logs, (name,), model.nodes[index].names)
    if extra_potentials:
        return [table + extra for table, extra in zip(potentials, extra_potentials, strict=True)]
    return potentials
