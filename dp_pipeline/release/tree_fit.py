"""Fitting the distribution of a junction tree to noisy marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dp_pipeline.release.graphical_model import GraphicalModel, Names
from dp_pipeline.release.projection import Projection
from dp_pipeline.release.reconciliation import Noisy, reconciled
from dp_pipeline.schema.encoding import FloatArray

ENTROPY = 0.35
"""Weight of the entropy, in signals of one table (rows per deviation of its noise): cells that
noise has made negative are left at a small share and not driven to none."""

ITERATIONS = 300
KEPT_STEPS = 20
SMALLEST_SHARE = 1e-9
SMALLEST_VARIANCE = 1e-100
"""At a very large ε it is 0 to every digit of a float."""


def fit_tree(
    model: GraphicalModel,
    measured: Sequence[Noisy],
    *,
    start: Mapping[str, FloatArray],
    entropy: float = ENTROPY,
    iterations: int = ITERATIONS,
) -> list[FloatArray]:
    """Probabilities of every clique's cells, one table a node of the model.

    measured   each inside one clique of the model
    start      attribute → shares: where nothing is measured the fit stays at their product

    With y the reconciled tables of N rows, σ² the variance of their cells and μ those of the
    tree's distribution, minimises ½ Σ ‖N μ_a − y_a‖² / σ_a² + w · KL(μ ‖ start). The dual,
    log Z(θ) − Σ ⟨θ_a, y_a/N⟩ + ½ Σ λ_a ‖θ_a‖² with λ_a = w · σ_a² / N², is convex and has
    no constraint; one inference gives its value and its gradient, and L-BFGS-B minimises it.

    Sources: maximum entropy with relaxed constraints, Dudík, Phillips, Schapire, JMLR 2007;
    marginals of noisy tables by graphical models, McKenna, Sheldon, Miklau, ICML 2019.

    >>> from dp_pipeline.release.junction_tree import JunctionTree
    >>> from dp_pipeline.release.reconciliation import Estimate
    >>> model = GraphicalModel(JunctionTree((("a",),), ()), {"a": 2})
    >>> table = Estimate(("a",), np.array([300.0, 100.0]), variance=1e-6)
    >>> fit_tree(model, [table], start={"a": np.array([0.5, 0.5])})[0].round(3).tolist()
    [0.75, 0.25]
    """
    base = _potentials(model, start)
    if not measured:
        return model.marginals(base)[0]
    from scipy.optimize import minimize

    sizes = {name: model.sizes[name] for name in start}
    rows, tables = reconciled(measured, sizes)
    rows = max(1.0, rows)
    variances = [_variance(names, measured) for names in tables]
    weight = entropy * rows / float(np.median(np.sqrt(variances)))
    target = np.concatenate([table.ravel() for table in tables.values()]) / rows
    noise = np.repeat(variances, [table.size for table in tables.values()]) / rows**2
    # In units of the noise, the dual is about as steep in every direction.
    scale = noise**-0.25
    projection = Projection(model, list(tables))

    def potentials(scaled: FloatArray) -> list[FloatArray]:
        return [b + t for b, t in zip(base, projection.backward(scaled * scale), strict=True)]

    def dual(scaled: FloatArray) -> tuple[float, FloatArray]:
        found, log_total = model.marginals(potentials(scaled))
        theta = scaled * scale
        slope = projection.forward(found) - target + weight * noise * theta
        value = log_total - float(theta @ target) + weight / 2 * float(noise @ theta**2)
        return value, np.asarray(slope * scale)

    options = {"maxiter": iterations, "maxcor": KEPT_STEPS, "ftol": 1e-10, "gtol": 1e-8}
    best = minimize(dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", options=options)
    return model.marginals(potentials(best.x))[0]


def _potentials(model: GraphicalModel, start: Mapping[str, FloatArray]) -> list[FloatArray]:
    """Log-potentials of the product of the shares, every attribute in one clique."""
    position = model.zeros()
    for name, shares in start.items():
        at = model.home((name,))
        shape = [-1 if other == name else 1 for other in model.nodes[at].names]
        position[at] += np.log(np.maximum(shares, SMALLEST_SHARE)).reshape(shape)
    return position


def _variance(names: Names, measured: Sequence[Noisy]) -> float:
    """Of a cell of the table over these attributes, however often it was measured."""
    precisions = [
        1 / max(one.variance, SMALLEST_VARIANCE)
        for one in measured
        if set(one.attributes) == set(names)
    ]
    return 1 / sum(precisions)
