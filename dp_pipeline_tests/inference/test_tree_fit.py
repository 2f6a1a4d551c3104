"""Inference over a junction tree, sums over its cliques, and fits of it to noisy tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from dp_pipeline.config.encoding import Names
from dp_pipeline.inference import tree_fit
from dp_pipeline.inference.consistency import TableEstimate, reconcile_tables
from dp_pipeline.inference.graphical_model import GraphicalModel, Projection
from dp_pipeline.inference.junction_tree import JunctionTree, triangulated_cliques
from dp_pipeline.inference.tree_fit import TreeFit

Tables = list[np.ndarray]


@dataclass(frozen=True)
class Small:
    """A model, and log-potentials for its nodes."""

    model: GraphicalModel
    tree: JunctionTree
    potentials: Tables

    @property
    def names(self) -> Names:
        return tuple(self.model.sizes)

    def marginals(self) -> tuple[Tables, float]:
        """Of the nodes, by writing down every cell."""
        log = np.zeros(tuple(self.model.sizes.values()))
        for node, table in zip(self.model.nodes, self.potentials, strict=True):
            order = sorted(range(len(node.names)), key=lambda at: self.names.index(node.names[at]))
            shape = [self.model.sizes[n] if n in node.names else 1 for n in self.names]
            log = log + table.transpose(order).reshape(shape)
        largest = log.max()
        log_total = float(largest + np.log(np.exp(log - largest).sum()))
        joint = np.exp(log - log_total)
        return [summed(joint, self.names, node.names) for node in self.model.nodes], log_total


def summed(table: np.ndarray, names: Sequence[str], wanted: Sequence[str]) -> np.ndarray:
    """The marginal over ``wanted`` of a table whose axes are ``names``."""
    remaining = [name for name in names if name in wanted]
    axes = tuple(index for index, name in enumerate(names) if name not in wanted)
    return table.sum(axis=axes).transpose([remaining.index(name) for name in wanted])


def model_over(sizes: dict[str, int], pairs: Sequence[tuple[str, str]]) -> tuple:
    tree = JunctionTree.of(triangulated_cliques(pairs, sizes), sizes)
    return GraphicalModel(tree, sizes), tree


@st.composite
def small_models(draw: st.DrawFn, *, spread: Sequence[float] = (0.0, 1.0, 30.0, 1000.0)) -> Small:
    """Up to five attributes of up to three levels, any pairs of them connected."""
    names = "abcde"[: draw(st.integers(1, 5))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    pairs = list(combinations(names, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    model, tree = model_over(sizes, chosen)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    width = draw(st.sampled_from(spread))
    return Small(model, tree, [width * rng.uniform(-1, 1, node.shape) for node in model.nodes])


@st.composite
def covered_tables(draw: st.DrawFn, model: GraphicalModel) -> list[Names]:
    """Marginals inside the cliques, in any order of their axes; () is the number of rows."""
    matches = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.permutations(draw(st.sampled_from(model.nodes)).names))
        matches.append(tuple(names[: draw(st.integers(0, len(names)))]))
    return matches


@given(small=small_models())
def test_marginals_are_those_of_the_full_joint_table(small: Small):
    tables, log_total = small.model.marginals(small.potentials)
    expected, expected_total = small.marginals()
    assert log_total == pytest.approx(expected_total, rel=1e-12, abs=1e-9)
    for table, other, node in zip(tables, expected, small.model.nodes, strict=True):
        assert table.shape == node.shape
        assert np.allclose(table, other, atol=1e-9)


def chain(length: int, size: int = 2) -> GraphicalModel:
    """Pairs of neighbours along a line of attributes."""
    names = [f"x{at}" for at in range(length + 1)]
    cliques = tuple((names[at], names[at + 1]) for at in range(length))
    links = tuple((at, at + 1) for at in range(length - 1))
    return GraphicalModel(JunctionTree(cliques, links), dict.fromkeys(names, size))


@pytest.mark.parametrize("potential", [-1000.0, 1000.0])
def test_a_thousand_huge_potentials_do_not_overflow(potential: float):
    model = chain(1000)
    tables, log_total = model.marginals([np.full(node.shape, potential) for node in model.nodes])
    assert log_total == pytest.approx(1000 * potential + 1001 * np.log(2))
    assert all(np.allclose(table, 0.25) for table in tables)


def test_what_is_impossible_stays_so_down_the_tree():
    first = np.array([[0.0, 0.0], [-1000.0, -1000.0]])
    same = np.array([[0.0, -1000.0], [-1000.0, 0.0]])
    potentials = [first, same, same.copy()]
    tables, _ = chain(3).marginals(potentials)
    assert tables[0].tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert np.allclose(tables[2], [[0.5, 0.0], [0.0, 0.5]])
    assert (potentials[1] == potentials[2]).all(), "potentials were changed"
    assert [table.min() for table in potentials] == [-1000.0] * 3


@given(small=small_models(spread=(1.0,)))
def test_tables_by_clique_have_the_axes_of_the_clique(small: Small):
    tables, _ = small.model.marginals(small.potentials)
    by_clique = small.model.by_clique(tables)
    assert list(by_clique) == list(small.tree.cliques)
    for (clique, table), node, own in zip(
        by_clique.items(), small.model.nodes, tables, strict=True
    ):
        assert np.array_equal(table, summed(own, node.names, clique))


@given(small=small_models(spread=(1.0,)))
def test_the_home_of_attributes_is_a_smallest_clique(small: Small):
    model = small.model
    assert model.cells == sum(table.size for table in model.zeros())
    for node in model.nodes:
        for names in (node.names, node.names[:1], ()):
            home = model.nodes[model.smallest_node_with(names)]
            assert set(names) <= set(home.names)
            sizes = [np.prod(n.shape) for n in model.nodes if set(names) <= set(n.names)]
            assert np.prod(home.shape) == min(sizes)
    with pytest.raises(ValueError, match="empty"):
        chain(2).smallest_node_with(("x0", "x2"))


@given(small=small_models(spread=(1.0,)), data=st.data(), seed=st.integers(0, 99))
def test_backward_is_the_transpose_of_forward(small: Small, data: st.DataObject, seed: int):
    names = data.draw(covered_tables(small.model))
    projection = Projection(small.model, names)
    forward, expected = projection.forward(small.potentials), []
    for wanted in names:
        home = small.model.smallest_node_with(wanted)
        clique = small.potentials[home]
        expected.append(summed(clique, small.model.nodes[home].names, wanted).ravel())
    assert np.allclose(forward, np.concatenate(expected), atol=1e-12)
    cells = np.random.default_rng(seed).normal(size=forward.shape)
    backward = projection.backward(cells)
    assert [table.shape for table in backward] == [node.shape for node in small.model.nodes]
    along = sum(float((a * b).sum()) for a, b in zip(small.potentials, backward, strict=True))
    assert forward @ cells == pytest.approx(along, abs=1e-9)


def test_all_pairs_of_a_large_clique_are_sums_of_it():
    names = tuple(f"x{at}" for at in range(12))
    model = GraphicalModel(JunctionTree((names,), ()), dict.fromkeys(names, 2))
    table = np.random.default_rng(1).random((2,) * 12)
    pairs = [*combinations(names, 2), *combinations(names[::-1], 2)]
    cells = Projection(model, pairs).forward([table]).reshape(-1, 2, 2)
    for pair, got in zip(pairs, cells, strict=True):
        assert np.allclose(got, summed(table, names, pair))


def test_no_marginals_are_no_cells():
    model = GraphicalModel(JunctionTree((("a",), ("b",)), ((0, 1),)), {"a": 3, "b": 2})
    projection = Projection(model, [])
    assert projection.forward([np.ones(3), np.ones(2)]).shape == (0,)
    assert projection.backward(np.zeros(0))[0].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="empty"):
        Projection(model, [("a", "b")])


ROWS = 10_000.0
FIVE_OF_TEN = ((0, 1, 2, 3, 4), (0, 2, 4, 6, 8), (0, 1, 3, 6, 7), (0, 3, 5, 6, 9))
Dual = Callable[[np.ndarray], tuple[float, np.ndarray]]


def even(model: GraphicalModel) -> dict[str, np.ndarray]:
    return {name: np.full(size, 1 / size) for name, size in model.sizes.items()}


def measured_over(
    model: GraphicalModel, tables: list[np.ndarray], wanted: Sequence[Names]
) -> list[TableEstimate]:
    """Tables of 10,000 rows next to without noise, of a distribution."""
    homes = [model.smallest_node_with(names) for names in wanted]
    return [
        TableEstimate(names, ROWS * summed(tables[home], model.nodes[home].names, names), 1e-4)
        for names, home in zip(wanted, homes, strict=True)
    ]


@settings(max_examples=25)
@given(small=small_models(spread=(0.5, 2.0)))
def test_without_noise_the_fit_is_the_distribution(small: Small):
    model = small.model
    exact, _ = model.marginals(small.potentials)
    cliques = [node.names for node in model.nodes]
    fitted = TreeFit.of(model, measured_over(model, exact, cliques), even(model)).run()
    for table, other in zip(fitted, exact, strict=True):
        assert np.allclose(table, other, atol=1e-3)


def test_overlapping_tables_without_noise_fit_within_three_rows():
    # Rows in a few cells of 1,024: in most cells of the tables there is next to nothing.
    names = tuple("abcdefghij")
    model = GraphicalModel(JunctionTree((names,), ()), dict.fromkeys(names, 2))
    full = np.random.default_rng(5).dirichlet(np.full(1 << 10, 0.05)).reshape((2,) * 10)
    wanted = [tuple(names[(i + j) % 10] for j in steps) for steps in FIVE_OF_TEN for i in range(10)]
    measured = measured_over(model, [full], wanted)
    (fitted,) = TreeFit.of(model, measured, even(model)).run()
    gaps = [ROWS * summed(fitted, names, table.attributes) - table.table for table in measured]
    assert np.mean([np.abs(gap).sum() for gap in gaps]) < 3


@settings(max_examples=25)
@given(small=small_models(spread=(1.0,)), seed=st.integers(0, 99))
def test_where_nothing_is_measured_the_fit_is_the_start(small: Small, seed: int):
    model, rng = small.model, np.random.default_rng(seed)
    start = {name: rng.dirichlet(np.ones(size)) for name, size in model.sizes.items()}
    for node, table in zip(model.nodes, TreeFit.of(model, [], start).run(), strict=True):
        product = np.ones(())
        for name in node.names:
            product = np.multiply.outer(product, start[name])
        assert np.allclose(table, product, atol=1e-6)


@settings(max_examples=25)
@given(small=small_models(spread=(1.0,)), data=st.data(), seed=st.integers(0, 99))
def test_any_noise_leaves_probabilities_that_agree(small: Small, data: st.DataObject, seed: int):
    model, rng = small.model, np.random.default_rng(seed)
    noisy = [
        TableEstimate(names, rng.normal(0, 100, [model.sizes[name] for name in names]), 1e4)
        for names in data.draw(covered_tables(model))
    ]
    tables = TreeFit.of(model, noisy, even(model)).run()
    for node, table in zip(model.nodes, tables, strict=True):
        assert table.shape == node.shape
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(1)
        if node.parent is not None:
            above, shared = model.nodes[node.parent], node.names[: node.separator]
            there = summed(tables[node.parent], above.names, shared)
            assert np.allclose(summed(table, node.names, shared), there, atol=1e-9)


def dual_of(
    small: Small, measured: Sequence[TableEstimate], monkeypatch: pytest.MonkeyPatch
) -> tuple[Dual, int]:
    """What is minimised, and in how many numbers."""
    caught: list[tuple[Dual, int]] = []

    def caught_instead(dual: Dual, start: np.ndarray, **_: object) -> object:
        caught.append((dual, len(start)))
        return scipy.optimize.OptimizeResult(x=start, nit=0)

    with monkeypatch.context() as patched:
        patched.setattr(scipy.optimize, "minimize", caught_instead)
        TreeFit.of(small.model, measured, even(small.model)).run()
    return caught[0]


@pytest.fixture
def triangle() -> tuple[Small, list[TableEstimate]]:
    """Two cliques, and three noisy tables over them, one of them over a part of another."""
    model, tree = model_over({"a": 2, "b": 3, "c": 2, "d": 2}, [("a", "b"), ("b", "c"), ("c", "d")])
    rng = np.random.default_rng(4)
    noisy = [
        TableEstimate(names, rng.normal(300, 90, [model.sizes[n] for n in names]), variance)
        for names, variance in ((("a", "b"), 400.0), (("c", "b"), 900.0), (("d",), 25.0))
    ]
    return Small(model, tree, model.zeros()), noisy


def test_the_dual_is_convex_and_its_slope_that_of_differences(triangle, monkeypatch):
    dual, many = dual_of(*triangle, monkeypatch)
    rng = np.random.default_rng(1)
    point = rng.normal(size=many)
    _, slope = dual(point)
    for at, move in enumerate(1e-5 * np.eye(many)):
        numeric = (dual(point + move)[0] - dual(point - move)[0]) / 2e-5
        assert slope[at] == pytest.approx(numeric, rel=1e-4, abs=1e-5)
    for _ in range(50):
        start, end = rng.normal(size=(2, many)) * 3
        assert dual((start + end) / 2)[0] <= (dual(start)[0] + dual(end)[0]) / 2 + 1e-9


def log_joint(model: GraphicalModel, tables: list[np.ndarray]) -> np.ndarray:
    """Of all cells, from the tables of the nodes."""
    log = np.zeros(tuple(model.sizes.values()))
    for node, table in zip(model.nodes, tables, strict=True):
        log += np.log(spread_out(table, node.names, model))
        shared = node.names[: node.separator]
        log -= np.log(spread_out(summed(table, node.names, shared), shared, model))
    assert np.exp(log).sum() == pytest.approx(1)
    return log


def spread_out(table: np.ndarray, names: Sequence[str], model: GraphicalModel) -> np.ndarray:
    """A table over ``names`` as one that broadcasts over all cells."""
    in_order = summed(table, names, tuple(name for name in model.sizes if name in names))
    return in_order.reshape([size if n in names else 1 for n, size in model.sizes.items()])


def test_what_the_fit_adds_is_in_proportion_to_the_misfit(triangle, monkeypatch):
    # Where ½ Σ ‖N μ − y‖² / σ² + w · KL(μ ‖ start) is least, log μ − log start is
    # Σ N (y − N μ) / (w σ²) and a constant, for whatever weight w there is.
    monkeypatch.setattr(tree_fit, "PART_OF_NOISE", 1e-6)
    small, measured = triangle
    model = small.model
    fitted = TreeFit.of(model, measured, even(model)).run()
    rows, targets = reconcile_tables(measured, model.sizes)
    variance = {frozenset(marginal.attributes): marginal.variance for marginal in measured}
    off = np.zeros(tuple(model.sizes.values()))
    for names, target in targets.items():
        home = model.smallest_node_with(names)
        here = rows * summed(fitted[home], model.nodes[home].names, names)
        off = off + spread_out((target - here) / variance[frozenset(names)], names, model)
    added, off = log_joint(model, fitted), off - off.mean()
    added -= added.mean()
    weight = float((added * off).sum() / (off * off).sum())
    assert weight > 0
    assert np.abs(added).max() > 0.1
    assert np.abs(added - weight * off).max() < 0.01 * np.abs(added).max()


def test_a_fit_ends_where_noise_outweighs_what_is_left(triangle, monkeypatch):
    small, measured = triangle
    evaluations, value_and_slope = list[int](), tree_fit._Dual.value_and_slope

    def counted(dual: tree_fit._Dual, theta: np.ndarray) -> tuple[float, np.ndarray]:
        evaluations[-1] += 1
        return value_and_slope(dual, theta)

    monkeypatch.setattr(tree_fit._Dual, "value_and_slope", counted)
    fits = []
    for part in (0.01, 1e-9):
        monkeypatch.setattr(tree_fit, "PART_OF_NOISE", part)
        evaluations.append(0)
        fits.append(TreeFit.of(small.model, measured, even(small.model)).run())
    assert evaluations[0] < 0.9 * evaluations[1]
    rows = reconcile_tables(measured, small.model.sizes)[0]
    for table in measured:
        home = small.model.smallest_node_with(table.attributes)
        names = small.model.nodes[home].names
        early, late = (rows * summed(fit[home], names, table.attributes) for fit in fits)
        assert np.abs(early - late).sum() < 0.02 * table.table.size * table.variance**0.5


@pytest.mark.parametrize("clique", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_one_table_of_all_is_projected_to_nearest_shares(clique, names):
    model = GraphicalModel(JunctionTree((clique,), ()), {"a": 2, "b": 2})
    counts = np.array([[60.0, -20.0], [50.0, 10.0]])
    (fitted,) = TreeFit.of(model, [TableEstimate(names, counts, 9.0)], even(model)).run()
    # 100 rows: 20/3 less in each cell of those that stay above none.
    nearest = np.maximum(counts - 20 / 3, 0) / 100
    assert np.allclose(fitted, nearest if clique == names else nearest.T)


def test_a_table_far_from_independence_is_kept_nearer():
    # Both are off the product of their margins; in one cell of the first by 250 deviations.
    names = ("a", "b", "c")
    model, _ = model_over(dict.fromkeys(names, 2), combinations(names, 2))
    far = np.array([[500.0, 0.0], [0.0, 500.0]])
    left = []
    for variance in (1.0, 1e5):
        noisy = [TableEstimate(pair, far, variance) for pair in (("a", "b"), ("b", "c"))]
        (fitted,) = TreeFit.of(model, noisy, even(model)).run()
        off = np.abs(1000 * summed(fitted, model.nodes[0].names, ("a", "b")) - far).max()
        left.append(off / variance**0.5)
    assert left[0] < left[1] / 2


def test_negative_cells_and_a_negative_number_of_rows_are_fitted():
    model, _ = model_over({"a": 3}, [])
    for counts in ([-5.0, -7.0, -9.0], [0.0, 0.0, 0.0], [-1e9, 1e9, 0.0]):
        table = TableEstimate(("a",), np.array(counts), 2.0)
        (fitted,) = TreeFit.of(model, [table], even(model)).run()
        assert np.isfinite(fitted).all()
        assert fitted.sum() == pytest.approx(1)


def test_a_fit_uses_one_thread(monkeypatch: pytest.MonkeyPatch):
    # Sums of more than 10,000 cells are shared among threads, and rounded otherwise by each number
    # of them: a release of four attributes of 60 levels was replayed to other rows on another core.
    model, _ = model_over({"a": 2, "b": 2, "c": 2}, [("a", "b"), ("b", "c")])
    table = TableEstimate(("a", "b"), np.array([[3.0, 1.0], [1.0, 5.0]]), 1.0)
    threads, minimize = set[int](), scipy.optimize.minimize

    def counting(*arguments: object, **options: object) -> object:
        threads.update(pool["num_threads"] for pool in threadpool_info())
        return minimize(*arguments, **options)

    monkeypatch.setattr(scipy.optimize, "minimize", counting)
    with threadpool_limits(2):
        TreeFit.of(model, [table], even(model)).run()
    assert threads == {1}


def test_a_marginal_measured_well_stays():
    model = GraphicalModel(JunctionTree((("a", "b"),), ()), {"a": 2, "b": 5})
    rng, loud, quiet = np.random.default_rng(0), ROWS / 5, ROWS / 1000
    # Half of the cells are empty, and noise of a fifth of the rows would fill them.
    exact = ROWS * np.array([[0.5, 0.02, 0, 0, 0], [0.0, 0.48, 0, 0, 0]])
    ways, errors = {"a": exact.sum(axis=1), "b": exact.sum(axis=0)}, []
    for _ in range(20):
        both = exact + rng.normal(0, loud, exact.shape)
        counted = TableEstimate((), np.array(ROWS), 1.0)
        measured = [counted, TableEstimate(("a", "b"), both, loud**2)]
        for name, counts in ways.items():
            noisy = counts + rng.normal(0, quiet, counts.shape)
            measured.append(TableEstimate((name,), noisy, quiet**2))
        start = {name: counts / ROWS for name, counts in ways.items()}
        (table,) = TreeFit.of(model, measured, start).run()
        errors.append(np.abs(table.sum(axis=1) - start["a"]).sum())
    # Of noise of a thousandth of the rows, and not of a fifth.
    assert np.mean(errors) < 0.01
