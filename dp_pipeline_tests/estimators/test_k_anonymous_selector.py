"""A release of kept columns keeps its promise, and nothing but what rows hold decides it."""

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from dp_pipeline.anonymity.growth import Tree
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.ranking import Rfka
from dp_pipeline.estimators import KAnonymousSelector
from dp_pipeline.metrics.disclosure import disclosure_report
from dp_pipeline_tests.estimators.households import (
    EDGES,
    ILL,
    PATIENTS,
    WITHOUT_A_FOREST,
    NoClass,
    class_sizes,
    refusal,
    selector,
)

pytestmark = [
    pytest.mark.usefixtures("two_folds"),
    pytest.mark.filterwarnings("ignore:The selection keeps no column"),
]

MANY = pd.concat([PATIENTS] * 20, ignore_index=True)
MANY_ILL = pd.concat([ILL] * 20, ignore_index=True)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([20, 30, 40, None]),
        st.sampled_from(["f", "m", None]),
        st.booleans(),
        st.sampled_from(["well", "ill", "ailing"]),
    ),
    min_size=1,
    max_size=40,
)


@given(ROWS, st.sampled_from(WITHOUT_A_FOREST), st.integers(0, 6))
@settings(max_examples=30)
def test_every_class_of_a_release_has_k_rows_and_its_labels(rows: Any, method: str, k: int):
    *columns, y = (list(column) for column in zip(*rows, strict=True))
    X = pd.DataFrame(dict(zip(["age", "sex", "smokes"], columns, strict=True)))
    estimator = KAnonymousSelector(k, method=method, suppress=0.1)
    diversity = 2 if method == "kjig" and k > 1 else 1
    if k > len(rows) or (k > 1 and diversity > len(set(y))):
        with refusal():
            estimator.fit(X, y)
        return
    release = estimator.fit_release(X, y)
    sizes = class_sizes(release)
    assert sizes["rows"].min() >= max(1, k)
    assert sizes["labels"].min() >= diversity
    assert estimator.suppressed_.sum() <= 0.1 * len(rows)
    released = ~estimator.suppressed_
    recoded = estimator.transform(X)[released].assign(label=np.array(y, dtype=object)[released])
    if release.columns.tolist() == recoded.columns.tolist():
        assert sorted(recoded.values.tolist()) == sorted(release.values.tolist())


def test_only_kjig_takes_the_label_as_sensitive():
    def fewest_labels(**parameters: Any) -> int:
        return selector(2, **parameters).fit(PATIENTS, ILL).report_.distinct_l

    assert fewest_labels() == 2
    assert fewest_labels(diversity=1) == 1
    assert fewest_labels(method="mutual_information") == 1
    assert fewest_labels(method="mutual_information", diversity=2) == 2


def test_the_report_is_of_the_release():
    estimator = selector(method=Kjig("columns"))
    release = estimator.fit_release(PATIENTS, ILL)
    assert estimator.report_.k == class_sizes(release)["rows"].min()
    codes, target = release.iloc[:, :-1].to_numpy(), (release["ill"] == "y").to_numpy(int)
    expected = disclosure_report(codes, target, labels=2, k=3)
    assert repr(estimator.report_) == repr(expected)


def test_suppressed_rows_are_flagged_and_removed():
    # Four women smoke and four do not, four men smoke and one does not.
    X = pd.DataFrame({"sex": list("ffffffffmmmmm"), "smokes": list("nnnnyyyyyyyyn")})
    y = pd.Series(list("ababababababz"), dtype="category")
    estimator = KAnonymousSelector(4, method="mutual_information", suppress=0.08)
    release = estimator.fit_release(X, y)
    assert estimator.suppressed_.tolist() == [False] * 12 + [True]
    assert len(release) == 12
    assert estimator.report_.rows == 12
    # Neither a level nor a category tells that there was such a label.
    assert release["label"].cat.categories.tolist() == ["a", "b"]
    assert len(estimator.transform(X)) == 13


def test_score_is_the_accuracy_of_predicted_labels():
    estimator = selector().fit(PATIENTS, ILL)
    assert estimator.score(PATIENTS, ["y"] * len(PATIENTS)) == 1.0
    assert estimator.score(PATIENTS[:3], ["y", "n", "y"]) == pytest.approx(2 / 3)


