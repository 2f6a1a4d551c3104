"""ε is exact from text to ledger."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import NANO, epsilon_text, nano_epsilon, parse_epsilon
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError, FieldError

exactly = settings(max_examples=100)
nanos = st.integers(1000, 10**6 * NANO)


@exactly
@given(nano=nanos)
def test_canonical_text_and_epsilon_are_each_others_inverse(nano: int) -> None:
    epsilon = Fraction(nano, NANO)
    text = epsilon_text(epsilon)
    assert parse_epsilon(text) == epsilon
    assert epsilon_text(parse_epsilon(f"{text}0" if "." in text else f"{text}.0")) == text


@exactly
@given(value=st.fractions(min_value=0, max_value=10**6))
def test_a_charge_is_the_smallest_sufficient_nano_epsilon(value: Fraction) -> None:
    nano = nano_epsilon(value)
    assert nano - 1 < value * NANO <= nano


@exactly
@given(text=st.text("0123456789.eE+-_ xnaif", max_size=12) | st.text(max_size=8))
def test_any_text_is_an_epsilon_in_range_or_refused_in_one_line(text: str) -> None:
    try:
        epsilon = parse_epsilon(text)
    except DeclarationError as refused:
        assert len(str(refused).splitlines()) == 1
    else:
        assert Fraction(1, 10**6) <= epsilon <= 10**6
        assert (epsilon * NANO).denominator == 1
        assert text.isascii() and "_" not in text


@pytest.mark.parametrize("value", [None, 1, 0.5, Fraction(1, 2), ["1"]])
def test_only_text_is_read(value: object) -> None:
    with pytest.raises(DeclarationError):
        parse_epsilon(value)  # type: ignore[arg-type]


BAD = ["0", "-1", ".nan", "nan", ".inf", "inf", "abc", "1e-12", "1e-7", "0.0000000001", "1/2"]
BAD += ["0x1", "1000001", "0.1234567891", "", "1_0", "1e999999999", "9" * 5000]


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:15])
def test_an_epsilon_that_the_ledger_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError, match=r"epsilon: expected .+, got") as refused:
        parse_epsilon(text)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("text", ["0.000001", "1000000", " 0.5 ", "1e-3", ".5", "5."])
def test_the_ends_of_the_range_and_common_spellings_are_read(text: str) -> None:
    assert parse_epsilon(text) == Fraction(text.strip())


def test_a_refused_budget_shows_its_amounts_rounded_down() -> None:
    refusal = BudgetExceeded(
        "grid", requested=Fraction(1, 2), spent=Fraction(2, 3), ceiling=Fraction(1), where="toy"
    )
    line = "grid refused by toy: requested ε=0.5, spent 0.666666666, left 0.333333333, ceiling 1"
    assert str(refusal) == (
        f"{line}; more, for ever: `dp-pipeline budget raise grid --total … --reason …`"
    )
    assert (refusal.left, refusal.exit_code) == (Fraction(1, 3), 3)


def test_errors_of_another_process_arrive_as_they_were() -> None:
    refused = BudgetExceeded(
        "grid", requested=Fraction(1, 2), spent=Fraction(2, 3), ceiling=Fraction(1), where="toy"
    )
    wrong = FieldError("a number", "a text", of="epsilon", field=("epsilon",), hint=": say 0.5")
    for error in (refused, wrong, DeclarationError("no")):
        actual = pickle.loads(pickle.dumps(error))
        assert (type(actual), str(actual), vars(actual)) == (type(error), str(error), vars(error))
