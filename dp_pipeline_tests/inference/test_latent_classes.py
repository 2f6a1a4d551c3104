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
from dp_pipeline.inference.latent_classes import LatentClasses, fit_near_classes, missed
from dp_pipeline.inference.tree_fit import TreeFit, fit_tree

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
    rng = np.random.default_rng(seed)
    noise = [rng.normal(0, variance**0.5, [2] * len(names)) for names in tables]
    return [
        TableEstimate(names, counted(names, codes) + off, variance)
        for names, off in zip(tables, noise, strict=True)
    ]


def start(codes: IntArray = CODES) -> dict[str, FloatArray]:
    return {name: counted((name,), codes) / ROWS for name in NAMES}


def together(
    tables: Sequence[TableEstimate], beside: Sequence[FloatArray] = (), codes: IntArray = CODES
) -> FloatArray:
    (found,) = fit_near_classes(TREE, MODEL, tables, start=start(codes), beside=beside)
    return found


def alone(
    tables: Sequence[TableEstimate], beside: Sequence[FloatArray] = (), codes: IntArray = CODES
) -> FloatArray:
    (found,) = fit_tree(MODEL, tables, start=start(codes), beside=beside)
    return found


def off(cells: FloatArray, codes: IntArray = CODES) -> float:
    """Mean total variation of all pairs from the exact ones."""
    axes = [tuple(set(range(8)) - {NAMES.index(a), NAMES.index(b)}) for a, b in PAIRS]
    shares = [cells.sum(axis=axis) for axis in axes]
    exact = [counted(pair, codes) / ROWS for pair in PAIRS]
    misses = [np.abs(one - two).sum() / 2 for one, two in zip(shares, exact, strict=True)]
    return float(np.mean(misses))


def test_two_classes_find_the_hidden_attribute():
    found = LatentClasses.of(CODES, SIZES, classes=2)
    assert sorted(found.weights) == pytest.approx([0.3, 0.7], abs=0.03)
    chances = np.sort([found.shares[name][1] for name in NAMES], axis=1)
    assert np.abs(chances - [0.03, 0.9]).max() < 0.03


def test_classes_that_overlap_have_their_weights():
    rng = np.random.default_rng(7)
    hidden = rng.random((ROWS, 1)) < 0.15
    codes = (rng.random((ROWS, len(NAMES))) < np.where(hidden, 0.75, 0.25)) * 1
    found = LatentClasses.of(codes, SIZES, classes=2)
    assert found.weights.min() == pytest.approx(0.15, abs=0.04)


def test_classes_begin_along_what_attributes_have_in_common(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(latent_classes, "STEPS", 0)
    found = LatentClasses.of(CODES, SIZES, classes=2)
    apart = [abs(found.shares[name][1, 0] - found.shares[name][1, 1]) for name in NAMES]
    assert min(apart) > 0.4


def test_the_sign_of_the_first_component_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    eigh = np.linalg.eigh
    found = LatentClasses.of(CODES, SIZES).table(NAMES)
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (eigh(matrix)[0], -eigh(matrix)[1]))
    assert (LatentClasses.of(CODES, SIZES).table(NAMES) == found).all()


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
    found = LatentClasses.of(codes, sizes, classes=2)
    again = LatentClasses.of(codes, sizes, classes=2)
    assert all((found.shares[name] == again.shares[name]).all() for name in sizes)
    if column == "varied":
        assert sorted(found.weights) == pytest.approx([0.3, 0.7], abs=0.03)


def test_one_class_is_attributes_that_are_independent():
    found = LatentClasses.of(CODES, SIZES, classes=1)
    product = np.outer(counted(("a",)), counted(("b",))) / ROWS**2
    assert np.allclose(found.table(("a", "b")), product, atol=1e-6)


