"""What one_shot measures: a plan by public numbers, and what a workload changes of it."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text, texts_of
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import build_model
from dp_pipeline.models.base import PrivacyGuarantee, guarantee_at, guarantee_of
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.one_shot import round as one_shot_round
from dp_pipeline.models.tables.one_shot.plan import ONE_WAY_SHARE, ROWS_SHARE, Planning
from dp_pipeline.models.tables.one_shot.workload import Workload
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.config.declarations import loaded, with_attribute
from dp_pipeline_tests.models.contract import Run, check_valid, run
from dp_pipeline_tests.models.tables import (
    DELTA,
    counter_of,
    dependent_rows,
    domain_of,
    every_delta,
    table_of,
)

SMALL, BITS, WIDE = (3, 2, 4), (2,) * 10, (20,) * 8
MANY = (4,) * 30
BITS_CAP = 64
"""Below the cells of all bits together."""

Sizes = Sequence[int]


def fit_valid(sizes, rows, epsilon, *, delta=None, model=None, codes=None, nullable=False) -> Run:
    """A valid release of so many dependent rows, or of these."""
    domain, model = domain_of(sizes, nullable=nullable), model or OneShot()
    counter = counter_of(domain, dependent_rows(sizes, rows) if codes is None else codes)
    done = run(model, counter, epsilon=Fraction(epsilon), domain=domain, delta=delta)
    check_valid(model, done.released, domain=domain)
    return done


def tables_of(done: Run) -> list[tuple[str, ...]]:
    """Attributes of everything that was measured after the number of rows."""
    return [marginal.attributes for marginal in table_of(done).measured[1:]]


def questions(done: Run) -> list[str]:
    """What was asked, but for tables."""
    words = [spend.what for spend in done.spends if not spend.what.startswith("marginal")]
    return [word.split(" of ")[0] for word in words]


def hold_every_pair(tables: Sequence[tuple[str, ...]], sizes: Sizes) -> bool:
    held = {pair for table in tables for pair in combinations(table, 2)}
    return set(combinations((f"x{at}" for at in range(len(sizes))), 2)) <= held


@every_delta
@pytest.mark.parametrize("sizes", [SMALL, BITS, WIDE, MANY], ids=["small", "bits", "wide", "many"])
def test_at_a_tiny_epsilon_nothing_is_asked_about_pairs(sizes, delta):
    done = fit_valid(sizes, 3000, "0.005", delta=delta, model=OneShot(clique_cells=BITS_CAP))
    assert questions(done) == ["number"]
    names = [name for table in tables_of(done) for name in table]
    assert sorted(names) == sorted(f"x{at}" for at in range(len(sizes)))


def test_attributes_of_few_levels_are_packed() -> None:
    bits, wide = (tables_of(fit_valid(sizes, 3000, "0.005")) for sizes in ((2,) * 6, WIDE))
    assert min(len(table) for table in bits) > 1
    assert {len(table) for table in wide} == {1}


@every_delta
def test_where_one_clique_holds_all_every_pair_is_measured(delta: Fraction | None) -> None:
    done = fit_valid(SMALL, 3000, "5", delta=delta)
    assert hold_every_pair(tables_of(done), SMALL)
    (clique,) = table_of(done).cliques
    assert set(clique) == {"x0", "x1", "x2"}


@every_delta
def test_all_pairs_of_bits_are_measured_under_the_cap(delta: Fraction | None) -> None:
    done = fit_valid(BITS, 3000, "50", delta=delta, model=OneShot(clique_cells=BITS_CAP))
    assert questions(done) == ["number"]
    assert hold_every_pair(tables_of(done), BITS)
    assert max(marginal.table.size for marginal in table_of(done).measured) <= BITS_CAP
    exact = np.bincount(dependent_rows(BITS, 3000)[:, :2] @ [2, 1], minlength=4) / 3000
    drawn = table_of(done).probabilities(("x0", "x1")).ravel()
    assert np.abs(drawn - exact).sum() < 0.05


@pytest.mark.parametrize("is_large", [False, True], ids=["few rows", "too many rows"])
@every_delta
def test_without_noise_every_pair_is_right_though_no_tree_fits(delta, is_large, monkeypatch):
    sizes, model, rng = (3,) * 9, OneShot(clique_cells=243), np.random.default_rng(0)
    # All follow a class that is no attribute: each pair depends, given the others too.
    of_class, random = rng.integers(0, 3, (3000, 1)), rng.integers(0, 3, (3000, 9))
    codes = np.where(rng.random((3000, 9)) < 0.6, of_class, random)
    monkeypatch.setattr(one_shot_round, "MOST_ROW_LEVELS", 3000 * 26 if is_large else 3010 * 27)
    done = fit_valid(sizes, 3000, "400", delta=delta, model=model, codes=codes)
    assert hold_every_pair(tables_of(done), sizes) is not is_large
    distances = []
    for first, second in combinations(range(9), 2):
        exact = np.bincount(codes[:, first] * 3 + codes[:, second], minlength=9) / 3000
        drawn = table_of(done).probabilities((f"x{first}", f"x{second}")).ravel()
        distances.append(float(np.abs(drawn - exact).sum()))
    # Each of 3,000 rows is drawn once: a cell is 20 rows off.
    assert (max(distances) < 0.07) is not is_large


@every_delta
def test_tables_are_chosen_by_scores_and_earlier_one_ways(delta: Fraction | None) -> None:
    done = fit_valid(WIDE, 20_000, "4", delta=delta)
    tables = tables_of(done)
    assert questions(done) == ["number", "scores"]
    assert tables[:8] == [(f"x{at}",) for at in range(8)]
    assert min(len(table) for table in tables[8:]) >= 2
    assert set(table_of(done).groupings) == {f"x{at}" for at in range(8)}


def planned(sizes, epsilon, *, rows=3000.0, delta=None, distance=1) -> Planning:
    currency = Currency(delta)
    names = {f"x{at}": size for at, size in enumerate(sizes)}
    rate = NoiseRate(delta is not None, distance)
    return Planning(names, rows, currency.amount_of(Fraction(epsilon)), rate, 1 << 16)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from([2, 3, 9, 40]), min_size=1, max_size=7),
    rows=st.floats(1, 1e7),
    epsilon=st.sampled_from(["0.01", "0.3", "2", "50"]),
    delta=st.sampled_from([None, DELTA]),
    distance=st.integers(1, 5),
)
def test_a_plan_leaves_most_for_the_tables(sizes, rows, epsilon, delta, distance):
    planning = planned(sizes, epsilon, rows=rows, delta=delta, distance=distance)
    assert np.isfinite(planning.errors).all()
    for plan in planning.plans:
        assert ROWS_SHARE + planning.mean_share + ONE_WAY_SHARE + plan.scores <= Fraction(55, 100)
        assert bool(plan.tables) != (plan.scores > 0)


@pytest.mark.chain
@every_delta
@pytest.mark.parametrize("sizes", [SMALL, BITS, WIDE], ids=["small", "bits", "wide"])
def test_a_larger_reach_is_planned_with_like_fewer_rows(sizes, delta):
    for epsilon in ("0.05", "0.5", "5", "50"):
        single = planned(sizes, epsilon, rows=1000.0, delta=delta)
        seven = planned(sizes, epsilon, rows=7000.0, distance=7, delta=delta)
        assert seven.choose() == single.choose()
        assert seven.mean_share == single.mean_share


def test_one_attribute_leaves_nothing_to_plan() -> None:
    assert planned((9,), "5").pairs == []
    done = fit_valid((9,), 100, "5")
    assert (questions(done), tables_of(done)) == (["number"], [("x0",)])


@every_delta
def test_the_least_error_decides_for_every_mean(delta: Fraction | None) -> None:
    planning = planned((2,) * 12, "0.7", rows=2_000.0, delta=delta)
    for place in range(planning.errors.shape[1]):
        certain = np.eye(planning.errors.shape[1])[place]
        best = planning.plans.index(planning.choose(certain))
        assert planning.errors[best, place] == planning.errors[:, place].min()


def test_the_mean_is_paid_for_where_it_decides() -> None:
    shares = {
        epsilon: planned((2,) * 20, epsilon, rows=10_000.0).mean_share
        for epsilon in ("0.001", "0.1", "5")
    }
    assert [shares[epsilon] > 0 for epsilon in ("0.001", "0.1", "5")] == [False, True, False]


def test_likelihoods_are_of_the_noise_that_was_drawn() -> None:
    planning = planned(BITS, "2", rows=50_000.0)
    means = planning.means
    for mean, rows in zip(range(3), means, strict=True):
        assert planning.likelihoods(rows).argmax() == mean
    assert planning.likelihoods(0.0)[2] == pytest.approx(
        np.exp(-(means[2] - means[0]) / planning.mean_scale)
    )


@every_delta
@pytest.mark.parametrize(("mean", "is_covered"), [(0.0, False), (0.9, True)])
def test_all_pairs_are_measured_where_they_depend(mean, is_covered, delta):
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 2, (9000, 1))
    follows = rng.random((9000, 24)) < mean
    codes = np.where(follows, hidden, rng.integers(0, 2, (9000, 24)))
    epsilon = "0.3" if delta is None else "0.1"
    done = fit_valid((2,) * 24, 9000, epsilon, delta=delta, codes=codes)
    assert "total" in questions(done)
    assert hold_every_pair(tables_of(done), (2,) * 24) == is_covered


@every_delta
@pytest.mark.parametrize("epsilon", ["0.01", "1", "8"])
@pytest.mark.parametrize("sizes", [BITS, MANY[:9], SMALL])
def test_a_level_that_no_row_needs_changes_no_plan(sizes, epsilon, delta):
    """Noise is taken for missing values of one attribute at most; of two in one seed of 25."""
    codes, opened = dependent_rows(sizes, 20_000), [size + 1 for size in sizes]
    closed = fit_valid(sizes, 20_000, epsilon, delta=delta, codes=codes)
    open_ = fit_valid(opened, 20_000, epsilon, delta=delta, codes=codes, nullable=True)
    if "scores" not in questions(closed):
        assert tables_of(open_) == tables_of(closed)
    has_missing = (table_of(open_).codes == np.array(sizes)).any(axis=0)
    assert has_missing.sum() <= 1


@every_delta
@pytest.mark.parametrize("sizes", [BITS, MANY[:9]])
def test_missing_values_that_are_many_stay(sizes: Sizes, delta: Fraction | None) -> None:
    codes = dependent_rows(sizes, 20_000)
    codes[np.random.default_rng(2).random(20_000) < 0.2, 3] = sizes[3]
    opened = [size + 1 for size in sizes]
    table = table_of(fit_valid(opened, 20_000, "2", delta=delta, codes=codes, nullable=True))
    missing = (table.codes == np.array(sizes)).mean(axis=0)
    assert missing[3] == pytest.approx(0.2, abs=0.03)
    assert np.delete(missing, 3).max() < 0.03


@pytest.mark.parametrize("seed", range(6))
def test_missing_values_that_early_noise_hides_stay(seed: int) -> None:
    """The first noisy marginal has a deviation of a tenth of the rows, and a quarter is missing."""
    sizes = (2, 4, 5, 8, 12, 4, 6, 3)
    domain = domain_of([size + 1 for size in sizes], nullable=True)
    codes = dependent_rows(sizes, 1000)
    codes[::4, 7] = domain["x7"].missing_code
    done = run(OneShot(), counter_of(domain, codes), noise=SeededNoise(seed), domain=domain)
    assert table_of(done).probabilities(("x7",))[3] == pytest.approx(0.25, abs=0.07)


CAPS = {
    "many levels, packed pairs": ((8,) * 12, 64),
    "bits": (BITS, BITS_CAP),
    "unlike levels": ((4, 3, 2, 4, 2, 16), 16),
    "little room": (WIDE, 400),
    "three levels, little room": ((3,) * 9, 27),
    "a cap below every pair": ((4, 3, 4, 3), 4),
}


# In pure ε there is no better quality than the best: see below.
@pytest.mark.chain
@pytest.mark.parametrize(
    ("quality", "delta"), [("best", None), ("best", DELTA), ("best_plus", DELTA)]
)
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("case", CAPS)
def test_cliques_keep_to_the_cap_and_cells_to_the_plan(case, nullable, quality, delta):
    sizes, cap = CAPS[case]
    model = OneShot(clique_cells=cap, quality=quality)
    domain = domain_of(sizes, nullable=nullable)
    for epsilon in ("0.5", "20"):
        done = fit_valid(sizes, 2000, epsilon, delta=delta, model=model, nullable=nullable)
        table = table_of(done)
        grouped = {name: grouping.size for name, grouping in table.groupings.items()}
        levels = dict(zip(domain.names, domain.shape(domain.names), strict=True)) | grouped
        cells = [prod(levels[name] for name in clique) for clique in table.cliques]
        assert max(cells) <= cap
        assert sum(marginal.table.size for marginal in table.measured) <= model.most_cells(domain)
        assert sum(cells) <= model.most_cells(domain)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from([2, 2, 2, 3, 9]), min_size=2, max_size=10),
    cap=st.sampled_from([16, 100, 5000]),
    concentrated=st.booleans(),
)
def test_views_by_either_noise_are_as_said_before(sizes, cap, concentrated):
    names = {f"x{at}": size for at, size in enumerate(sizes)}
    planning = Planning(names, 1.0, Fraction(1), NoiseRate(concentrated, 3), cap)
    if not planning.pairs or not planning.is_coverable:
        return
    said = OneShot(clique_cells=cap).most_cells(domain_of(sizes))
    for tables in (planning.covering, planning.packed):
        cells = [prod(names[name] for name in table) for table in tables]
        assert 1 + sum(cells) <= said
        assert max(cells) <= cap


@pytest.mark.chain
def test_best_plus_takes_rounds_where_not_every_pair_fits() -> None:
    done = fit_valid(WIDE, 2000, "2", delta=DELTA, model=OneShot(quality="best_plus"))
    assert "next table" in questions(done)
    domain, counter = domain_of(WIDE), counter_of(domain_of(WIDE), dependent_rows(WIDE, 2000))
    rounds = run(AimLike(), counter, epsilon=Fraction(2), domain=domain, delta=DELTA)
    assert rounds.contents == done.contents
    assert rounds.spends == done.spends


@pytest.mark.parametrize(("sizes", "delta"), [(WIDE, None), (SMALL, DELTA), (BITS, DELTA)])
def test_best_plus_is_best_where_every_pair_fits(sizes: Sizes, delta: Fraction | None) -> None:
    model = OneShot(clique_cells=400)
    best = fit_valid(sizes, 500, "2", delta=delta, model=model)
    plus = fit_valid(sizes, 500, "2", delta=delta, model=replace(model, quality="best_plus"))
    assert plus.contents == best.contents
    assert plus.spends == best.spends


MILLIONTH = Fraction(1, 10**6)
ADULT = (16, 7, 16, 16, 16, 7, 14, 6, 5, 2, 8, 15, 16, 41, 2)


@pytest.mark.parametrize(
    ("sizes", "delta", "is_pure"),
    [
        pytest.param((2, 5, 4, 4, 4), MILLIONTH, True, id="five columns"),
        pytest.param(BITS, MILLIONTH, True, id="ten bits"),
        pytest.param((2,) * 16, MILLIONTH, False, id="sixteen bits"),
        pytest.param((2,) * 16, DELTA, False, id="sixteen bits, smaller delta"),
        pytest.param(ADULT, MILLIONTH, False, id="adult"),
        pytest.param(ADULT, DELTA, False, id="adult, smaller delta"),
        pytest.param((5,), DELTA, False, id="one column"),
    ],
)
def test_one_fit_is_pure_where_that_has_less_noise(sizes, delta, is_pure):
    model, domain = OneShot(), domain_of(sizes)
    for epsilon in map(Fraction, ("0.05", "1", "3")):
        alone = guarantee_at(model, epsilon, delta, domain=domain, is_alone=True)
        concentrated = PrivacyGuarantee("dp", epsilon, currency=Currency(delta))
        assert alone == (PrivacyGuarantee("dp", epsilon) if is_pure else concentrated)
        # A population that pays in ρ would pay many times as much for pure ε.
        assert guarantee_of(model, epsilon, delta, domain=domain) == concentrated
        assert guarantee_at(model, epsilon, delta, domain=domain) == concentrated


SIXES = (6,) * 10


@pytest.mark.parametrize(
    ("text", "spelling"),
    [("", ""), ("a 2", "a 2"), (" a  b 0.5 ,c 3.0,", "a b 0.5, c 3"), ("a b c 1000", "a b c 1000")],
)
def test_a_workload_is_read_into_one_spelling(text: str, spelling: str) -> None:
    model = from_text(OneShot, {"workload": text}, of="town")
    assert model.workload == texts_of(model, measuring=True)["workload"] == spelling


@pytest.mark.parametrize(
    "said", ["a", "2", "a a 2", "a b c d 2", "a 0", "a -1", "a 1001", "a 1e3", "a two", "a b, c 2"]
)
def test_any_other_text_is_refused_in_one_line(said: str) -> None:
    with pytest.raises(DeclarationError, match="workload: expected entries of one to three"):
        from_text(OneShot, {"workload": said}, of="town")


def test_a_name_that_is_not_modelled_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the workload must name modelled attributes, but"):
        OneShot(workload="x9 2").check(domain_of((2, 2)))
    OneShot(workload="x1 2").check(domain_of((2, 2)))


def test_weights_of_a_pair_multiply() -> None:
    weights = Workload.of("a 2, a b 3, b c d 5").weights("abcd")
    assert weights[0].tolist() == [1, 6, 2, 2]
    assert (weights == weights.T).all()
    assert weights[1, 2] == weights[2, 3] == 5
    assert Workload().weights("ab") is None


def test_a_declared_label_and_targets_are_a_workload(tmp_path) -> None:
    declared = "label: odd\ntargets: {colour: {positive: [red]}}"
    attributes = with_attribute("{levels: [a, b]}")
    models = "models: {one_shot: , independent: }"
    spec = loaded(tmp_path, attributes=attributes, models=models, extra=declared)
    assert build_model(spec, "one_shot").workload == "odd 4, colour 4"
    own = OneShot(workload="age 2")
    assert own.for_targets(("colour",), spec.domain) is own
    few = OneShot(attributes=("age",)).for_targets(("colour", "age"), spec.domain)
    assert few.workload == "age 4"


def tied_rows(rows: int) -> np.ndarray:
    """Every pair depends on each other through something that is no attribute."""
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 6, (rows, 1))
    return np.where(rng.random((rows, 10)) < 0.5, hidden, rng.integers(0, 6, (rows, 10)))


def distance_of_last(model: OneShot, epsilon: Fraction, delta: Fraction | None) -> float:
    """Of the pairs with the last attribute; mean of two releases."""
    domain, codes = domain_of(SIXES), tied_rows(20_000)
    distances = []
    for seed in range(2):
        rows, noise = counter_of(domain, codes), SeededNoise(seed)
        done = run(model, rows, epsilon=epsilon, domain=domain, delta=delta, noise=noise)
        for column in range(9):
            both = [
                np.bincount(6 * table[:, column] + table[:, 9], minlength=36) / len(table)
                for table in (codes, done.released.codes)
            ]
            distances.append(np.abs(both[0] - both[1]).sum() / 2)
    return float(np.mean(distances))


@pytest.mark.chain
@pytest.mark.parametrize("delta", [None, Fraction(1, 10**6)], ids=["epsilon", "rho"])
def test_pairs_that_count_more_are_nearer(delta: Fraction | None) -> None:
    epsilon = Fraction(1, 2) if delta is None else Fraction(1, 4)
    counted = distance_of_last(OneShot(workload="x9 20"), epsilon, delta)
    alike = distance_of_last(OneShot(), epsilon, delta)
    assert counted < 0.9 * alike


@pytest.mark.chain
@pytest.mark.parametrize("rows", [300, 3_000, 60_000])
def test_every_plan_obeys_a_workload(rows: int) -> None:
    """Packed tables, a covering design and tables by scores: shares or tables are others."""
    for sizes in ((2,) * 12, SIXES):
        domain, codes = domain_of(sizes), dependent_rows(sizes, rows)
        how = {"epsilon": Fraction(1, 5), "domain": domain}
        plans = []
        for model in (OneShot(), OneShot(workload="x1 30")):
            table = table_of(run(model, counter_of(domain, codes), **how))
            plans.append([(marginal.attributes, marginal.scale) for marginal in table.measured[1:]])
        assert plans[0] != plans[1]


def test_the_estimator_takes_it_as_a_parameter_of_its_method() -> None:
    frame = pd.DataFrame({"a": ["x", "y"] * 500, "b": ["x", "y"] * 500, "c": ["x", "x"] * 500})
    domain = {name: ["x", "y"] for name in "abc"}
    fitted = PrivateSynthesizer(
        domain=domain, epsilon=1, method_params={"workload": "a b 3"}, random_state=0
    ).fit(frame)
    assert len(fitted.sample(10)) == 10
    with pytest.raises(ValueError, match="has no workload that could use a label: leave label out"):
        PrivateSynthesizer(domain=domain, epsilon=1, method="mst", delta=1e-9, label="a").fit(frame)
    with pytest.raises(ValueError, match="label: the column must be one of a, b, c, not 'z'"):
        PrivateSynthesizer(domain=domain, epsilon=1, label="z").fit(frame)
    with pytest.raises(ValueError, match="workload"):
        PrivateSynthesizer(domain=domain, epsilon=1, method_params={"workload": "z 3"}).fit(frame)
