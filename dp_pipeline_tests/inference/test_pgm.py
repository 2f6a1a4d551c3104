"""Inference and fitting against ``mbi``, the package of the graphical models' authors.

It needs ``pip install 'dp-pipeline[pgm]'``; without it, brute force and least squares are what
inference (``test_graphical_model``) and fitting (``test_tree_fit``) are compared with.
"""

from typing import Any

import numpy as np
import pytest

from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.tree_fit import fit_tree
from dp_pipeline_tests.results.small_models import model_over, summed

mbi: Any = pytest.importorskip("mbi", reason="the extra pgm is not installed")

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5, "e": 3, "f": 2}
PAIRS = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("c", "e")]
ROWS = 5000.0


@pytest.fixture(scope="module", autouse=True)
def doubles() -> None:
    """In its default single precision the two agree to six digits."""
    import jax

    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def model() -> GraphicalModel:
    return model_over(SIZES, PAIRS)[0]


def domain() -> Any:
    return mbi.Domain(tuple(SIZES), tuple(SIZES.values()))


def vector(model: GraphicalModel, tables: list[np.ndarray]) -> Any:
    names = [node.names for node in model.nodes]
    factors = {
        clique: mbi.Factor(domain().project(clique), table)
        for clique, table in zip(names, tables, strict=True)
    }
    return mbi.CliqueVector(domain(), names, factors)


@pytest.mark.parametrize("width", [0.1, 1.0, 20.0])
def test_marginals_are_those_of_mbi_on_the_same_tree(model: GraphicalModel, width: float):
    rng = np.random.default_rng(1)
    potentials = [width * rng.normal(size=node.shape) for node in model.nodes]
    theirs = mbi.marginal_oracles.message_passing_stable(vector(model, potentials))
    ours, _ = model.marginals(potentials)
    for node, table in zip(model.nodes, ours, strict=True):
        assert np.allclose(table, theirs.project(node.names).datavector(flatten=False), atol=1e-9)


def test_the_fit_is_that_of_mbi_at_next_to_no_noise(model: GraphicalModel):
    # Cells far above the noise: both then minimise the same squares over the same polytope. A
    # small variance leaves the entropy, which mbi does not have, next to no weight.
    rng = np.random.default_rng(2)
    exact, _ = model.marginals([0.5 * rng.normal(size=node.shape) for node in model.nodes])
    measured, theirs = [], []
    for names in (("a", "b", "c"), ("c", "d"), ("d", "e"), ("c", "e"), ("f",)):
        home = model.smallest_node_with(names)
        table = ROWS * summed(exact[home], model.nodes[home].names, names)
        table = table + rng.normal(0, 3, table.shape)
        measured.append(TableEstimate(names, table, 9e-6))
        theirs.append(mbi.LinearMeasurement(table.ravel(), names, stddev=3.0))
    start = {name: np.full(size, 1 / size) for name, size in SIZES.items()}
    ours = fit_tree(model, measured, start=start)
    known = sum(one.table.sum() / 9 / one.table.size for one in measured) / sum(
        1 / 9 / one.table.size for one in measured
    )
    estimated = mbi.estimation.mirror_descent(
        domain(), theirs, known_total=float(known), iters=5000
    )
    for one in measured:
        home = model.smallest_node_with(one.attributes)
        here = summed(ours[home], model.nodes[home].names, one.attributes)
        there = estimated.project(one.attributes).datavector(flatten=False) / known
        assert np.abs(here - there).sum() < 1e-4
