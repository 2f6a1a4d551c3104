"""Numbers as text."""

import math

import pytest

from dp_pipeline.reporting.text import noisy_text, number_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.5, "0.500"),
        (9.999, "10.0"),
        (999.6, "1,000"),
        (123456.0, "123,000"),
        (-12.34, "-12.3"),
        (0.000123, "0.000123"),
        (0.00001, "1.00×10⁻⁵"),
        (1_000_000.0, "1.00×10⁶"),
        (5e-324, "4.94×10⁻³²⁴"),
        (-1e308, "-1.00×10³⁰⁸"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_a_number_shows_three_significant_digits(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "deviation", "text"),
    [
        (12.34, 0.41, "12.3 ± 0.4"),
        (12.34, 0.14, "12.3 ± 0.14"),
        (1234.0, 3.0, "1,230 ± 3"),
        (0.0, 0.4, "0.0 ± 0.4"),
        (0.001234, 5.0, "0 ± 5"),
        (12.34, 0.0, "12.3 ± 0"),
        (0.0, 0.0, "0 ± 0"),
        (1.234e-7, 2e-8, "(1.2 ± 0.2)×10⁻⁷"),
        (math.nan, 1.0, "n/a"),
    ],
)
def test_a_noisy_number_shows_no_digit_below_its_noise(value, deviation, text):
    assert noisy_text(value, deviation) == text
