"""Two releases are the same one exactly if every field of their key is the same."""

from dataclasses import fields, replace
from fractions import Fraction

import pytest

from dp_pipeline.results.bundle import ReleaseKey

KEY = ReleaseKey(
    population="people",
    dataset="toy",
    snapshot="2024-06",
    declaration="ab",
    model="eug_kmeans",
    measuring={"columns": "()", "nominal_rows": "10"},
    epsilon=Fraction(1, 2),
    evaluation=Fraction(1, 20),
    noise="opendp",
)
CHANGES = {
    "population": ["others", "People"],
    "dataset": ["toys"],
    "snapshot": ["2024-07"],
    "declaration": ["ba"],
    "model": ["dpqt_kmeans"],
    "measuring": [{}, {"columns": "()"}, {"columns": "()", "nominal_rows": "11"}],
    "epsilon": [Fraction(1, 3), Fraction(5, 10**9)],
    "evaluation": [None, Fraction(1, 10)],
    "noise": ["seeded 7"],
    "replicate": [1],
    "refines": ["ab" * 32, "ba" * 32],
}


@pytest.mark.parametrize("field", [field.name for field in fields(ReleaseKey)])
def test_every_field_changes_the_digest(field: str):
    digests = {replace(KEY, **{field: value}).digest for value in CHANGES[field]}
    assert len(digests | {KEY.digest}) == 1 + len(CHANGES[field])


def test_equal_keys_have_equal_digests_in_any_order():
    swapped = dict(reversed(KEY.measuring.items()))
    assert replace(KEY, measuring=swapped, epsilon=Fraction("0.50")).digest == KEY.digest
    assert KEY.with_replicate(2) == replace(KEY, replicate=2)
    assert KEY.with_replicate(0).digest == KEY.digest


@pytest.mark.parametrize("field", sorted(set(CHANGES) - {"refines", "population"}))
def test_all_refinements_of_one_release_have_one_key(field: str):
    """So the ledger charges one of them, whatever ε it is at and whoever asks first."""
    once = KEY.refining("ab" * 32)
    assert {replace(once, **{field: value}).digest for value in CHANGES[field]} == {once.digest}
