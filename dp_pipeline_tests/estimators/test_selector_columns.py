"""Values of any type become levels as stated; what was never seen has no bit."""

import warnings
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.estimators import InvalidParameter, KAnonymousSelector
from dp_pipeline.estimators.selector_columns import propose_cuts
from dp_pipeline_tests.estimators.households import ANY_VALUE, refusal

Y = [0, 1] * 3
NAN, INF = float("nan"), float("inf")


def fitted(values: Any, **parameters: Any) -> KAnonymousSelector:
    """A selector that keeps every bit of six values in a column ``v``."""
    return KAnonymousSelector(0, **parameters).fit(pd.DataFrame({"v": values}), Y)


def questions_of(values: Any, **parameters: Any) -> str:
    """What can be asked of a column, without its name."""
    names = fitted(values, **parameters).candidate_names_
    assert all(name.startswith("v") for name in names)
    return " ".join(name[1:] for name in names)


LEVELS: dict[str, tuple[Any, str]] = {
    "truth values": ([True, False] * 3, "=True"),
    "one truth value": ([True] * 6, "=True"),
    "nullable truth values": (pd.array([True, None] * 3, dtype="boolean"), "=False =True =missing"),
    "objects that are truth values": ([True, None, False] * 2, "=False =True =missing"),
    "zeros and ones": ([0, 1] * 3, "=1"),
    "zeros and ones as floats": ([0.0, 1.0] * 3, "=1"),
    "zeros alone": ([0] * 6, "=1"),
    "whole numbers": ([7, -2, 7, 30, 7, 7], ">=7 >=30"),
    "whole numbers as floats": ([7.0, NAN, 9, 7, 7, 7], ">=9 =missing"),
    "nullable whole numbers": (pd.array([7, None, 9] * 2, dtype="Int64"), ">=9 =missing"),
    "arrow's whole numbers": (pd.array([7, None, 9] * 2, dtype="int8[pyarrow]"), ">=9 =missing"),
    "objects that are numbers": ([7, None, Decimal(9), 7.0, pd.NA, 9], ">=9 =missing"),
    "one number": ([7] * 6, ""),
    "texts": (list("bacabb"), "=a =b =c"),
    "two texts": (["a", " b", "a", "b", "b ", "b"], "=b"),
    "texts and missing ones": (["a", None, "b", NAN, "", "b"], "= =a =b =missing"),
    "arrow's texts": (pd.array(["a", None, "b"] * 2, dtype="string[pyarrow]"), "=a =b =missing"),
    "a mixture": ([1, "1", True, 2.0, "x", pd.NaT], "=1 =2 =True =x =missing"),
    "numbers that are texts": (["30", "4"] * 3, "=4"),
    "a level called missing": (["missing", None, "b"] * 2, "=b =missing =(missing)"),
    "categories": (pd.Categorical(["b", "a", None] * 2, categories=list("abz")), "=a =b =missing"),
    "ordered categories": (
        pd.Categorical(["lo", "hi"] * 3, categories=["lo", "mid", "hi"], ordered=True),
        ">=mid >=hi",
    ),
    "intervals": (pd.cut([1, 3, 5, 9, 1, 1], [0, 2, 4, 6]), ">=(2, 4] >=(4, 6] =missing"),
    "nothing but missing dates": ([pd.NaT] * 6, "=missing"),
}


@pytest.mark.parametrize(("values", "bits"), LEVELS.values(), ids=LEVELS)
def test_a_column_has_the_bits_that_are_stated(values: Any, bits: str):
    assert questions_of(values) == bits


def test_methods_of_the_papers_ask_for_one_level_each():
    method = "hamdist_forward"
    assert questions_of([7, 8, 9, 9, 9, NAN], method=method) == "=7 =8 =9 =missing"
    assert questions_of([0, 1] * 3, method=method) == "=0 =1"
    cut = questions_of([3, 45, 50.5, 2, 1, 9], method=method, edges=[40, 50.5])
    assert cut == "=(-inf, 40) =[40, 50.5) =[50.5, inf)"


def test_edges_cut_numbers_and_a_value_on_an_edge_is_above_it():
    values = [39.9, 40, NAN, INF, -INF, 60]
    estimator = fitted(values, edges={"v": [40, 60]})
    rows = estimator.transform(pd.DataFrame({"v": values}))
    assert rows["v>=40"].tolist() == [0, 1, 0, 1, 0, 1]
    assert rows["v>=60"].tolist() == [0, 0, 0, 1, 0, 1]
    assert rows["v=missing"].tolist() == [0, 0, 1, 0, 0, 0]


def test_list_of_edges_is_for_numbers_only():
    X = pd.DataFrame({"age": [1.5, 2.5] * 3, "children": [0, 3] * 3, "sex": list("fm") * 3})
    X = X.assign(smokes=[True, False] * 3, size=pd.Categorical([1, 2] * 3))
    names = KAnonymousSelector(0, edges=[2]).fit(X, Y).candidate_names_.tolist()
    assert names == ["age>=2", "children>=2", "sex=m", "smokes=True", "size=2"]


def test_edges_read_numbers_from_texts_and_categories_too():
    for values in (["30", "50", None] * 2, pd.Categorical([30, 50, None] * 2)):
        assert questions_of(values, edges={"v": [40]}) == ">=40 =missing"