def test_a_share_is_exact():
    assert int(0.145 * 200) == 28
    X = [["a", "c"]] * 60 + [["b", "c"]] * 51 + [["a", "d"]] * 60 + [["b", "d"]] * 29
    estimator = KAnonymousSelector(30, method="mutual_information", suppress=0.145)
    assert estimator.fit(X, [0] * 200).suppressed_.sum() == 29


def test_index_of_rows_does_not_matter():
    chosen = PATIENTS["sex"] == "f"
    filtered, reset = PATIENTS[chosen], PATIENTS[chosen].reset_index(drop=True)
    twice = reset.set_index(pd.Index([0] * len(reset)))
    y = ILL[chosen]
    expected = selector(2).fit(reset, y.to_numpy())
    for X, labels in [(filtered, y), (twice, y), (filtered, y.reset_index(drop=True))]:
        fitted = selector(2).fit(X, labels)
        assert repr(fitted.report_) == repr(expected.report_)
        assert fitted.transform(X).index.equals(X.index)
        assert np.array_equal(fitted.transform(X), expected.transform(reset))


def test_release_is_sorted_and_keeps_label_types():
    for y in (ILL, ILL.map({"n": 0, "y": 1}), ILL == "y", ILL.astype("category")):
        release = selector().fit_release(PATIENTS, y)
        assert release.index.equals(pd.RangeIndex(len(release)))
        assert release.columns[-1] == "ill"
        assert release["ill"].dtype == y.dtype
        assert release["ill"].value_counts().to_dict() == y.value_counts().to_dict()
        keys = [tuple(row) for row in release.astype(str).itertuples(index=False)]
        assert keys == sorted(keys)
    assert selector().fit_release(PATIENTS, ILL.tolist()).columns[-1] == "label"
    assert selector().fit_release(PATIENTS, ILL.rename("self")).columns[-1] == "self"


def test_columns_are_in_the_order_of_candidates():
    fitted = selector(2).fit(PATIENTS, ILL)
    names = fitted.candidate_names_[fitted.get_support()].tolist()
    assert fitted.get_feature_names_out().tolist() == names
    assert fitted.transform(PATIENTS).columns.tolist() == names
    places = fitted.get_support(indices=True)
    assert fitted.candidate_names_[places].tolist() == names


def test_frames_give_frames_and_arrays_give_arrays():
    frame = selector(method=Kjig("columns")).fit(PATIENTS, ILL).transform(PATIENTS)
    assert isinstance(frame, pd.DataFrame)
    assert set(frame.to_numpy().ravel()) == {0, 1}
    rows = PATIENTS.to_numpy(dtype=object)
    fitted = selector(method=Kjig("columns"), edges={0: EDGES["age"]}).fit(rows, ILL)
    assert isinstance(fitted.transform(rows), np.ndarray)
    assert np.array_equal(fitted.transform(rows), frame)
    assert fitted.candidate_names_[0] == "x0>=30"
    assert np.array_equal(fitted.fit_transform(rows.tolist(), ILL.tolist()), frame)
    named = fitted.set_output(transform="pandas").transform(rows)
    assert named.columns.tolist() == fitted.get_feature_names_out().tolist()
    back = selector().set_output(transform="default").fit(PATIENTS, ILL)
    assert isinstance(back.transform(PATIENTS), pd.DataFrame)


def test_a_seed_decides_what_a_forest_keeps():
    def selected_names(seed: int) -> list[str]:
        estimator = selector(method=Rfka(trees=3), random_state=seed)
        return estimator.fit(PATIENTS, ILL).get_feature_names_out().tolist()

    assert selected_names(1) == selected_names(1)
    assert len({tuple(selected_names(seed)) for seed in range(10)}) > 1


