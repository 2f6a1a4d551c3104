"""A bundle comes back from its JSON as it was; every field of a release changes its key."""

import json
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation, Damaged
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX, Spend
from dp_pipeline.results.bundle import Bundle, ReleaseKey, table_digest
from dp_pipeline.results.measurement import NoisyNumber

BUNDLE = Bundle(
    key="ab" * 32,
    facts={"dataset": "toy", "kind": "dp", "releasable": "yes"},
    spends=(
        Spend("splits", LAPLACE, Fraction(1, 3), 2, Fraction(6)),
        Spend("edge", NOISY_MAX, Fraction(1, 6), 1, Fraction(12)),
    ),
    quality={"nicv": NoisyNumber(0.25, 0.01, "squared data units")},
    tables={
        "centres": {"x": np.array([0.5, -1.25]), "y": np.array([1e300, 5e-324])},
        "marginals": {"level": np.array(["a", "bé", ""]), "count": np.array([1, -2, 2**62])},
        "nothing": {"x": np.array([], dtype=float)},
    },
    transcript="cd" * 32,
    free_spends=(Spend("rows left out", LAPLACE, Fraction(1, 2), 1, Fraction(2)),),
)


def with_changed(table: str, column: str, values: np.ndarray) -> dict:
    return {**BUNDLE.tables, table: {**BUNDLE.tables[table], column: values}}


def test_a_bundle_comes_back_from_its_json_and_tables():
    back = Bundle.from_json(BUNDLE.to_json(), BUNDLE.tables)
    assert back == BUNDLE
    assert back.spent == Fraction(1, 2)
    stored = json.loads(BUNDLE.to_json(), parse_constant=pytest.fail)
    assert (stored["format"], stored["spends"][0]["epsilon"]) == (1, "1/3")


NOT_DP = {"kind": "not-dp", "composed": "none", "reason": "it reads records"}
COMPOSED = {"kind": "dp", "composed": "4/3", "epsilon": "1", "reason": "a round is free"}
SEEDED = {"noise": "seeded:7", "releasable": "no"}
K_ANONYMITY = {**NOT_DP, "promise": "k-anonymity", "model": "kjig", "releasable": "yes"}
ALLOWED = {"allow_not_dp": "yes"}
NO_EPSILON = "not differentially private: it reads records"
OTHER_EPSILON = "costs ε = 4/3, not the nominal 1: a round is free"
UNFIT = [
    ({**NOT_DP, "releasable": "no"}, NO_EPSILON),
    ({**COMPOSED, "releasable": "no"}, OTHER_EPSILON),
    (SEEDED, "it was drawn from seeded:7 noise"),
    # Marked releasable by mistake.
    (NOT_DP, NO_EPSILON),
    (COMPOSED, OTHER_EPSILON),
    # The file allows k-anonymity by name, and nothing else.
    ({**NOT_DP, **ALLOWED}, NO_EPSILON),
    (K_ANONYMITY, NO_EPSILON),
    ({**K_ANONYMITY, "allow_not_dp": "no"}, NO_EPSILON),
    ({**K_ANONYMITY, **ALLOWED, "releasable": "no"}, NO_EPSILON),
    ({**K_ANONYMITY, **ALLOWED, **COMPOSED}, OTHER_EPSILON),
]


def with_facts(**facts: str) -> Bundle:
    return replace(BUNDLE, facts={**BUNDLE.facts, **facts})


@pytest.mark.parametrize(("facts", "why"), UNFIT)
def test_an_unfit_release_is_never_exported(facts: dict[str, str], why: str):
    bundle = with_facts(**facts)
    with pytest.raises(BoundaryViolation) as refused:
        bundle.require_exportable()
    assert str(refused.value).startswith(f"The release {'ab' * 6} must not be exported: {why}")
    assert bundle.is_releasable is (facts.get("releasable") != "no")


def test_private_and_allowed_releases_may_leave():
    assert (BUNDLE.kind, BUNDLE.caveat, BUNDLE.spent_text) == ("dp", "", "0.5")
    allowed = with_facts(**K_ANONYMITY, **ALLOWED)
    for bundle in (BUNDLE, allowed):
        bundle.require_exportable()
    assert (allowed.model, allowed.caveat) == ("kjig", NO_EPSILON)
    assert (allowed.is_dp, allowed.spent_text) == (False, "none")
    assert Bundle.from_json(allowed.to_json(), allowed.tables) == allowed


TAMPERED = {
    "another value": with_changed("centres", "x", np.array([0.5, -1.5])),
    "another count": with_changed("marginals", "count", np.array([1, -2, 2**62 + 1])),
    "another text": with_changed("marginals", "level", np.array(["a", "be", ""])),
    "texts cut elsewhere": with_changed("marginals", "level", np.array(["ab", "é", ""])),
    "another order": with_changed("centres", "x", np.array([-1.25, 0.5])),
    "another type": with_changed("marginals", "count", np.array([1.0, -2.0, 2.0**62])),
    "one row more": with_changed("centres", "x", np.array([0.5, -1.25, 0.0])),
    "one column more": with_changed("centres", "z", np.array([0.5, -1.25])),
    "one table less": {name: BUNDLE.tables[name] for name in ("centres", "marginals")},
    "one table more": {**BUNDLE.tables, "more": {}},
    "columns renamed": {**BUNDLE.tables, "nothing": {"y": np.array([], dtype=float)}},
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tables_that_were_changed_are_damage(name: str):
    with pytest.raises(Damaged, match="does not have the digest that the release lists"):
        Bundle.from_json(BUNDLE.to_json(), TAMPERED[name])


STORED = json.loads(BUNDLE.to_json())
BROKEN = {
    **{
        f"no {field}": json.dumps({name: STORED[name] for name in STORED if name != field})
        for field in ("key", "facts", "spends", "quality", "tables", "transcript")
    },
    "no object": "[]",
    "nothing": "",
    "nested": "[" * 100_000,
    "half": BUNDLE.to_json()[:-20],
    "epsilon of nothing": BUNDLE.to_json().replace('"1/3"', '"1/0"'),
    "epsilon in words": BUNDLE.to_json().replace('"1/3"', '"third"'),
    "spends in words": json.dumps({**STORED, "spends": ["all"]}),
    "quality as a list": json.dumps({**STORED, "quality": [1]}),
    "a field more": BUNDLE.to_json().replace('"sensitivity"', '"more": 1, "sensitivity"'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_json_that_is_no_bundle_is_damage(name: str):
    with pytest.raises(Damaged):
        Bundle.from_json(BROKEN[name], BUNDLE.tables)


columns = st.one_of(
    st.lists(cells, max_size=4).map(lambda values, kind=kind: np.array(values, kind))
    for cells, kind in (
        (st.integers(-(2**63), 2**63 - 1), np.int64),
        (st.floats(), np.float64),
        (st.text("ab", max_size=3), np.str_),
    )
)


@given(first=columns, second=columns)
def test_only_equal_tables_have_one_digest(first: np.ndarray, second: np.ndarray):
    contents = [
        (c.dtype.kind, c.tolist() if c.dtype.kind == "U" else c.tobytes()) for c in (first, second)
    ]
    is_same = table_digest({"c": first}) == table_digest({"c": second})
    assert is_same is (contents[0] == contents[1])


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
