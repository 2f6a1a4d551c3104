"""ε is exact from text to ledger; ρ means what the formula says, and never less than the truth."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import (
    NANO,
    PURE,
    Currency,
    delta_text,
    epsilon_of,
    epsilon_text,
    nano_epsilon,
    parse_delta,
    parse_epsilon,
    rho_of,
    rho_of_pure,
)
from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    DeclarationError,
    FieldError,
)

exactly = settings(max_examples=100)

BILLIONTH = Fraction(1, 10**9)

# By dp-accounting 0.6.0: its RDP accountant over 200,001 orders around the best one, finely.
WRITTEN = [
    ("0.000001", "1e-5", 0.00345666706127566),
    ("0.001", "1e-9", 0.24511925387195138),
    ("0.01", "1e-6", 0.6216926545596024),
    ("0.1", "1e-9", 2.715481886730502),
    ("0.5", "1e-6", 5.221534444530169),
    ("1", "1e-5", 7.0771966958063395),
    ("3", "1e-9", 17.94906153094647),
    ("50", "1e-12", 122.73460485978097),
]

rhos = st.builds(
    lambda mantissa, power: Fraction(mantissa) * Fraction(10) ** power,
    st.integers(1, 999),
    st.integers(-11, 3),
)
deltas = st.builds(lambda power: Fraction(1, 10**power), st.integers(3, 30))
epsilons = st.builds(Fraction, st.integers(1_000_000, 10**13), st.just(NANO))


@pytest.mark.parametrize(("rho", "delta", "expected"), WRITTEN)
def test_the_epsilon_of_a_rho_is_the_one_of_a_vetted_library(rho, delta, expected):
    actual = epsilon_of(Fraction(rho), Fraction(delta))
    # Rounded up to a whole nano-ε, never down; the written value is of the best of many orders.
    assert expected - 1e-11 < actual < expected + 1.01e-9


@pytest.mark.parametrize(("rho", "delta"), [row[:2] for row in WRITTEN])
def test_the_epsilon_of_a_rho_is_that_of_the_installed_library(rho, delta):
    library = pytest.importorskip(
        "dp_accounting.rdp.rdp_privacy_accountant", reason="the extra `accounting` is not installed"
    )
    rho, delta = Fraction(rho), Fraction(delta)
    orders = 1 + np.sqrt(np.log(1 / float(delta)) / float(rho)) * np.geomspace(0.02, 2, 20_001)
    expected = library.compute_epsilon(orders, orders * float(rho), float(delta))[0]
    assert float(epsilon_of(rho, delta)) == pytest.approx(expected, rel=1e-7, abs=2e-9)


@exactly
@given(rhos, deltas)
def test_the_epsilon_of_a_rho_is_the_least_over_orders(rho, delta):
    """Against a grid over orders, in floats: within a nano-ε and their rounding."""
    t = np.sqrt(np.log(1 / float(delta)) / float(rho)) * np.geomspace(1e-4, 1.5, 100_001)
    bounds = float(rho) * (1 + t) - (np.log(float(delta)) + np.log1p(t)) / t - np.log1p(1 / t)
    best = max(0.0, bounds.min())
    actual = float(epsilon_of(rho, delta))
    assert best * (1 - 1e-6) - 1e-9 <= actual <= best * (1 + 1e-6) + 2e-9


@exactly
@given(rhos, deltas)
def test_more_rho_and_less_delta_never_mean_less_epsilon(rho, delta):
    assert epsilon_of(rho, delta) <= epsilon_of(rho + Fraction(1, NANO), delta)
    assert epsilon_of(rho, delta) <= epsilon_of(rho, delta / 10)
    assert epsilon_of(Fraction(0), delta) == 0
    assert (epsilon_of(rho, delta) * NANO).denominator == 1


@exactly
@given(epsilons, deltas)
def test_the_rho_of_an_epsilon_is_the_largest_that_fits(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert (rho * NANO).denominator == 1
    assert epsilon_of(rho, delta) <= epsilon < epsilon_of(rho + Fraction(1, NANO), delta)
    with pytest.raises(DeclarationError, match="must be worth at least 1e-9 ρ at δ=1e-9"):
        rho_of(Fraction(1, 10**6), BILLIONTH)


@exactly
@given(epsilons)
def test_a_pure_charge_costs_half_its_square_in_rho(epsilon):
    population = Currency(BILLIONTH)
    assert population.cost_of(epsilon, PURE) == rho_of_pure(epsilon) == epsilon**2 / 2
    assert population.cost_of(epsilon, population) == epsilon
    assert PURE.cost_of(epsilon, PURE) == epsilon
    with pytest.raises(BoundaryViolation, match="A charge in ρ has no finite price in pure ε"):
        PURE.cost_of(epsilon, population)


def test_a_refused_budget_shows_its_amounts_rounded_down():
    assert str(REFUSAL) == (
        "grid refused by toy: requested ε=0.5, spent 0.666666666, left 0.333333333, ceiling 1; "
        "more, for ever: `dp-pipeline budget raise grid --total … --reason …`"
    )
    assert (REFUSAL.left, REFUSAL.exit_code) == (Fraction(1, 3), 3)
    # What an amount means is rounded up.
    assert Currency(BILLIONTH).text(Fraction("0.1")) == "ρ=0.1 (ε=2.715482 at δ=1e-9)"
    assert (PURE.text(Fraction("0.1")), PURE.labelled_text(Fraction("0.1"))) == ("0.1", "ε=0.1")


GOOD_DELTAS = [
    *((text, BILLIONTH, "1e-9") for text in ("0.000000001", "1e-9", "1e-09")),
    *((text, Fraction(text), text.lower()) for text in ("1E-30", "1e-99")),
    ("0.001", Fraction(1, 1000), "1e-3"),
    (".0002500", Fraction(1, 4000), "0.00025"),
    ("2.5e-7", Fraction(1, 4_000_000), "0.00000025"),
    ("+0.0005", Fraction(1, 2000), "0.0005"),
]


@pytest.mark.parametrize(("text", "value", "canonical"), GOOD_DELTAS)
def test_a_delta_is_read_exactly_and_written_back_in_one_form(text, value, canonical):
    assert parse_delta(text) == parse_delta(canonical) == value
    assert delta_text(value) == canonical


BAD_DELTAS = ["0", "0.0", "-1e-9", "0.0011", "1", "1e-2", "1/1000", "nan", "inf", "", "e-9", "none"]
BAD_DELTAS += ["0.0000000000002", "2.5e-12", "1e-100", "1e-999999999", "9" * 5000, "0x1", "1_0e-9"]


@pytest.mark.parametrize("text", BAD_DELTAS, ids=lambda text: text[:15])
def test_anything_else_is_no_delta(text):
    with pytest.raises(DeclarationError, match="delta: expected a") as wrong:
        parse_delta(text)
    assert len(str(wrong.value)) < 250


@pytest.mark.parametrize("delta", map(Fraction, ["0", "-1", "1/999", "1e-100"]), ids=str)
def test_a_currency_of_another_delta_is_refused(delta):
    with pytest.raises(DeclarationError, match=r"must be from 1e-99 to 0\.001, not"):
        Currency(delta)


@exactly
@given(nano=st.integers(1000, 10**6 * NANO))
def test_canonical_text_and_epsilon_are_each_others_inverse(nano):
    epsilon = Fraction(nano, NANO)
    text = epsilon_text(epsilon)
    assert parse_epsilon(text) == epsilon
    assert epsilon_text(parse_epsilon(f"{text}0" if "." in text else f"{text}.0")) == text


@exactly
@given(value=st.fractions(min_value=0, max_value=10**6))
def test_a_charge_is_the_smallest_sufficient_nano_epsilon(value):
    nano = nano_epsilon(value)
    assert nano - 1 < value * NANO <= nano


@exactly
@given(text=st.text("0123456789.eE+-_ xnaif", max_size=12) | st.text(max_size=8))
def test_any_text_is_an_epsilon_in_range_or_refused_in_one_line(text):
    try:
        epsilon = parse_epsilon(text)
    except DeclarationError as refused:
        assert len(str(refused).splitlines()) == 1
    else:
        assert Fraction(1, 10**6) <= epsilon <= 10**6
        assert (epsilon * NANO).denominator == 1
        assert text.isascii() and "_" not in text


BAD = ["0", "-1", ".nan", "nan", ".inf", "inf", "abc", "1e-12", "1e-7", "0.0000000001", "1/2"]
BAD += ["0x1", "1000001", "0.1234567891", "", "1_0", "1e999999999", "9" * 5000]


@pytest.mark.parametrize("text", [*BAD, None, 1, 0.5, ["1"]], ids=lambda text: str(text)[:15])
def test_an_epsilon_that_the_ledger_cannot_hold_is_refused(text):
    with pytest.raises(DeclarationError, match=r"epsilon: expected .+, got") as refused:
        parse_epsilon(text)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("text", ["0.000001", "1000000", " 0.5 ", "1e-3", ".5", "5."])
def test_the_ends_of_the_range_and_common_spellings_are_read(text):
    assert parse_epsilon(text) == Fraction(text.strip())


REFUSAL = BudgetExceeded(
    "grid", requested=Fraction(1, 2), spent=Fraction(2, 3), ceiling=Fraction(1), where="toy"
)


def test_errors_of_another_process_arrive_as_they_were():
    wrong = FieldError("a number", "a text", of="epsilon", field=("epsilon",), hint=": say 0.5")
    for error in (REFUSAL, wrong, DeclarationError("no")):
        actual = pickle.loads(pickle.dumps(error))
        assert (type(actual), str(actual), vars(actual)) == (type(error), str(error), vars(error))
