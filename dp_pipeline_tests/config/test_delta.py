"""A data set file that declares a δ: its population pays in ρ."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.amounts import PURE, Currency, rho_of
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline_tests.config.declarations import FIELDS, declaration, loaded, written
from dp_pipeline_tests.config.test_currency import BAD_DELTAS

DELTA = "delta: 0.000000001"
BILLIONTH = Fraction(1, 10**9)


def test_a_file_without_a_delta_pays_in_pure_epsilon(tmp_path: Path) -> None:
    spec = loaded(tmp_path)
    assert (spec.delta, spec.currency) == (None, PURE)


def test_a_file_with_a_delta_pays_in_rho(tmp_path: Path) -> None:
    spec = loaded(tmp_path, delta=DELTA)
    assert spec.currency == Currency(BILLIONTH)
    rho = rho_of(Fraction(1), BILLIONTH)
    assert spec.charge_for(rho) == rho
    bought = loaded(tmp_path, delta=DELTA, evaluation="evaluation: {epsilon: 0.5}")
    assert bought.charge_for(rho) == rho + Fraction(1, 8)


@pytest.mark.parametrize("text", [text for text in BAD_DELTAS if text], ids=lambda text: text[:15])
def test_a_delta_that_is_none_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, declaration(delta=f"delta: '{text}'"))
    line = declaration().count("\n") + 1
    with pytest.raises(DeclarationError) as refusal:
        loaded(tmp_path, delta=f"delta: '{text}'")
    assert str(refusal.value).startswith(f"{path}:{line}: delta: expected a decimal number above 0")
    assert "\n" not in str(refusal.value)


def test_another_delta_is_another_release_and_none_is_what_it_was(tmp_path: Path) -> None:
    digests = {
        loaded(tmp_path, delta=delta).digest
        for delta in (None, DELTA, "delta: 1e-9", "delta: 1e-8")
    }
    assert len(digests) == 3


def test_what_pure_epsilon_would_cost_is_not_held_against_a_ceiling_in_rho(tmp_path: Path) -> None:
    small = FIELDS["ceiling"].replace("4", "2")
    with pytest.raises(DeclarationError, match="a total of at least 3 "):
        loaded(tmp_path, ceiling=small)
    assert loaded(tmp_path, ceiling=small, delta=DELTA).ceiling == 2