def test_no_columns_are_one_class():
    estimator = selector(edges=None)
    assert estimator.fit_release(PATIENTS[[]], ILL).columns.tolist() == ["ill"]
    with pytest.warns(UserWarning, match="keeps no column, so all rows are one class"):
        alone = selector(7, edges=None).fit(PATIENTS[["sex"]], ILL)
    for fitted, X in ((estimator, PATIENTS[[]]), (alone, PATIENTS[["sex"]])):
        assert fitted.transform(X).shape == (12, 0)
        assert (fitted.report_.classes, fitted.report_.k) == (1, 12)


@pytest.mark.parametrize(
    "nothing",
    [np.full(6, np.nan), [None] * 6, [pd.NaT] * 6, pd.array([pd.NA] * 6, dtype="Int64")],
    ids=["NaN", "None", "NaT", "NA"],
)
def test_missing_values_everywhere_are_one_level(nothing: Any):
    X, y = pd.DataFrame({"age": nothing, "sex": list("ffmffm")}), [0, 1] * 3
    fitted = KAnonymousSelector(2, method="mutual_information").fit(X, y)
    assert fitted.candidate_names_.tolist() == ["age=missing", "sex=f", "sex=m"]
    assert (fitted.transform(X)["age=missing"] == 1).all()
    ours = KAnonymousSelector(2).fit(X, y)
    assert ours.candidate_names_.tolist() == ["age=missing", "sex=m"]
    assert ours.get_feature_names_out().tolist() == ["sex=m"]


def test_an_error_leaves_an_earlier_fit_as_it_was():
    estimator = selector().fit(PATIENTS, ILL)
    before = pickle.dumps(estimator)
    with refusal(match="y: each row of X must have one label"):
        estimator.fit(PATIENTS[["sex"]], ILL[:5])
    assert pickle.dumps(estimator) == before


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"k": 13}, "There are fewer rows than K=13: choose a smaller K"),
    ({"k": -1}, "k: expected an integer of at least 0, got -1"),
    ({"k": True}, "k: expected"),
    ({"k": 2.0}, "k: expected"),
    ({"diversity": 0}, "diversity: expected an integer of at least 1, got 0"),
    ({"suppress": 1}, "suppress: expected a share from 0 to below 1, got 1"),
    ({"suppress": 10**400}, "suppress: expected a share from 0 to below 1, got 10000"),
    ({"suppress": float("nan")}, "suppress: expected"),
    ({"suppress": "0.1"}, "suppress: expected"),
    ({"method": "kjigg"}, "method: expected one of .*kjig, .*, got 'kjigg'"),
    ({"method": Rfka}, "method: expected one of"),
    *(
        ({"edges": edges}, "edges: the cuts of a column must be ascending finite")
        for edges in (3, [], {"age": [3, 2]}, {"age": [1, np.inf]}, {"age": [[1], [2, 3]]})
    ),
    ({"edges": {"agee": [3]}}, "its keys must be names or places of columns of X, not 'agee'"),
    ({"edges": {4: [3]}}, "edges: its keys must be names or places"),
    ({"random_state": "seven"}, "cannot be used to seed"),
]


BOXES: tuple[Any, ...] = ("mondrian", Tree(least=2), "cluster_k_anonymity")


@pytest.mark.parametrize("method", BOXES, ids=str)
@pytest.mark.parametrize("diversity", [1, 2])
def test_methods_that_make_boxes_release_a_text_of_every_column(method: Any, diversity: int):
    estimator = selector(3, method=method, diversity=diversity)
    release = estimator.fit_release(PATIENTS, ILL)
    assert release.columns.tolist() == [*PATIENTS.columns, "ill"]
    assert len(release) == 12
    sizes = class_sizes(release)
    assert len(sizes) > 1
    assert sizes["rows"].min() >= 3
    assert sizes["labels"].min() >= diversity
    assert estimator.report_.k == sizes["rows"].min()


@pytest.mark.parametrize("method", BOXES, ids=str)
def test_transform_gives_bit_probabilities_of_boxes(method: Any):
    estimator = selector(3, method=method).fit(PATIENTS, ILL)
    seen = estimator.transform(PATIENTS)
    assert seen.columns.tolist() == estimator.get_feature_names_out().tolist()
    assert set(seen.columns) <= set(estimator.candidate_names_)
    assert (seen.max() > seen.min()).all()
    assert seen.stack().between(0, 1).all()
    # Rows that are released alike are seen alike.
    assert pd.concat([seen], axis=1).value_counts().min() >= 3
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(estimator)).transform(PATIENTS), seen)
    unseen = estimator.transform(PATIENTS.head(2).assign(sex="neither", children=99, age=-5))
    assert unseen.shape == (2, len(seen.columns))
    assert np.isfinite(unseen.to_numpy()).all()