CUTS = "different whole numbers without declared cuts, but it"
REFUSED: dict[str, tuple[Any, str]] = {
    "fractions": ([0.5, 1, 2, 3, 4, 5], CUTS),
    "endless numbers": ([INF, 1, 2, 3, 4, 5], CUTS),
    "dates": (pd.date_range("2020", periods=6), "texts, truth values, numbers or categories"),
    "lists": ([["secret"]] * 6, "texts, truth values, numbers or categories"),
    "complex numbers": ([1j] * 6, "Complex data not supported"),
    "categories of dates": (
        pd.Categorical(pd.to_datetime(["2020"] * 6)),
        "must be texts, truth values or numbers, but one has another",
    ),
    "categories alike as texts": (
        pd.Categorical(["a", " a"] * 3, categories=["a", " a"], ordered=True),
        "must differ as texts, but two are equal: rename one of them",
    ),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_levels_are_refused_without_a_value(values: Any, message: str):
    with refusal(match=f"column 'v'.*{message}") as refused:
        fitted(values, edges={})
    assert "secret" not in str(refused.value)
    assert "2020" not in str(refused.value)


def test_text_is_no_number_for_edges():
    with refusal(match="has edges, so it must hold numbers, but it has another type"):
        fitted(["secret", "1"] * 3, edges={"v": [40]})


PROPOSED: dict[str, tuple[Any, tuple[float, ...]]] = {
    "even steps": (np.arange(0, 80.25, 0.25), (10, 20, 30, 40, 50, 60, 70)),
    "thousands": (np.arange(0, 80_001, 7), tuple(range(10_000, 80_000, 10_000))),
    "small": (np.arange(0, 80.25, 0.25) / 1e6, tuple(np.arange(1, 8) / 1e5)),
    "one number far away": ([0.5, *np.arange(100) / 10, 1e6], (1.2, 2.4, 3.7, 5, 6.2, 7.5, 8.7)),
    "mostly one number": ([0.0] * 99 + [10.5], (5.0,)),
    "one number": ([0.5] * 9, (0.5,)),
    "no number": ([NAN, INF, -INF], (0.0,)),
}


@pytest.mark.parametrize(("numbers", "cuts"), PROPOSED.values(), ids=PROPOSED)
def test_cuts_that_rows_propose_are_round(numbers: Any, cuts: tuple[float, ...]):
    assert propose_cuts(np.array(numbers, dtype=float)) == pytest.approx(cuts)


@given(st.lists(st.floats(), min_size=1, max_size=30))
def test_any_numbers_have_cuts_that_ascend(numbers: list[float]):
    cuts = propose_cuts(np.array(numbers))
    assert cuts
    assert all(low < high for low, high in pairwise(cuts))
    assert np.isfinite(cuts).all()


@pytest.mark.parametrize(("many", "message"), [(65, "at most 64"), (1001, "at most 1000")])
def test_too_many_levels_are_refused(many: int, message: str):
    values: Any = np.arange(many) if many == 65 else [f"secret {item}" for item in range(many)]
    with refusal(match=f"column 'v' may have {message}"):
        KAnonymousSelector(0, edges={}).fit(pd.DataFrame({"v": values}), np.arange(many) % 2)
    remaining = KAnonymousSelector(0).fit(pd.DataFrame({"v": values[:-1]}), np.arange(many - 1) % 2)
    assert remaining.get_support().all()


def bits_of(estimator: KAnonymousSelector, values: Any) -> str:
    """Every bit of each new row, rows apart."""
    rows = estimator.transform(pd.DataFrame({"v": values}))
    return " ".join("".join(map(str, row)) for row in rows.to_numpy())


def test_a_level_that_was_never_seen_has_no_bit():
    new = ["a", "z", None, 3, [1], "c "]
    assert bits_of(fitted(list("aabbcc")), new) == "100 000 000 000 000 001"
    assert bits_of(fitted(list("aabbbb")), ["a", "z", "b"]) == "0 0 1"
    ordered = fitted(pd.Categorical(list("aabbcc"), ordered=True))
    assert bits_of(ordered, ["a", "b", "c", "z", None]) == "00 10 11 00 00"


def test_unseen_number_is_compared_but_is_no_level():
    values, new = [1, 3, 5, 5, None, 1], [-9, 2, 3, 4.5, INF, NAN, "4", "many"]
    assert bits_of(fitted(values), new) == "000 000 100 100 110 001 100 000"
    result = bits_of(fitted(values, method="hamdist_forward"), new)
    assert result == "0000 0000 0100 0000 0000 0001 0000 0000"
    assert bits_of(fitted([1, 3, 5] * 2), [NAN, 5]) == "00 11"
    assert bits_of(fitted([0, 1] * 3), [0, 1, 0.5, 2, True, None]) == "0 1 0 0 1 0"
    assert bits_of(fitted([True, False] * 3), [1, 0, None, True]) == "1 0 0 1"
    assert bits_of(fitted([None] * 6), [0, None]) == "0 1"


def test_new_rows_may_have_other_types():
    estimator = fitted([7, 8, 9] * 2)
    for new in ([7.0, 9.0], pd.array([7, 9], dtype="Int64"), pd.Categorical([7, 9]), ["7", "9"]):
        assert bits_of(estimator, new) == "00 11"
    intervals = pd.cut([1, 3, 5] * 2, [0, 2, 4, 6])
    assert bits_of(fitted(intervals), intervals.astype(str)) == "00 10 11 00 10 11"


@given(st.lists(ANY_VALUE, min_size=6, max_size=6), st.lists(ANY_VALUE, max_size=6))
def test_new_values_are_never_an_error(values: list[Any], new: list[Any]):
    X = pd.DataFrame({"v": pd.Series(values, dtype=object)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            estimator = KAnonymousSelector(0, edges={}).fit(X, Y)
        except InvalidParameter as refused:
            assert "column 'v'" in str(refused)
            return
        rows = estimator.transform(pd.DataFrame({"v": pd.Series(new, dtype=object)}))
    assert rows.shape == (len(new), len(estimator.candidate_names_))
    assert set(rows.to_numpy().ravel()) <= {0, 1}