def test_tables_of_classes_are_probabilities_that_agree():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, [3, 2, 5], (300, 3))
    found = LatentClasses.of(codes, {"x": 3, "y": 2, "z": 5})
    cells = found.table(("z", "x", "y"))
    assert cells.shape == (5, 3, 2)
    assert cells.min() > 0
    assert cells.sum() == pytest.approx(1)
    assert np.allclose(cells.sum(axis=2).T, found.table(("x", "z")))


def test_attributes_of_several_levels_keep_their_places():
    codes = np.repeat([[0, 1, 4], [2, 0, 3]], 60, axis=0)
    found = LatentClasses.of(codes, {"x": 3, "y": 2, "z": 5}, classes=2)
    cells = found.table(("x", "y", "z"))
    assert [cells[0, 1, 4], cells[2, 0, 3]] == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("rows", [1, 3])
def test_fewer_rows_than_classes_do_no_harm(rows: int):
    found = LatentClasses.of(np.zeros((rows, 2), dtype=np.int64), {"x": 2, "y": 3})
    assert found.table(("x", "y"))[0, 0] == pytest.approx(1, abs=1e-6)


def test_noisy_views_of_a_cause_are_told_better_near_classes():
    # Noise of a cell is a hundredth of the rows. Seeded: no false alarm.
    errors = [
        (off(together(tables)), off(alone(tables)))
        for tables in (measured(VIEWS, 200.0**2, seed) for seed in range(4))
    ]
    near, before = np.mean(errors, axis=0)
    assert near < 0.9 * before


def test_views_of_a_chain_are_told_as_well_as_before():
    codes = chain()
    errors = [
        (off(together(tables, (), codes), codes), off(alone(tables, (), codes), codes))
        for tables in (measured(VIEWS, 200.0**2, seed, codes) for seed in range(4))
    ]
    near, before = np.mean(errors, axis=0)
    assert near < 1.02 * before


LINKED = JunctionTree((NAMES[:5], NAMES[3:7], NAMES[6:]), ((0, 1), (1, 2)))
INSIDE = tuple(dict.fromkeys(pair for clique in LINKED.cliques for pair in combinations(clique, 2)))
"""Cliques that share two attributes and one, and all pairs inside them."""


def tables_of_tree(near: bool, tables: Sequence[TableEstimate]) -> list[FloatArray]:
    model = GraphicalModel(LINKED, SIZES)
    if near:
        return fit_near_classes(LINKED, model, tables, start=start(), beside=())
    return fit_tree(model, tables, start=start())


def off_tree(tables: Sequence[FloatArray]) -> float:
    """Mean total variation of all cliques from the exact ones."""
    nodes = GraphicalModel(LINKED, SIZES).nodes
    exact = [counted(node.names) / ROWS for node in nodes]
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(tables, exact, strict=True)]))


def test_a_tree_of_a_cause_is_told_better_near_classes():
    # Noise of a cell is a fiftieth of the rows. Seeded: no false alarm.
    errors = [
        (off_tree(tables_of_tree(True, tables)), off_tree(tables_of_tree(False, tables)))
        for tables in (measured(LINKED.cliques, 400.0**2, seed) for seed in range(8))
    ]
    near, before = np.mean(errors, axis=0)
    # With the weight beside independent attributes it would be .846 of it.
    assert near < 0.835 * before


def test_unmeasured_a_tree_has_the_tables_of_its_classes():
    model, classes = GraphicalModel(LINKED, SIZES), LatentClasses.of(CODES, SIZES)
    near = latent_classes._potentials(model, classes, start())
    for node, found in zip(
        model.nodes, fit_tree(model, (), start=start(), beside=near), strict=True
    ):
        assert np.allclose(found, classes.table(node.names), atol=1e-6)


def test_classes_miss_nothing_of_what_they_have_made():
    tables = measured(PAIRS, QUIET)
    two, one = (LatentClasses.of(CODES, SIZES, classes=many) for many in (2, 1))
    fit = TreeFit.of(MODEL, tables, start())
    assert missed(two, fit) == pytest.approx(0, abs=0.02)
    assert missed(one, fit) == pytest.approx(1, abs=0.02)


