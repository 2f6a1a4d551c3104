"""Any rows give a valid table; nothing but the noisy answers depends on rows."""

import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.estimators.private_estimator import WeakSignal
from dp_pipeline.estimators.synthetic_frames import marginal_frame
from dp_pipeline.models.tables.privbayes import PrivBayes
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline_tests.estimators.households import (
    ANY_VALUE,
    CONCENTRATED,
    DECLARED,
    METHODS,
    NAN,
    VILLAGE,
    copier,
    refusal,
    require_valid,
    village,
)
from dp_pipeline_tests.instruments import RecordingNoise

PURE_METHODS = [name for name in METHODS if name not in CONCENTRATED]


# A column of complex numbers has a type that is refused, as has one with nothing but lists.
REAL = ANY_VALUE.filter(lambda value: not isinstance(value, complex))


@given(st.lists(st.tuples(*[REAL] * len(DECLARED)), max_size=6))
@settings(max_examples=25)
def test_no_value_of_a_row_is_an_error_or_a_warning(rows: list[tuple[Any, ...]]):
    frame = pd.DataFrame([*VILLAGE.to_numpy().tolist(), *rows], columns=list(DECLARED))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What noisy counts say is no row's.
        warnings.simplefilter("ignore", WeakSignal)
        require_valid(copier(method="independent").fit(frame).sample())


@pytest.mark.parametrize("method", METHODS)
def test_with_little_noise_the_table_is_much_like_the_rows(method: str):
    many = pd.concat([VILLAGE] * 200, ignore_index=True)
    synthetic = copier(method=method, epsilon=1000).fit(many).sample()
    assert abs(len(synthetic) - 1200) <= 5
    for name in ("tenure", "children", "garden"):
        result = synthetic[name].value_counts(normalize=True).to_dict()
        assert result == pytest.approx(many[name].value_counts(normalize=True).to_dict(), abs=0.02)
    assert synthetic["built"].isna().mean() == pytest.approx(1 / 6, abs=0.02)


