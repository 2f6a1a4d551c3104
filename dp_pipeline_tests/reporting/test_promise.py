"""The words of the page where a population pays in ρ."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.reporting.promise import promise, protected_box
from dp_pipeline.spec.amounts import Currency, epsilon_of, epsilon_text, rho_of
from dp_pipeline_tests.reporting.samples import TEN, spec, summary

BILLIONTH = Fraction(1, 10**9)
PAID = {"purpose": "release", "ceiling": TEN}


def test_a_ceiling_and_a_sum_are_shown_as_epsilon_at_delta_with_their_rho() -> None:
    releases = [summary(costs=(Fraction("0.01"),), currency=Currency(BILLIONTH))] * 2
    text = str(protected_box(spec(**PAID, delta=BILLIONTH), releases))
    limit = epsilon_text(rho_of(TEN, BILLIONTH))
    assert f"ε = 10 at δ = 1e-9 (ρ = {limit}) for everything ever drawn" in text
    together = epsilon_text(epsilon_of(Fraction("0.02"), BILLIONTH))
    assert f"together they cost ε = {together} at δ = 1e-9 (ρ = 0.02) at most" in text


def test_rho_and_delta_are_spoken_of_only_where_they_are_paid() -> None:
    assert "δ = 1e-9" in str(promise(spec(**PAID, delta=BILLIONTH)))
    pure = f"{promise(spec(**PAID))}{protected_box(spec(**PAID), [summary()])}"
    assert "ρ" not in pure
    assert "δ" not in pure
    assert "together they cost ε = 0.5 at most" in pure
