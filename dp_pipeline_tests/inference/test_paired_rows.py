"""PairedRows: rows whose pairs have the tables that were measured, whatever the network."""

from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.config.constraints import AllowedCells
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.inference import paired_rows
from dp_pipeline.inference.clique_join import sample_network
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.paired_rows import PairedRows, fit_chances
from dp_pipeline.inference.structural_zeros import NONE, StructuralZeros

ROWS = 20_000


def counted(codes: IntArray, sizes: dict[str, int], names: tuple[str, ...]) -> np.ndarray:
    table = np.zeros([sizes[name] for name in names])
    np.add.at(table, tuple(codes[:, list(sizes).index(name)] for name in names), 1)
    return table


def paired_with(
    codes: IntArray, sizes: dict[str, int], zeros: StructuralZeros = NONE
) -> PairedRows:
    """By all pairs, next to without noise."""
    pairs = combinations(sizes, 2)
    measured = [TableEstimate(pair, counted(codes, sizes, pair), 1e-6) for pair in pairs]
    return PairedRows.of(measured, sizes, zeros)


def off(codes: IntArray, drawn: IntArray, sizes: dict[str, int]) -> float:
    """The largest distance of a pair, from 0 to 1."""
    gaps = [counted(codes, sizes, p) - counted(drawn, sizes, p) for p in combinations(sizes, 2)]
    return max(float(np.abs(gap).sum()) for gap in gaps) / 2 / len(codes)


def excluding() -> tuple[IntArray, dict[str, int]]:
    """Eighteen binary attributes: six indicators of one level each, the same of another
    attribute that depends on it, and six that depend on both.
    """
    rng = np.random.default_rng(3)
    kind = rng.choice(6, ROWS, p=[0.35, 0.25, 0.15, 0.1, 0.1, 0.05])
    other = np.where(rng.random(ROWS) < 0.6, (kind + 1) % 6, rng.integers(0, 6, ROWS))
    late = [rng.random(ROWS) < 0.1 + 0.12 * np.abs(kind - at) for at in range(3)]
    late += [rng.random(ROWS) < 0.05 + 0.15 * np.abs(other - at) for at in range(3)]
    columns = [*(kind == at for at in range(6)), *(other == at for at in range(6)), *late]
    return np.stack(columns, axis=1).astype(np.int64), {f"x{at}": 2 for at in range(18)}


def test_every_pair_fits_where_attributes_exclude_each_other():
    codes, sizes = excluding()
    paired, rng = paired_with(codes, sizes), np.random.default_rng(1)
    assert off(codes, paired.draw_codes(ROWS, rng), sizes) < 0.002
    assert off(codes, sample_network(paired._network, ROWS, rng, sizes), sizes) > 0.01


def test_every_pair_fits_where_rows_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch):
    codes, sizes = excluding()
    monkeypatch.setattr(paired_rows, "MOST_ROWS", ROWS // 3)
    drawn = paired_with(codes, sizes).draw_codes(ROWS, np.random.default_rng(1))
    assert off(codes, drawn, sizes) < 0.004
    assert counted(drawn, sizes, ("x0",)).sum() == ROWS


def test_attributes_of_several_levels_fit_too():
    rng = np.random.default_rng(5)
    first = rng.integers(0, 4, ROWS)
    second = np.where(rng.random(ROWS) < 0.5, first % 3, rng.integers(0, 3, ROWS))
    third = (first + second + (rng.random(ROWS) < 0.3)) % 5
    codes, sizes = np.stack([first, second, third], axis=1), {"a": 4, "b": 3, "c": 5}
    drawn = paired_with(codes, sizes).draw_codes(ROWS, np.random.default_rng(1))
    assert off(codes, drawn, sizes) < 0.002


@pytest.mark.chain
@pytest.mark.parametrize("rows", [0, 1, 7, 50_000])
def test_as_many_rows_as_are_asked_for_alike_for_one_seed(rows: int):
    codes, sizes = excluding()
    paired = paired_with(codes, sizes)
    drawn, again = (paired.draw_codes(rows, np.random.default_rng(2)) for _ in range(2))
    assert drawn.shape == (rows, len(sizes))
    assert drawn.tobytes() == again.tobytes()
    if rows > ROWS:
        assert off(codes, drawn[:ROWS], sizes) < 0.02  # In no order.


def test_no_row_is_in_a_cell_without_mass():
    codes, sizes = excluding()
    never = np.array([[[True, True], [True, False]], [[True, False], [True, True]]])
    zeros = StructuralZeros((AllowedCells(("x12", "x17", "x14"), never),))
    paired = paired_with(codes, sizes, zeros)
    drawn = paired.draw_codes(ROWS, np.random.default_rng(1))
    assert zeros.holds(dict(zip(sizes, drawn.T, strict=True))).all()
    assert off(codes, drawn, sizes) < 0.2


def test_chances_fit_what_is_wanted_and_those_that_are_sure_stay():
    rng = np.random.default_rng(0)
    start = np.concatenate([[0.0, 1.0], rng.random(60)])
    features = np.concatenate([np.ones((62, 1)), rng.integers(0, 2, (62, 3))], axis=1)
    rows = rng.integers(1, 200, 62)
    wanted = (rows * np.concatenate([[0.0, 1.0], rng.random(60)])) @ features
    chances = fit_chances(start, features, rows, wanted, np.full(4, 1e-3))
    assert chances[:2].tolist() == [0.0, 1.0]
    assert np.allclose((rows * chances) @ features, wanted, atol=0.1)
    assert np.array_equal(fit_chances(start[:2], features[:2], rows[:2], wanted, wanted), [0, 1])
    # Sums that no chances have leave them finite.
    features, rows, wanted = np.array([[1.0, 0], [1, 1]]), np.array([10, 10]), np.array([12.0, 40])
    chances = fit_chances(np.full(2, 0.5), features, rows, wanted, np.full(2, 0.05))
    assert chances[1] == pytest.approx(1, abs=0.01)
    assert np.isfinite(chances).all()