def test_box_text_names_its_levels():
    X = pd.DataFrame({"age": [31, 33, 35, 52, 54, 58], "sex": list("ffffff")})
    release = selector(3, method="mondrian", edges={"age": [40]}).fit_release(X, list("abcabc"))
    assert release["age"].tolist() == ["(-inf, 40)"] * 3 + ["[40, inf)"] * 3
    assert set(release["sex"]) == {"any"} or set(release["sex"]) == {"f"}


def test_k_of_1_releases_every_level():
    release = selector(1, method="tree").fit_release(PATIENTS, ILL)
    assert set(release["age"]) == {"(-inf, 30)", "[30, 40)", "[40, 50)", "[50, inf)", "missing"}
    assert selector(1, method="tree").fit(PATIENTS, ILL).get_support().all()


SIZES = {"weight": np.linspace(50.5, 90.25, 40), "height": np.linspace(1.5, 2.0, 40)}
FRACTIONS = pd.DataFrame({**SIZES, "sex": ["f", "m"] * 20})


def test_round_cuts_are_proposed_without_edges():
    y, learning = [0, 1, 1, 0] * 10, KAnonymousSelector(4, method="mondrian")
    with pytest.warns(UserWarning, match="cuts of 'weight', 'height' are learned"):
        learned = learning.fit_release(FRACTIONS, y)
    assert learning.proposed_edges_ == {
        "weight": (55.0, 60.0, 65.0, 70.0, 75.0, 80.0, 85.0),
        "height": (1.56, 1.62, 1.69, 1.75, 1.81, 1.88, 1.94),
    }
    declared = KAnonymousSelector(4, method="mondrian", edges=learning.proposed_edges_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = declared.fit_release(FRACTIONS, y)
    assert declared.proposed_edges_ == {}
    assert release.values.tolist() == learned.values.tolist()
    assert learned.attrs == {"edges_learned_from_rows": ["weight", "height"]}
    assert release.attrs == {"edges_learned_from_rows": []}


def test_one_error_names_all_columns_without_edges():
    X = FRACTIONS.assign(born=pd.date_range("2020", periods=40))
    for edges in ({}, {"sex": [1]}, {"height": [1.7]}):
        lacking = {"weight", "height", "born"} - set(edges) | ({"sex"} & set(edges))
        with refusal() as refused:
            KAnonymousSelector(4, edges=edges).fit(X, [0, 1] * 20)
        message = str(refused.value)
        by_name = {name for name in X.columns if f"column {name!r}" in message}
        assert by_name == lacking
        assert "\n" not in message
        assert "50.5" not in message


BAD_LABELS: list[tuple[Any, str]] = [
    (None, "requires y to be passed"),
    (["n"] * 11 + [None], "y: each row must have a label, but some are missing: leave"),
    ([0.0] * 11 + [np.nan], "y: each row must have a label, but some are missing: leave"),
    (pd.Series([1, None] * 6, dtype="Int64"), "must have a label, but some are missing: leave"),
    (["well"] * 12, "different labels: declare a smaller `diversity`"),
    (np.linspace(0, 1, 12), "y: the labels must be classes, but some numbers are not whole"),
    ([0.5, float("inf"), 1, 2, 3, 4] * 2, "y: the labels must be classes, but some numbers are"),
    (["a", NoClass()] * 6, "y: the labels must be texts, numbers or truth values, but"),
    ([0] * 11, "y: each row of X must have one label, but there are fewer labels"),
    (pd.Series([["secret"]] * 12), "y: the labels must be texts, numbers or truth values, but"),
    (np.zeros((12, 2)), "y should be a 1d array"),
    (np.array([10**18] * 12, dtype="m8[D]"), "must be texts, numbers or truth values, but"),
    (["\ud800", "n"] * 6, "y: the labels must be texts that UTF-8 can encode, but one is"),
    (np.array([4711, 4712] * 6) + 0j, "Complex data not supported"),
    (["n", " "] * 6, "y: each row must have a label, but some are empty texts"),
    (pd.Series([1, "1"] * 6, dtype=object), "must differ as texts"),
    (["ill", "ill "] * 6, "must differ as texts"),
    (pd.Series([True, "True"] * 6, dtype=object), "must differ as texts"),
]


def test_labels_of_any_byte_order_and_size_are_read():
    X, labels = pd.DataFrame({"a": [0, 1] * 3}), np.array([0, 1, 2] * 2)
    released = KAnonymousSelector(0).fit_release(X, labels.astype(">i4"))
    assert released.values.tolist() == KAnonymousSelector(0).fit_release(X, labels).values.tolist()
    if pd.__version__ >= "3":
        # pandas 2 cannot hold such an integer.
        large = KAnonymousSelector(2).fit_release(PATIENTS[["sex"]], [10**400, 7] * 6)
        assert sorted(set(large["label"])) == [7, 10**400]


def test_label_name_of_a_released_column_is_refused():
    release = selector().fit_release(PATIENTS, ILL)
    with refusal(match="y: the name of the label must not be that of a column of"):
        selector().fit_release(PATIENTS, ILL.rename(release.columns[0]))


SELF_NAMED = pd.DataFrame({"a": ["b=c"] * 12, "a=b": ["c"] * 12})
BAD_ROWS: list[tuple[Any, str]] = [
    (PATIENTS["sex"], "two dimensions"),
    (np.zeros(12), "X: the table must have two dimensions, not"),
    ([[1, 2], [3]], "X: the rows must have equal lengths, but some are longer"),
    ([[1, [2]], [3, 4]], "X: the values of column 'x1' must be texts, truth values or"),
    ([[1, 2], 3], "X: each row must be a list or a tuple, but one is not"),
    (PATIENTS.set_axis(["age", "age", "a", "b"], axis=1), "each column name once, got 'age' twice"),
    (PATIENTS.set_axis(["age", 1, 2, 3], axis=1), "X: the names of columns must all be texts, but"),
    (SELF_NAMED, "is named by its column and level, as sex=f, but two of 'a' and 'a=b' would"),
    (PATIENTS[:0], "X: the table must have at least one row, but it has none"),
]


PLAIN = {"k": 1, "edges": None}
REFUSED: list[tuple[Any, Any, Any, str]] = [
    *((parameters, PATIENTS, ILL, message) for parameters, message in BAD_PARAMETERS),
    *(({}, PATIENTS, y, message) for y, message in BAD_LABELS),
    *((PLAIN, X, ILL[: len(X)], message) for X, message in BAD_ROWS),
    (PLAIN, [["f"], ["m"]] * 501, np.arange(1002), "different labels, but there are more: group"),
]


@pytest.mark.parametrize("verb", ["fit", "fit_release"])
@pytest.mark.parametrize(("parameters", "X", "y", "message"), REFUSED)
def test_what_cannot_be_fitted_is_refused(parameters: Any, X: Any, y: Any, message: str, verb: str):
    estimator = selector().set_params(**parameters)
    with pytest.raises(ValueError, match=message) as refused:
        getattr(estimator, verb)(X, y)
    assert "\n" not in str(refused.value)
    assert not {"secret", "4711"} & set(re.findall(r"\w+", str(refused.value)))
    assert not [name for name in vars(estimator) if name.endswith("_") or name.startswith("_")]


@pytest.mark.filterwarnings("ignore")
def test_a_grid_search_tries_several_k():
    pipeline = make_pipeline(selector(), LogisticRegression())
    grid = {"kanonymousselector__k": [2, 5, 1000]}
    search = GridSearchCV(pipeline, grid, cv=3, scoring="roc_auc", error_score=np.nan)
    search.fit(MANY, MANY_ILL)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores).tolist() == [False, False, True]
    assert search.best_params_["kanonymousselector__k"] in (2, 5)
