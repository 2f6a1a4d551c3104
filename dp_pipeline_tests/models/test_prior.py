"""one_shot beside public rows: what it costs, what it gains, and what it does not believe."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import fit, guarantee_of
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.results.accountant import LINF, NOISY_MAX, Accountant
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Run, privacy_loss
from dp_pipeline_tests.models.discrete import counter_of, dependent_rows, domain_of, every_delta

SIZES = (4,) * 8
DOMAIN = domain_of(SIZES)
NAMES = DOMAIN.names
MODEL = OneShot(clique_cells=1 << 10, prior="others")


def public(rows: np.ndarray) -> PublicTable:
    columns = dict(zip(NAMES, rows.T, strict=True))
    return PublicTable(columns, dict.fromkeys(NAMES, 4))


def released(rows, others, *, epsilon="1", noise=None, delta=None) -> Run:
    recorder = RecordingNoise(noise or SeededNoise(3))
    guarantee = guarantee_of(MODEL, Fraction(epsilon), delta, domain=DOMAIN)

    def ask(accountant: Accountant) -> Curator:
        rows_of = counter_of(DOMAIN, rows)
        return curator_over(rows_of, domain=DOMAIN, accountant=accountant, noise=recorder)

    rng = np.random.default_rng(7)
    done = fit(MODEL, guarantee, ask, epsilon=Fraction(epsilon), rng=rng, public=others)
    return Run(done.released, tuple(recorder.draws), done.spends, guarantee.currency)


def distance(rows: np.ndarray, run: Run) -> float:
    """Mean variation distance of all pairs."""
    assert isinstance(run.released, SyntheticTable)
    codes, found = run.released.codes, []
    for i, j in combinations(range(len(SIZES)), 2):
        shares = [
            np.bincount(one[:, i] * 4 + one[:, j], minlength=16) / max(1, len(one))
            for one in (rows, codes)
        ]
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


OURS, OTHERS = dependent_rows(SIZES, 1_000, seed=1), dependent_rows(SIZES, 20_000, seed=2)


@every_delta
def test_all_is_spent_on_marginals_and_nothing_on_finding_tables(delta: Fraction | None) -> None:
    run = released(OURS, public(OTHERS), delta=delta)
    words = [spend.what for spend in run.spends]
    assert all(one.startswith(("marginal", "number of rows")) for one in words)
    assert not {NOISY_MAX, LINF} & {one.mechanism for one in run.spends}
    assert isinstance(run.released, SyntheticTable)
    measured = {", ".join(one.attributes) for one in run.released.measured if one.attributes}
    assert measured == {
        one.removeprefix("marginal of ").removesuffix(", refined")
        for one in words
        if one.startswith("marginal")
    }, "public tables are not said to be measured"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_person_loses_no_more_than_epsilon(seed: int) -> None:
    """Exact, along any answers: what public rows decide is the same without her."""
    runs = [released(one, public(OTHERS), noise=ForcedNoise(seed)) for one in (OURS, OURS[1:])]
    assert privacy_loss(*runs) <= 1


@pytest.mark.chain
def test_few_rows_are_known_better_beside_public_ones() -> None:
    """Seeded: .24 in place of .41 at ε = 0.2."""
    alone, beside = (
        np.mean(
            [
                distance(OURS, released(OURS, one, epsilon="0.2", noise=SeededNoise(seed)))
                for seed in range(4)
            ]
        )
        for one in (None, public(OTHERS))
    )
    assert beside < 0.7 * alone


def test_public_rows_of_other_persons_are_not_believed() -> None:
    """Of many rows: the tables of the others are measured, and what was noisy is kept."""
    ours, others = dependent_rows(SIZES, 30_000, seed=1), OTHERS.copy()
    others[:, 0] = 3 - others[:, 0]
    others[:, 4] = np.where(others[:, 4] == 0, 0, 3 - others[:, 4])
    alone, beside = (distance(ours, released(ours, one)) for one in (None, public(others)))
    assert beside < 2 * alone


def test_shares_are_positive_and_have_the_margins_asked_for() -> None:
    table = public(OTHERS)
    pair = table.shares(("x0", "x1"))
    assert pair.shape == (4, 4)
    assert pair.min() > 0
    margins = {"x0": np.array([0.1, 0.2, 0.3, 0.4]), "x1": np.full(4, 0.25)}
    found = table.with_margins(("x0", "x1"), margins)
    assert found.sum(axis=1) == pytest.approx(margins["x0"], abs=1e-3)
    assert found.sum(axis=0) == pytest.approx(margins["x1"], abs=1e-3)
    odds = [one[0, 0] * one[1, 1] / (one[0, 1] * one[1, 0]) for one in (pair, found)]
    assert odds[0] == pytest.approx(odds[1])


@pytest.mark.parametrize("other", [{"plan_from": "previous"}, {"quality": "best_plus"}])
def test_tables_are_chosen_by_one_thing(other: dict[str, str]) -> None:
    with pytest.raises(DeclarationError, match="OneShot chooses tables by the public rows of"):
        OneShot(prior="others", **other).check(DOMAIN)  # type: ignore[arg-type]