def test_noise_is_not_counted_as_what_classes_miss():
    # The cells of a pair are off by their noise, as far as a fiftieth of the rows. Seeded.
    classes = LatentClasses.of(CODES, SIZES, classes=2)
    noisy = [measured(PAIRS, 400.0**2, seed) for seed in range(8)]
    found = [missed(classes, TreeFit.of(MODEL, tables, start())) for tables in noisy]
    assert np.mean(found) == pytest.approx(0, abs=0.02)


def test_a_table_of_one_attribute_says_nothing_of_a_dependence():
    classes, pairs = LatentClasses.of(CODES, SIZES, classes=2), measured(PAIRS[:3], LOUD)
    far = TableEstimate(("h",), np.array([0.0, ROWS]), QUIET)
    fits = [TreeFit.of(MODEL, tables, start()) for tables in ([*pairs, far], pairs)]
    assert missed(classes, fits[0]) == pytest.approx(missed(classes, fits[1]), rel=0.01)


def test_of_no_dependence_classes_miss_all():
    exact = start()
    pairs = [
        TableEstimate(pair, ROWS * np.outer(exact[pair[0]], exact[pair[1]]), QUIET)
        for pair in PAIRS
    ]
    assert missed(LatentClasses.of(CODES, SIZES), TreeFit.of(MODEL, pairs, exact)) == 1


def test_a_tree_without_few_classes_is_fitted_without_them():
    """Six attributes of sixteen levels, each one or two levels after the one before, in a ring."""
    rng, levels, names = np.random.default_rng(8), 16, NAMES[:6]
    codes = np.cumsum(rng.integers(1, 3, (ROWS, 6)), axis=1) + rng.integers(0, levels, (ROWS, 1))
    codes %= levels
    links = tuple(pairwise(names))
    tree = JunctionTree(links, tuple((at, at + 1) for at in range(len(links) - 1)))
    model = GraphicalModel(tree, dict.fromkeys(names, levels))
    shares = {one: np.bincount(codes[:, at]) / ROWS for at, one in enumerate(names)}
    tables = []
    for at, link in enumerate(links):
        cells = np.bincount(codes[:, at] * levels + codes[:, at + 1], minlength=levels**2)
        noise = rng.normal(0, 100, (levels, levels))
        tables.append(TableEstimate(link, cells.reshape(levels, levels) + noise, 100.0**2))
    near = fit_near_classes(tree, model, tables, start=shares, beside=())
    before = fit_tree(model, tables, start=shares)
    assert all((one == other).all() for one, other in zip(near, before, strict=True))


def test_where_noise_is_little_classes_change_no_pair():
    tables = measured(PAIRS, QUIET)
    assert off(together(tables)) == pytest.approx(off(alone(tables)), abs=1e-4)


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([(name,) for name in NAMES], id="no table has two attributes"),
        pytest.param((*PAIRS, NAMES), id="one table has all attributes"),
    ],
)
def test_where_classes_tell_nothing_more_nothing_is_fitted_twice(tables, monkeypatch):
    noisy, fits = measured(tables, LOUD), []

    def counted_run(fit: TreeFit, *args: Any) -> list[FloatArray]:
        runs.append(args)
        return run(fit, *args)

    monkeypatch.setattr(TreeFit, "run", counted_run)
    together(measured(tables, LOUD))
    assert len(runs) == 1


def test_cells_that_are_ruled_out_stay_empty():
    ruled = np.zeros([2] * 8)
    ruled[1, 1] = -1e3
    cells = together(measured(PAIRS, LOUD), [ruled])
    assert cells[1, 1].sum() < 1e-12
    assert cells.sum() == pytest.approx(1)


def test_the_same_tables_are_always_fitted_alike():
    tables = measured(PAIRS, LOUD)
    assert (together(tables) == together(tables)).all()
