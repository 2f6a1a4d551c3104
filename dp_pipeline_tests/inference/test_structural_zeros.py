"""Cells that are declared to be empty: a fit without mass there, and what is still uncertain."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.constraints import AllowedCells
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.fitted_tree import FittedRows, FittedTree, OneWays
from dp_pipeline.inference.structural_zeros import NONE, StructuralZeros
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline_tests.models.tables import domain_of

SIZES = {"a": 3, "b": 2, "c": 2}


def entry(names: str, *empty: tuple[int, ...], sizes: dict[str, int] = SIZES) -> AllowedCells:
    """Everything but these cells."""
    mask = np.ones([sizes[name] for name in names], dtype=np.bool_)
    for cell in empty:
        mask[cell] = False
    return AllowedCells(tuple(names), mask)


ZEROS = StructuralZeros((entry("ab", (0, 1)), entry("bc", (1, 0), (0, 1))))
"""a = 0 never has b = 1, and c is b."""


def joint(tree: FittedTree) -> np.ndarray:
    """Probabilities of all cells over a, b and c."""
    tables = tree.model.by_clique(list(tree.tables))
    ab, bc = tables["a", "b"], tables["b", "c"]
    b = bc.sum(axis=1)
    return ab[:, :, None] * np.divide(bc, b[:, None], out=np.zeros_like(bc), where=b[:, None] > 0)


def fitted_to(iterations: int, variance: float, **tables: list) -> FittedTree:
    """The fit to tables that are named by their attributes."""
    measured = [TableEstimate(tuple(n), np.array(t, float), variance) for n, t in tables.items()]
    valid = ZEROS.clear_forbidden_cells(measured)
    return FittedTree.of(valid, OneWays.within(valid, SIZES), ZEROS, iterations=iterations)


def test_the_fit_has_no_mass_in_empty_cells():
    loud = {"ab": [[10, 900], [5, 20], [8, 9]], "bc": [[30, 800], [700, 40]]}
    cells = joint(fitted_to(300, 4.0, **loud))
    for a, b, c in product(*map(range, cells.shape)):
        assert cells[a, b, c] == 0 or ((a, b) != (0, 1) and b == c)
    assert cells.sum() == pytest.approx(1)


def test_without_noise_the_fit_is_what_was_measured():
    truth = np.array([[300.0, 0.0], [50.0, 150.0], [100.0, 400.0]])
    tree = fitted_to(2000, 1e-6, ab=truth, c=truth.sum(axis=0))
    assert np.abs(joint(tree).sum(axis=2) * 1000 - truth).max() < 1e-3


def test_what_is_not_measured_follows_from_the_empty_cells():
    """c is b, although no table has both."""
    tree = fitted_to(2000, 1e-6, a=[300, 200, 500], b=[550, 450], c=[550, 450])
    expected = ZEROS.predict_shares(("a", "b"), np.array([0.3, 0.2, 0.5]), np.array([0.55, 0.45]))
    assert np.abs(joint(tree).sum(axis=2) - expected).max() < 1e-4
    assert tree.predict_counts(("a", "c"))[0, 1] == 0


@settings(max_examples=40)
@given(st.data())
def test_no_drawn_row_is_in_an_empty_cell(data: st.DataObject):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = {name: int(rng.integers(2, 6)) for name in "abcd"}
    entries = []
    for names in data.draw(st.sampled_from([("ab",), ("ab", "bc"), ("abc", "cd"), ("ad", "ac")])):
        mask = rng.random([sizes[name] for name in names]) < 0.6
        mask.flat[0] = True
        entries.append(AllowedCells(tuple(names), mask))
    zeros = StructuralZeros(tuple(entries))
    shares = {name: rng.dirichlet(np.ones(size)) for name, size in sizes.items()}
    groupings = {
        name: Grouping.by_share(share, least=0.4, kinds=zeros.kinds(name))
        for name, share in shares.items()
    }
    is_grouped = data.draw(st.booleans())

    def noisy(names: str, levels: dict[str, int]) -> NoisyMarginal:
        table = rng.normal(100, 300, [levels[name] for name in names])
        return NoisyMarginal(tuple(names), np.rint(table).astype(np.int64), Fraction(9))

    ways = [noisy(name, sizes) for name in sizes]
    levels = {name: group.size for name, group in groupings.items()} if is_grouped else sizes
    pairs = [noisy(names, levels) for names in ("ab", "cd")]
    measured = (NoisyMarginal((), np.array(900), Fraction(9)), *pairs)
    cap = 1 << 16 if is_grouped else data.draw(st.sampled_from([4, 1 << 16]))
    groups = groupings if is_grouped else {}
    fitted = FittedRows(measured, sizes, OneWays.of(ways), groups, cap, zeros)
    domain = domain_of(tuple(sizes.values()))
    table = fitted.draw_table(tuple(sizes), domain, np.random.default_rng(1), lambda _: 500)
    assert zeros.holds(dict(zip(sizes, table.codes.T, strict=True))).all()
    assert len(table.codes) == 500 or (cap == 4 and not len(table.codes))


def test_the_noise_of_empty_cells_is_left_out_of_every_sum():
    table = np.array([[10, 7], [5, 20], [8, 9]])
    (cleared,) = ZEROS.clear_forbidden_cells([TableEstimate(("a", "b"), table, 4.0)])
    assert cleared.table.tolist() == [[10, 0], [5, 20], [8, 9]]
    (turned,) = ZEROS.clear_forbidden_cells([TableEstimate(("b", "a"), table.T, 4.0)])
    assert turned.table.tolist() == cleared.table.T.tolist()
    other = TableEstimate(("a", "c"), table, 4.0)
    assert ZEROS.clear_forbidden_cells([other]) == (other,)
    # What all levels exclude is empty too.
    both = StructuralZeros((entry("abc", (0, 0, 0), (0, 0, 1), (1, 1, 1)),))
    (cleared,) = both.clear_forbidden_cells([TableEstimate(("a", "b"), np.ones((3, 2)), 1.0)])
    assert cleared.table.tolist() == [[0, 1], [1, 1], [1, 1]]


def test_a_group_may_be_where_its_levels_may_be():
    grouped = ZEROS.grouped({"a": Grouping((0, 1, 1))})
    assert grouped.allowed[0].mask.tolist() == [[True, False], [True, True]]
    assert grouped.allowed[1] is not None
    assert NONE.kinds("a") is None
    assert ZEROS.kinds("d") is None


def test_the_expected_table_has_margins_and_empty_cells():
    left, right = np.array([0.5, 0.3, 0.2]), np.array([0.8, 0.2])
    table = ZEROS.predict_shares(("a", "b"), left, right)
    assert np.abs(table.sum(axis=1) - left).max() < 1e-6
    assert np.abs(table.sum(axis=0) - right).max() < 1e-6
    assert table[0, 1] == 0
    # Odds ratios of what may be are those of the product.
    assert table[1, 0] * table[2, 1] == pytest.approx(table[1, 1] * table[2, 0])
    assert NONE.predict_shares(("a", "b"), left, right).tolist() == np.outer(left, right).tolist()


def test_entries_that_exclude_each_other_leave_nothing():
    """b is a, c is b, and c is not a."""
    sizes = dict.fromkeys("abc", 2)
    same = [(0, 1), (1, 0)]
    circle = [entry(names, *same, sizes=sizes) for names in ("ab", "bc")]
    assert not StructuralZeros(tuple(circle)).is_contradictory(sizes)
    odd = entry("ac", (0, 0), (1, 1), sizes=sizes)
    assert StructuralZeros((*circle, odd)).is_contradictory(sizes)
    assert not NONE.is_contradictory(sizes)


def test_of_twins_one_is_left():
    sizes = {"a": 2, "b": 2, "c": 3}
    swapped = entry("ab", (0, 0), (1, 1), sizes=sizes)
    about = entry("bc", (0, 2), sizes=sizes)
    zeros, (twin,) = StructuralZeros((swapped, about)).without_twins()
    assert (twin.name, twin.other, twin.levels.tolist()) == ("b", "a", [1, 0])
    (left,) = zeros.allowed
    assert left.names == ("a", "c")
    assert np.argwhere(~left.mask).tolist() == [[1, 2]]


def test_an_entry_about_both_twins_is_about_matching_levels():
    sizes = {"a": 2, "b": 2, "c": 3}
    same = entry("ab", (0, 1), (1, 0), sizes=sizes)
    both = entry("abc", (0, 0, 2), (0, 1, 1), sizes=sizes)
    zeros, _ = StructuralZeros((same, both)).without_twins()
    (left,) = zeros.allowed
    cells = {tuple(sorted(zip(left.names, cell, strict=True))) for cell in np.argwhere(~left.mask)}
    assert cells == {(("a", 0), ("c", 2))}


def test_a_chain_of_twins_is_put_back_from_its_first():
    sizes = dict.fromkeys("abc", 3)
    turn = [(at, to) for at, to in product(range(3), repeat=2) if to != (at + 1) % 3]
    chain = [entry(names, *turn, sizes=sizes) for names in ("ab", "bc")]
    zeros, twins = StructuralZeros(tuple(chain)).without_twins()
    assert not zeros
    codes = {"a": np.arange(3)}
    for twin in twins:
        codes[twin.name] = twin.levels[codes[twin.other]]
    assert [codes[name].tolist() for name in "abc"] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    coarser = StructuralZeros((entry("ab", (0, 1), (1, 1), (2, 0)),))
    assert coarser.without_twins() == (coarser, ())


def test_rows_that_do_not_hold_are_drawn_again():
    rng, wrong = np.random.default_rng(0), np.array([[0, 1, 1]])
    codes = ZEROS.draw_valid_rows(lambda many: rng.integers(0, 2, (many, 3)), 1000, ("a", "b", "c"))
    assert codes.shape == (1000, 3)
    assert ZEROS.holds(dict(zip("abc", codes.T, strict=True))).all()
    # What cannot be drawn is repeated.
    none = ZEROS.draw_valid_rows(lambda many: np.repeat(wrong, many, 0), 5, tuple("abc"))
    assert none.shape == (0, 3)
    first = iter([np.array([[0, 0, 0], [0, 1, 1]])])
    codes = ZEROS.draw_valid_rows(
        lambda many: next(first, np.repeat(wrong, many, 0)), 2, tuple("abc")
    )
    assert codes.tolist() == [[0, 0, 0], [0, 0, 0]]