def test_table_of_many_rows_warns_of_missing_cells_alone():
    many = pd.concat([VILLAGE] * 200, ignore_index=True)
    with pytest.warns(UserWarning, match="Missing cells: 1[4-9]% of heating"):
        fitted = copier(nominal_rows=1_200).fit(many)
    assert all(text.startswith("Missing cells") for text in fitted.warnings_)
    with pytest.warns(WeakSignal, match="PrivateSynthesizer: Few rows: their noisy number is"):
        copier(nominal_rows=1_200).fit(many.assign(tenure="unheard of"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        complete = many.fillna({"heating": "gas", "built": 1950})
        assert copier(nominal_rows=1_200).fit(complete).warnings_ == ()


@pytest.mark.parametrize("method", CONCENTRATED)
def test_with_a_delta_a_fit_spends_the_rho_that_means_epsilon(method: str):
    fitted = copier(method=method, delta=1e-9).fit(VILLAGE)
    paid = [(spend.epsilon, spend.currency == "zcdp") for spend in fitted.spends_]
    if method == "one_shot":
        # Of so few columns pure ε has less noise.
        assert sum(epsilon for epsilon, _ in paid) == 1
        assert not any(is_rho for _, is_rho in paid)
        assert "δ" not in repr(fitted)
    else:
        rho = sum(amount if is_rho else amount**2 / 2 for amount, is_rho in paid)
        assert rho == rho_of(Fraction(1), Fraction(1, 10**9))
    require_valid(fitted.sample())


@pytest.mark.parametrize("method", PURE_METHODS)
def test_a_delta_is_refused_by_a_method_of_pure_epsilon(method: str):
    with refusal(match="is a model of pure ε and uses no δ, but"):
        copier(method=method, delta="1e-9").fit(VILLAGE)


@pytest.mark.chain
@pytest.mark.parametrize("method", METHODS)
def test_sampling_any_number_of_rows_costs_nothing(method: str):
    noise = RecordingNoise()
    fitted = copier(method=method, noise=noise).fit(VILLAGE)
    spends, draws, table = fitted.spends_, len(noise.draws), fitted.sample()
    for n in (0, 1, 40):
        synthetic = fitted.sample(n)
        require_valid(synthetic)
        assert len(synthetic) == n
        assert (fitted.spends_, len(noise.draws)) == (spends, draws)
        assert fitted.sample().equals(table)


def test_method_with_random_questions_is_replayed():
    fitted = copier(method="privbayes", random_state=None).fit(VILLAGE)
    # Six attributes to begin with: all of ten other beginnings are the right one in 1 of 6^10.
    assert [len(fitted.sample(3)) for _ in range(10)] == [3] * 10
    assert isinstance(fitted._finished.fit.model, PrivBayes)


def test_a_marginal_is_a_distribution_over_all_declared_cells():
    fitted = copier(method="independent").fit(VILLAGE)
    levels = fitted.marginal("heating").index
    assert levels.tolist()[:3] == ["gas", "wood", "else"]
    assert levels.isna().tolist() == [False, False, False, True]
    for columns in combinations(DECLARED, 2):
        marginal = fitted.marginal(*columns)
        assert marginal.equals(fitted.marginal(list(columns)))
        assert marginal.index.names == list(columns)
        assert marginal["probability"].sum() == pytest.approx(1)
        assert (marginal["probability"] >= 0).all()


def test_a_marginal_is_that_of_the_synthetic_rows():
    fitted = copier().fit(pd.concat([VILLAGE] * 50))
    counted = fitted.sample().groupby(["tenure", "children"]).size() / len(fitted.sample())
    shares = fitted.marginal("tenure", "children")["probability"]
    assert shares[counted.index].tolist() == counted.tolist()


def test_marginal_sums_other_axes_of_a_noisy_table():
    fitted = copier(method="independent").fit(VILLAGE)
    (measured,) = [item for item in fitted._table.measured if item.attributes == ("tenure",)]
    assert fitted.marginal("tenure")["noisy_count"].tolist() == measured.table.tolist()
    columns = {column.attribute.name: column for column in fitted._columns}

    def marginal_of(table: np.ndarray, *names: str) -> pd.DataFrame:
        measured = (NoisyMarginal(("tenure", "children"), table, Fraction(3)),)
        noisy = replace(fitted._table, measured=measured)
        return marginal_frame(noisy, tuple(columns[name] for name in names))

    table = np.arange(8).reshape(2, 4)
    variance = NoisyMarginal(("tenure", "children"), table, Fraction(3)).variance
    summed = marginal_of(table, "tenure")
    assert summed["noisy_count"].tolist() == [6, 22]
    assert summed["deviation"].tolist() == pytest.approx([2 * variance**0.5] * 2)
    turned = marginal_of(table, "children", "tenure")
    assert turned["noisy_count"].tolist() == table.T.ravel().tolist()
    assert turned["deviation"].tolist() == [variance**0.5] * 8
    # A table of groups gives no count of a level.
    grouped = np.ones((2, 2), dtype=np.int64)
    unknown = marginal_of(grouped, "children")
    assert unknown[["noisy_count", "deviation"]].isna().all(axis=None)
    assert marginal_of(grouped, "tenure")["noisy_count"].tolist() == [2, 2]


def test_sampling_takes_its_own_random_state():
    fitted = copier().fit(pd.concat([VILLAGE] * 50))
    first, again = fitted.sample(random_state=1), fitted.sample(random_state=1)
    assert first.equals(again)
    assert len(first) == len(fitted.sample())
    assert not first.equals(fitted.sample(random_state=2))
    assert not fitted.sample(40).equals(fitted.sample(40, random_state=1))


def test_a_fit_prints_its_promise_whatever_is_set_later():
    plain = copier(epsilon=2 / 3)
    assert repr(plain).startswith("PrivateSynthesizer(domain=")
    assert repr(plain.fit(VILLAGE)) == (
        "PrivateSynthesizer by one_shot, fitted: ε=0.666666666 (rounded down from "
        "0.6666666666666666), protects one row that is added or removed; its noise protects nobody"
    )
    exact = copier(method="mst", delta="1e-9", noise="exact").fit(VILLAGE)
    assert repr(exact).endswith("ε=1, δ=1e-9, protects one row that is added or removed")
    sampled = exact.sample(5)
    exact.set_params(epsilon=5, domain={"tenure": 2}, method="independent")
    assert "ε=1," in repr(exact)
    assert exact.sample(5).equals(sampled)


def test_a_marginal_of_no_rows_is_uniform():
    fitted = copier(method_params={"synthetic_rows": 0}).fit(VILLAGE)
    assert len(fitted.sample()) == 0
    assert fitted.marginal("tenure")["probability"].tolist() == [0.5, 0.5]
    require_valid(fitted.sample())


@pytest.mark.parametrize("columns", [[], "c", ["a", "a"], ["a", 7], ["a", "b"]], ids=str)
def test_a_marginal_of_other_columns_or_many_cells_is_refused(columns: Any):
    frame = pd.DataFrame({"a": [1], "b": [1]})
    fitted = copier(method="independent", domain={"a": 5000, "b": 5000}).fit(frame)
    is_large = columns == ["a", "b"]
    words = "but that of a, b has 25000000" if is_large else "expected some of the columns a, b"
    with refusal(match=f"marginal: .*{words}"):
        fitted.marginal(columns)


@pytest.mark.parametrize("n", [-1, 2.5, True, "5", 10**10])
def test_no_number_of_rows_is_refused(n: Any):
    with refusal(match=r"^num_rows: expected an integer in 0\.\.1000000000"):
        copier(method="independent").fit(VILLAGE).sample(n)


@pytest.mark.parametrize("method", METHODS)
def test_the_graph_has_the_cliques_and_what_they_share(method: str):
    graph = copier(method=method).fit(VILLAGE).graph_
    assert isinstance(graph, nx.Graph)
    assert set().union(*graph.nodes) == set(DECLARED)
    for first, second, separator in graph.edges(data="separator"):
        assert set(separator) == set(first) & set(second)
    assert all(cells >= 2 for _, cells in graph.nodes(data="cells"))


def test_the_declared_columns_are_the_features():
    fitted = copier(method="independent").fit(village(roof="red", cat=1))
    assert fitted.feature_names_in_.tolist() == list(DECLARED)
    assert fitted.n_features_in_ == len(DECLARED)


def test_undeclared_values_raise_only_on_request():
    requested = copier(method="independent", on_unknown="error")
    requested.fit(VILLAGE)
    for name, value in (("tenure", "271828"), ("rent", NAN)):
        with refusal(match=f"X: the column '{name}' must hold declared values, but some are"):
            requested.fit(village(**{name: value}))


TYPES: list[tuple[Any, str]] = [
    (3, "int64"),
    ({"size": 3, "nullable": True}, "Int64"),
    ([False, True], "bool"),
    ({"levels": [False, True], "nullable": True}, "boolean"),
    ([0.5, 1.5], "float64"),
    ({"levels": [0.5, 1.5], "nullable": True}, "float64"),
    (pd.CategoricalDtype(["b", "a"], ordered=True), "category"),
    ({"bounds": [0, 9], "bins": 3}, "float64"),
    ({"bounds": [0, 9], "bins": 3, "nullable": True}, "float64"),
    ({"bounds": [0, 9], "bins": 3, "integer": True}, "int64"),
    ({"bounds": [0, 9], "bins": 3, "integer": True, "nullable": True}, "Int64"),
]


@pytest.mark.parametrize(("declared", "dtype"), TYPES, ids=[f"{item}" for item, _ in TYPES])
@pytest.mark.parametrize("values", [[[1], [0], [1]], [[None], ["x"], [0.5]]], ids=str)
def test_lists_come_back_in_declared_types(declared: Any, dtype: str, values: list[Any]):
    fitted = copier(method="independent", domain={"x": declared}).fit(values)
    for rows in (0, 1, 30):
        column = fitted.sample(rows)["x"]
        assert str(column.dtype) == dtype
        assert column.isna().any() <= (isinstance(declared, dict) and "nullable" in declared)
