"""Latent classes: what rows have in common, and noisy tables fitted near to that."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference import latent_classes
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.inference.latent_classes import (
    LatentClasses,
    fit_near_classes,
    missed_dependence_share,
)
from dp_pipeline.inference.tree_fit import TreeFit
from dp_pipeline.results.measurement import marginal_of

NAMES = tuple("abcdefgh")
SIZES = dict.fromkeys(NAMES, 2)
PAIRS = tuple(combinations(NAMES, 2))
VIEWS = tuple(combinations(NAMES, 6))[::3]
"""Ten tables that have every pair."""

ROWS = 20_000
QUIET, LOUD = 25.0, 800.0**2


def one_factor(rows: int = ROWS) -> IntArray:
    """Eight binary attributes that all depend on one that nobody sees, and so on each other."""
    rng = np.random.default_rng(5)
    hidden = rng.random((rows, 1)) < 0.3
    limited = rng.random((rows, len(NAMES))) < np.where(hidden, 0.9, 0.03)
    return np.asarray(limited, dtype=np.int64)


CODES = one_factor()
TREE = JunctionTree((NAMES,), ())
MODEL = GraphicalModel(TREE, SIZES)


def chain(rows: int = ROWS) -> IntArray:
    """Eight binary attributes, each the one before or by chance: no few classes."""
    rng = np.random.default_rng(6)
    columns = [(rng.random(rows) < 0.4) * 1]
    for _ in NAMES[1:]:
        columns.append(np.where(rng.random(rows) < 0.8, columns[-1], rng.random(rows) < 0.3))
    return np.stack(columns, axis=1)


def counted(names: Names, codes: IntArray = CODES) -> FloatArray:
    table = np.zeros([2] * len(names))
    np.add.at(table, tuple(codes[:, NAMES.index(name)] for name in names), 1)
    return table


def measured(
    tables: Sequence[Names], variance: float, seed: int = 0, codes: IntArray = CODES
) -> list[TableEstimate]:
    """Tables with Gaussian noise of that variance in every cell."""
    rng, estimates = np.random.default_rng(seed), []
    for names in tables:
        noise = rng.normal(0, variance**0.5, [2] * len(names))
        estimates.append(TableEstimate(names, counted(names, codes) + noise, variance))
    return estimates


def start(codes: IntArray = CODES) -> dict[str, FloatArray]:
    return {name: counted((name,), codes) / ROWS for name in NAMES}


def fitted(
    tables: Sequence[TableEstimate],
    is_near: bool = True,
    *,
    extra_potentials: Sequence[FloatArray] = (),
    tree: JunctionTree = TREE,
    codes: IntArray = CODES,
) -> list[FloatArray]:
    model = GraphicalModel(tree, SIZES)
    fit = TreeFit.of(model, tables, start(codes))
    return fit_near_classes(fit, extra_potentials) if is_near else fit.run(extra_potentials)


def off(cells: FloatArray, codes: IntArray = CODES) -> float:
    """Mean total variation of all pairs from the exact ones."""
    misses = []
    for pair in PAIRS:
        shares = marginal_of(cells, NAMES, pair)
        misses.append(np.abs(shares - counted(pair, codes) / ROWS).sum() / 2)
    return float(np.mean(misses))


def test_two_classes_find_the_hidden_attribute():
    classes = LatentClasses.of(CODES, SIZES, classes=2)
    assert sorted(classes.weights) == pytest.approx([0.3, 0.7], abs=0.03)
    chances = np.sort([classes.shares[name][1] for name in NAMES], axis=1)
    assert np.abs(chances - [0.03, 0.9]).max() < 0.03
    # The same where classes overlap.
    rng = np.random.default_rng(7)
    hidden = rng.random((ROWS, 1)) < 0.15
    codes = (rng.random((ROWS, len(NAMES))) < np.where(hidden, 0.75, 0.25)) * 1
    weights = LatentClasses.of(codes, SIZES, classes=2).weights
    assert weights.min() == pytest.approx(0.15, abs=0.04)


def test_classes_begin_along_what_attributes_have_in_common(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(latent_classes, "STEPS", 0)
    classes = LatentClasses.of(CODES, SIZES, classes=2)
    apart = [abs(classes.shares[name][1, 0] - classes.shares[name][1, 1]) for name in NAMES]
    assert min(apart) > 0.4


def test_the_sign_of_the_first_component_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    eigh = np.linalg.eigh
    table = LatentClasses.of(CODES, SIZES).table(NAMES)
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
    assert (LatentClasses.of(CODES, SIZES).table(NAMES) == table).all()


@pytest.mark.parametrize("column", ["varied", "constant"])
def test_thousands_of_levels_take_no_matrix_of_their_pairs(monkeypatch: pytest.MonkeyPatch, column):
    levels, eigh = 5000, np.linalg.eigh

    def of_few(matrix: FloatArray) -> Any:
        assert len(matrix) <= latent_classes.LANCZOS_STEPS
        return eigh(matrix)

    monkeypatch.setattr(np.linalg, "eigh", of_few)
    sizes = {"many": levels, **SIZES}
    # The hidden attribute, which most others follow, decides the half that a level is in.
    half = np.random.default_rng(1).integers(0, levels // 2, ROWS)
    many = half + (CODES.sum(axis=1) > 4) * levels // 2
    varied = np.column_stack([many, CODES])
    codes = varied if column == "varied" else np.zeros_like(varied)
    classes = LatentClasses.of(codes, sizes, classes=2)
    again = LatentClasses.of(codes, sizes, classes=2)
    assert all((classes.shares[name] == again.shares[name]).all() for name in sizes)
    if column == "varied":
        assert sorted(classes.weights) == pytest.approx([0.3, 0.7], abs=0.03)


def test_tables_of_classes_are_probabilities_that_agree():
    sizes, codes = (
        {"x": 3, "y": 2, "z": 5},
        np.random.default_rng(1).integers(0, [3, 2, 5], (300, 3)),
    )
    classes = LatentClasses.of(codes, sizes)
    cells = classes.table(("z", "x", "y"))
    assert cells.shape == (5, 3, 2)
    assert cells.min() > 0
    assert cells.sum() == pytest.approx(1)
    assert np.allclose(cells.sum(axis=2).T, classes.table(("x", "z")))
    codes = np.repeat([[0, 1, 4], [2, 0, 3]], 60, axis=0)
    cells = LatentClasses.of(codes, sizes, classes=2).table(("x", "y", "z"))
    assert [cells[0, 1, 4], cells[2, 0, 3]] == pytest.approx([0.5, 0.5], abs=1e-3)
    for rows in (1, 3):
        few = LatentClasses.of(np.zeros((rows, 3), dtype=np.int64), sizes)
        assert few.table(("x", "y"))[0, 0] == pytest.approx(1, abs=1e-6)


def means(
    tree: JunctionTree,
    names: Sequence[Names],
    deviation: float,
    seeds: int,
    codes: IntArray = CODES,
) -> tuple[float, float]:
    """Mean distance of fits near classes and of fits without them."""
    pairs = []
    for seed in range(seeds):
        tables = measured(names, deviation**2, seed, codes)
        fits = fitted(tables, tree=tree, codes=codes), fitted(tables, False, tree=tree, codes=codes)
        pairs.append([off(fit[0], codes) if tree is TREE else off_tree(fit) for fit in fits])
    near, before = np.mean(pairs, axis=0)
    return near, before


def test_noisy_views_are_told_better_near_classes():
    # Noise of a cell is a hundredth of the rows. Seeded: no false alarm.
    near, before = means(TREE, VIEWS, 200.0, 4)
    assert near < 0.9 * before
    near, before = means(TREE, VIEWS, 200.0, 4, chain())
    assert near < 1.02 * before


def test_a_tree_of_a_cause_is_told_better_near_classes():
    # Noise of a cell is a fiftieth of the rows. Seeded: no false alarm.
    near, before = means(LINKED, LINKED.cliques, 400.0, 8)
    # With the weight beside independent attributes it would be .846 of it.
    assert near < 0.835 * before


LINKED = JunctionTree((NAMES[:5], NAMES[3:7], NAMES[6:]), ((0, 1), (1, 2)))
"""Cliques that share two attributes and one."""


def off_tree(tables: Sequence[FloatArray]) -> float:
    """Mean total variation of all cliques from the exact ones."""
    nodes = GraphicalModel(LINKED, SIZES).nodes
    exact = [counted(node.names) / ROWS for node in nodes]
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(tables, exact, strict=True)]))


def test_unmeasured_a_tree_has_the_tables_of_its_classes():
    model, classes = GraphicalModel(LINKED, SIZES), LatentClasses.of(CODES, SIZES)
    near = latent_classes._potentials(model, classes, start())
    tables = fitted((), False, extra_potentials=near, tree=LINKED)
    for node, table in zip(model.nodes, tables, strict=True):
        assert np.allclose(table, classes.table(node.names), atol=1e-6)


def test_classes_miss_nothing_of_what_they_have_made():
    exact = start()
    two, single = (LatentClasses.of(CODES, SIZES, classes=many) for many in (2, 1))

    def share(classes: LatentClasses, tables: Sequence[TableEstimate]) -> float:
        return missed_dependence_share(classes, TreeFit.of(MODEL, tables, exact))

    assert share(two, measured(PAIRS, QUIET)) == pytest.approx(0, abs=0.02)
    assert share(single, measured(PAIRS, QUIET)) == pytest.approx(1, abs=0.02)
    # The cells of a pair are off by their noise, as far as a fiftieth of the rows. Seeded.
    shares = [share(two, measured(PAIRS, 400.0**2, seed)) for seed in range(8)]
    assert np.mean(shares) == pytest.approx(0, abs=0.02)
    # A table of one attribute says nothing of a dependence.
    pairs = measured(PAIRS[:3], LOUD)
    far = TableEstimate(("h",), np.array([0.0, ROWS]), QUIET)
    assert share(two, [*pairs, far]) == pytest.approx(share(two, pairs), rel=0.01)
    apart = [TableEstimate((a, b), ROWS * np.outer(exact[a], exact[b]), QUIET) for a, b in PAIRS]
    assert share(LatentClasses.of(CODES, SIZES), apart) == 1


def test_a_tree_without_few_classes_is_fitted_without_them():
    """Six attributes of sixteen levels, each one or two levels after the one before, in a ring."""
    rng, levels, names = np.random.default_rng(8), 16, NAMES[:6]
    codes = np.cumsum(rng.integers(1, 3, (ROWS, 6)), axis=1) + rng.integers(0, levels, (ROWS, 1))
    codes %= levels
    links = tuple(pairwise(names))
    tree = JunctionTree(links, tuple((at, at + 1) for at in range(len(links) - 1)))
    model = GraphicalModel(tree, dict.fromkeys(names, levels))
    shares = {name: np.bincount(codes[:, at]) / ROWS for at, name in enumerate(names)}
    tables = []
    for at, link in enumerate(links):
        cells = np.bincount(codes[:, at] * levels + codes[:, at + 1], minlength=levels**2)
        noise = rng.normal(0, 100, (levels, levels))
        tables.append(TableEstimate(link, cells.reshape(levels, levels) + noise, 100.0**2))
    fit = TreeFit.of(model, tables, shares)
    near, before = fit_near_classes(fit, ()), fit.run()
    assert all((table == other).all() for table, other in zip(near, before, strict=True))


def test_where_noise_is_little_classes_change_no_pair():
    tables = measured(PAIRS, QUIET)
    (near,), (before,) = fitted(tables), fitted(tables, False)
    assert off(near) == pytest.approx(off(before), abs=1e-4)


@pytest.mark.parametrize(
    "names",
    [[(name,) for name in NAMES], (*PAIRS, NAMES)],
    ids=["no table has two attributes", "one table has all attributes"],
)
def test_where_classes_tell_nothing_more_nothing_is_fitted_twice(names, monkeypatch):
    runs, run = list[Any](), TreeFit.run
    monkeypatch.setattr(TreeFit, "run", lambda *a: runs.append(a) or run(*a))
    fitted(measured(names, LOUD))
    assert len(runs) == 1


def test_cells_that_are_ruled_out_stay_empty():
    ruled, tables = np.zeros([2] * 8), measured(PAIRS, LOUD)
    ruled[1, 1] = -1e3
    (cells,), (again,) = (fitted(tables, extra_potentials=[ruled]) for _ in range(2))
    assert cells[1, 1].sum() < 1e-12
    assert cells.sum() == pytest.approx(1)
    assert (cells == again).all()
