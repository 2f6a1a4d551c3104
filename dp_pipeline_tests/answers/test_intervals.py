"""Intervals of tables and of clusters hold as often as they say; and the verdict in words."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.answers.boxes import OpenClusters, open_clusters
from dp_pipeline.answers.estimate import combine
from dp_pipeline.answers.questions import answer_question
from dp_pipeline.answers.tables import OpenTable, open_table
from dp_pipeline.answers.verdict import verdict
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.export.intervals import added_columns
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline_tests.answers.releases import release, tables_of

TRUE = np.array([[400, 100, 60], [80, 300, 260]])
NOISE = 12.0
OPENED = release(TRUE, [(("a", "b"), TRUE, NOISE)], names="ab", rows=1_200)
AXES = {"a": (1, 2), "b": (0, 2), "c": (0, 1)}


def noisy(rng: np.random.Generator, table: np.ndarray, deviation: float) -> np.ndarray:
    return table + np.rint(rng.normal(0, deviation, table.shape))


def test_measured_counts_and_shares_lie_inside_as_often_as_said() -> None:
    """5 % of 6 × 200 intervals of counts may fail, and of 200 of a share; a correct program fails
    here once in 10,000 runs."""
    rng, counts_inside, shares_inside = np.random.default_rng(1), 0, 0
    for _ in range(200):
        table = noisy(rng, TRUE, NOISE)
        opened = release(table, [(("a", "b"), table, NOISE)], names="ab")
        frame = opened.table("a", "b")
        assert set(frame["basis"]) == {"measured"}
        is_inside = (frame["low"] <= TRUE.ravel()) & (TRUE.ravel() <= frame["high"])
        counts_inside += int(is_inside.sum())
        share = opened.share("b == 'b2'", among="a == 'a1'")
        shares_inside += share.low <= 260 / 640 <= share.high
    assert 0.925 < counts_inside / (6 * 200) < 0.975
    assert shares_inside >= 178


def test_a_column_of_one_level_has_the_count_of_all_rows() -> None:
    opened = release(TRUE[:1], [(("b",), TRUE[0], NOISE)], names="ab")
    (row,) = opened.table("a").to_dict("records")
    assert row["low"] < row["count"] == TRUE[0].sum() < row["high"]


@pytest.mark.parametrize("score", [1.0, 300.0])
def test_an_unmeasured_pair_is_as_wide_as_its_score(score: float) -> None:
    rng = np.random.default_rng(3)
    first, second = (noisy(rng, TRUE.sum(axis=axis), NOISE) for axis in (1, 0))
    fitted = np.outer(first, second) / first.sum()
    tables = [(("a",), first, NOISE), (("b",), second, NOISE)]
    scored = release(fitted, tables, names="ab", dependence={("b", "a"): score})
    unscored = release(fitted, tables, names="ab")
    bounded, modelled = (opened.count("a == 'a0' and b == 'b0'") for opened in (scored, unscored))
    assert (bounded.basis, modelled.basis) == ("bounded", "model")
    assert (bounded.high - bounded.low > modelled.high - modelled.low) == (score > 1)
    # The margins are measured, whatever is not known of the pair.
    assert scored.count("a == 'a0'").basis == "measured"


def test_dependence_of_the_model_is_taken_off_a_score() -> None:
    first, second = TRUE.sum(axis=1), TRUE.sum(axis=0)
    tables, independent = [(("a",), first, NOISE), (("b",), second, NOISE)], np.outer(first, second)
    scores = {("a", "b"): float(np.abs(TRUE - independent / 1200).sum())}
    counts = [
        release(fitted, tables, names="ab", dependence=scores).count("a == 'a1' and b == 'b1'")
        for fitted in (independent, TRUE)
    ]
    widths = [count.high - count.value for count in counts]
    assert widths[1] < 0.85 * widths[0]


@pytest.mark.parametrize("unscored", [None, ("a", "c")])
def test_three_columns_are_bounded_by_their_pairs(unscored: tuple[str, str] | None) -> None:
    counts = np.stack([TRUE, TRUE[::-1]], axis=2)
    tables = [((name,), counts.sum(axis=axes), NOISE) for name, axes in AXES.items()]
    scores = {pair: 300.0 for pair in (("a", "b"), ("a", "c"), ("b", "c")) if pair != unscored}
    opened = release(counts, tables, names="abc", dependence=scores)
    basis, lines = "model" if unscored else "bounded", opened.table("a", "b", "c")
    assert set(lines["basis"]) == {basis}
    for line in lines.to_dict("records"):
        count = opened.count(f"a == '{line['a']}' and b == '{line['b']}' and c == '{line['c']}'")
        assert count.basis == basis
        assert [count.low, count.high] == pytest.approx([line["low"], line["high"]], rel=0.02)


def test_a_fit_that_left_its_tables_is_not_trusted() -> None:
    table = TRUE.astype(float)
    moved = table + np.array([[-200, 0, 0], [200, 0, 0]])
    opened = release(moved, [(("a", "b"), table, NOISE)], names="ab")
    count = opened.count("a == 'a0' and b == 'b0'")
    assert count.low <= 400 <= count.high


def test_noise_in_cells_without_rows_takes_part_in_their_sum() -> None:
    """Rows are drawn where noise was above 0: without the other cells their sum is too large."""
    cells = np.rint(np.random.default_rng(4).normal(0, NOISE, (2, 60)))
    released = np.where(cells > 0, 1.0, 0.0)
    released[:, 0] = cells[:, 0] = 400
    count = release(released, [(("a", "b"), cells, NOISE)], names="ab").count("a == 'a0'")
    assert count.high - count.low < 5 * NOISE * 60**0.5


def test_a_table_has_the_numbers_of_its_counts() -> None:
    """Measured over groups of levels, where a2 is alone in its group and a0 and a1 are not."""
    counts = np.array([[400, 100, 60], [50, 60, 90], [80, 300, 260]])
    grouped = np.array([counts[0] + counts[1], counts[2]]) + 5
    tables = [(("a",), counts.sum(1), NOISE), (("b",), counts.sum(0), NOISE)]
    tables.append((("a", "b"), grouped, 9.0))
    dependence, groups = {("a", "b"): 500.0}, {"a": [0, 0, 1]}
    opened = release(counts, tables, names="ab", dependence=dependence, groups=groups)
    lines = opened.table("a", "b")
    assert lines["basis"].tolist() == ["bounded"] * 6 + ["measured"] * 3
    for line in lines.to_dict("records"):
        count = opened.count(f"a == '{line['a']}' and b == '{line['b']}'")
        assert (count.value, count.basis) == (line["count"], line["basis"])
        assert [count.low, count.high] == pytest.approx([line["low"], line["high"]], rel=1e-6)
    assert opened.count("(a == 'a0' or a == 'a1') and b == 'b0'").basis == "measured"


@pytest.mark.parametrize("attributes", [("a", "b"), ("a", "c")])
def test_a_table_of_other_cells_or_attributes_is_damaged(attributes: tuple[str, str]) -> None:
    tables = [(attributes, np.zeros((2, 2)), NOISE)]
    with pytest.raises(Damaged, match="cells, but the export has 4: fetch the export again"):
        release(np.ones((2, 3)), tables, names="ab")


@pytest.mark.parametrize("groups", [None, {"b": [0, 1, 2]}])
def test_noise_in_missing_values_of_no_row_tells_nothing(groups) -> None:
    closed = np.array([[400, 100], [80, 300]])
    open_, noisy = (np.hstack([closed, [[cell], [cell]]]) for cell in (0, 90))
    labels = {"a": ["a0", "a1"], "b": ["b0", "b1", "missing"]}
    expected = release(closed, [(("a", "b"), closed, NOISE)], names="ab")
    opened = release(open_, [(("a", "b"), noisy, NOISE)], names="ab", labels=labels, groups=groups)
    for condition in ("a == 'a0'", "a == 'a0' and b == 'b1'"):
        assert opened.count(condition) == expected.count(condition)
    lines = opened.table("a", "b")
    assert lines["count"].to_numpy() == pytest.approx([400, 100, 0, 80, 300, 0], abs=1)


def test_a_count_below_0_before_the_fit_is_not_sure() -> None:
    measured = [(("a",), np.array([-10.0, 650.0]), NOISE)]
    count = release(np.array([0, 640]), measured, names="a").count("a == 'a0'")
    assert count.value == count.low == 0
    assert NOISE < count.high < 3 * NOISE


@given(noise=st.floats(1, 1e4), seed=st.integers(0, 99))
@pytest.mark.parametrize("of", ["table", "population"])
def test_no_interval_passes_what_is_possible(noise: float, seed: int, of: str) -> None:
    table, (first, second) = np.random.default_rng(seed).integers(0, 9, (2, 3)) + 1, (0, 1)
    measured = [(("a",), table.sum(axis=second), noise), (("b",), table.sum(axis=first), noise)]
    labels = {"a": ["f", "m"], "b": ["[-5, 1)", "[1, 4)", "[4, 10]"]}
    tables = tables_of(table, measured, names="ab", labels=labels)
    tables["synthetic"]["b"] = np.array([-5.0, 2.0, 10.0])[tables["codes"]["b"]]
    opened = open_table(tables)
    share = opened.share("b < 5", among="a == 'm'", of=of)
    most = opened.count(of=of).high
    count = opened.count("b < 5 or a == 'f'", of=of)
    counts = [(count.low, count.high), *opened.table("a", "b", of=of)[["low", "high"]].to_numpy()]
    numbers = [opened.mean("b", of=of), opened.quantile("b", 0.5, of=of)]
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert all(0 <= low <= high <= most + 1e-6 for low, high in counts)
    assert all(-5 <= number.low <= number.value <= number.high <= 10 for number in numbers)


def test_sampling_widens_what_is_said_of_a_population() -> None:
    table, population = (OPENED.count("a == 'a0'", of=of) for of in ("table", "population"))
    assert population.high - population.low > 1.5 * (table.high - table.low)


def test_replicates_differ_as_much_as_intervals_say() -> None:
    """The deviation over 200 replicates is known to 5 %; the bounds are six such errors away."""
    counts = [
        int(((table["a"] == "a0") & (table["b"] == "b0")).sum())
        for table in OPENED.replicates(200, seed=5)
    ]
    assert abs(np.mean(counts) - 400) < 6
    assert 0.7 < np.std(counts) / NOISE < 1.3
    first, again = ([len(table) for table in OPENED.replicates(3, seed=5)] for _ in range(2))
    assert first == again


def test_a_count_without_released_rows_is_not_sure_to_be_0() -> None:
    counts = np.array([[400, 0], [80, 300]])
    tables = [(("a",), counts.sum(axis=1), NOISE), (("b",), counts.sum(axis=0), NOISE)]
    count = release(counts, tables, names="ab").count("a == 'a0' and b == 'b1'")
    assert count.value == count.low == 0
    assert count.high > 1.9 * NOISE


@pytest.mark.parametrize(
    "ask",
    [
        lambda opened: opened.count(),
        lambda opened: opened.table("a", "b"),
        lambda opened: list(opened.replicates(1, seed=1)),
    ],
    ids=["count", "table", "replicates"],
)
def test_a_release_without_a_row_has_no_interval(ask: Callable[[OpenTable], object]) -> None:
    empty = release(TRUE, [(("a", "b"), TRUE, NOISE)], names="ab", rows=0)
    with pytest.raises(DeclarationError, match="has no row, so no number of it has an interval"):
        ask(empty)


def test_too_many_counts_to_be_stored_have_no_interval() -> None:
    tables = dict(tables_of(TRUE, [(("a", "b"), TRUE, NOISE)], names="ab"))
    del tables["cells"]
    with pytest.raises(DeclarationError, match="more than 200,000, which are not stored: fit with"):
        open_table(tables)


def test_a_missing_date_is_no_number() -> None:
    """Dates are numbers of days since 1970: the mean and median of 10 and 20 are 15."""
    tables = tables_of(np.array([40, 20]), [(("a",), np.array([40, 20]), NOISE)], names="a", rows=6)
    tables["synthetic"]["a"] = np.array([10, 10, 20, 20, "NaT", "NaT"], dtype="datetime64[D]")
    opened = open_table(tables)
    for estimate in opened.mean("a"), opened.quantile("a", 0.5):
        assert estimate.value == pytest.approx(15)


@pytest.mark.filterwarnings("error")
def test_a_pair_whose_rows_have_one_level_has_finite_intervals() -> None:
    counts = np.array([[1, 0, 0], [0, 0, 0]])
    noise, dependence = 1e-20, {("a", "b"): 10.0}
    tables = [(("a",), counts.sum(axis=1), noise), (("b",), counts.sum(axis=0), noise)]
    opened = release(counts, tables, names="ab", rows=1, dependence=dependence)
    for low, count, high in opened.table("a", "b")[["low", "count", "high"]].to_numpy():
        assert 0 <= low <= count <= high < 100
    assert opened.count("a == 'a0' and b == 'b1'").high < 100


@pytest.mark.filterwarnings("error")
def test_cells_of_an_unmeasured_attribute_have_infinite_noise() -> None:
    counts = np.array([[42, 0], [0, 0]])
    opened = release(counts, [(("a",), counts.sum(axis=1), NOISE)], names="ab")
    assert np.isinf(opened.precision.rough_counts(("a", "b")).noise).all()


@pytest.mark.parametrize("of", ["table", "population"])
def test_replicates_count_sampling_once(of: str) -> None:
    """Over 60 replicates a deviation is known to 9 %; the bounds are three such errors away."""
    results = []
    for table in OPENED.replicates(60, seed=6, of=of):
        share = float((table["a"] == "a0").mean())
        results.append((share, (share * (1 - share) / len(table)) ** 0.5))
    share = 560 / 1200
    noise = 3 * NOISE**2 * (share**2 + (1 - share) ** 2) / 1200**2
    deviation = (noise + share * (1 - share) / 1200) ** 0.5
    estimate = combine(results)
    assert 0.73 < (estimate.high - estimate.low) / (2 * 1.96 * deviation) < 1.27


def test_replicates_have_rows_where_all_rows_are_in_one_group() -> None:
    counts = np.array([[60, 20, 0], [0, 0, 0], [0, 0, 0]])
    measured = [
        (("a",), counts.sum(axis=1), NOISE),
        (("b",), counts.sum(axis=0), NOISE),
        (("a", "b"), np.array([[60, 20], [0, 0]]), NOISE),
    ]
    groups, dependence = {"a": (0, 1, 1), "b": (0, 1, 1)}, {("a", "b"): 30.0}
    opened = release(counts, measured, names="ab", rows=80, dependence=dependence, groups=groups)
    (replicate,) = opened.replicates(1, seed=1)
    assert 40 < len(replicate) < 160


def test_replicates_combine_by_rubins_rule() -> None:
    """By hand: ū = .01, b = .04, so the variance is .01 + 4/3 · .04 = .0633 at 2.82 degrees."""
    estimate = combine([(1.0, 0.1), (1.2, 0.1), (1.4, 0.1)])
    assert estimate.value == pytest.approx(1.2)
    assert (estimate.high - 1.2) == pytest.approx(0.8305, abs=2e-3)
    for wrong in (None, 7, [1.0, 2.0], [(1.0,), (2.0,)], [("a", 0.1), (1.0, 0.1)], [None, None]):
        with pytest.raises(DeclarationError, match="to combine must be pairs of two numbers, an e"):
            combine(wrong)  # type: ignore[arg-type]
    message = "Two or more results are needed to combine them, not 1"
    with pytest.raises(DeclarationError, match=message):
        combine([(1.0, 0.1)])
    with pytest.raises(DeclarationError, match="level of an interval must be above 0 and below 1"):
        combine([(1.0, 0.1), (1.2, 0.1)], level=95)


def test_a_group_without_a_value_has_no_mean() -> None:
    tables = tables_of(TRUE, [(("a", "b"), TRUE, NOISE)], names="ab")
    codes = tables["codes"]["b"]
    values = np.where((tables["codes"]["a"] == 0) | (codes == 0), None, codes.astype(object))
    opened = open_table({**tables, "synthetic": {**tables["synthetic"], "b": values}})
    means = opened.mean("b", by="a")
    assert isinstance(means, dict)
    assert [*means] == ["a1"]
    assert means["a1"].value == pytest.approx(820 / 560, abs=0.01)
    with pytest.raises(DeclarationError, match="No released row that meets the cond"):
        opened.mean("b", by="a", where="a = 'a0'")


def test_a_level_is_between_0_and_1() -> None:
    narrow, wide = (OPENED.count("a == 'a0'", level=level) for level in (0.5, 0.99))
    assert narrow.high - narrow.low < 0.3 * (wide.high - wide.low)


COUNTS = np.array([[400, 100, 60], [80, 300, 260]])
MARGINS = [(("a",), COUNTS.sum(axis=1), 3.0), (("b",), COUNTS.sum(axis=0), 3.0)]
UNREAD = "do not read relations between other columns from this table."


@pytest.mark.parametrize(
    ("measured", "dependence", "words"),
    [
        ([(("a", "b"), COUNTS, 3.0)], None, "Of 1 pair of columns 1 was measured, and shares"),
        (MARGINS, None, f"Nothing says how far the others are from the truth: {UNREAD}"),
        (MARGINS, {("a", "b"): 600.0}, UNREAD),
        (MARGINS, {("a", "b"): 3.0}, "By noisy scores the others are known to ±0."),
    ],
)
def test_the_verdict_says_what_may_be_read(measured, dependence, words: str) -> None:
    sentences = verdict(tables_of(COUNTS, measured, names="ab", dependence=dependence))
    assert words in " ".join(sentences)
    assert sentences[0].startswith("Shares of single columns are mostly good to ±0.")


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"codes": {"a": np.zeros(3, int)}}, "its noisy counts are too many to be stored"),
        ({"centres": {"x": np.ones(2)}}, "rounds that move centres store no noise"),
        ({"classes": {"rows": np.ones(2)}}, "the noise of its counts is not stored"),
    ],
)
def test_a_release_says_why_it_has_no_intervals(tables, reason: str) -> None:
    assert verdict(tables) == (f"No interval says how sure these numbers are: {reason}.",)


ENDS = np.arange(8.0)
WEIGHTS = np.array([90, 40, 10, 0, 0, 20, 60, 80])
CENTRES = np.array([[1.0], [6.5]])
DEVIATION = 4.0


def clustering(weights: np.ndarray) -> Clusters:
    """Eight boxes of width 1, and two centres."""
    lower, noise = ENDS[:, None], np.full(8, DEVIATION)
    return Clusters(("x",), CENTRES, Synopsis(("x",), lower, lower + 1, weights, noise))


def opened(weights: np.ndarray) -> OpenClusters:
    return open_clusters(clustering(weights).tables())


def test_rows_of_regions_and_centres_lie_inside() -> None:
    """Of 600 intervals 30 may fail; more than 48 do so once in 1,000 runs."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(200):
        clusters = opened(WEIGHTS + rng.normal(0, DEVIATION, 8))
        region = clusters.count("x >= 1 and x < 6")
        first, second = clusters.sizes()
        pairs = [(region, 70), (first, 140), (second, 160)]
        missed += sum(not estimate.low <= true <= estimate.high for estimate, true in pairs)
    assert missed <= 48


def test_part_of_a_box_has_the_error_of_that() -> None:
    clusters = opened(WEIGHTS.astype(float))
    whole, half = clusters.count("x < 1"), clusters.count("x < 0.5")
    assert (whole.value, half.value) == (90, 45)
    assert half.high - half.value > whole.high - whole.value


def test_questions_of_clusters_are_counts_shares_and_sizes() -> None:
    clusters = opened(WEIGHTS.astype(float))
    assert [line["value"] for line in answer_question(clusters, "sizes")] == [140, 160]
    (line,) = answer_question(clusters, "share where x < 4")
    assert line["low"] < 140 / 300 < line["high"]
    for question in ("mean x", "share where x < 4 among x < 5"):
        message = f"'{question}' is one that this release does not answer: write one such as count"
        with pytest.raises(DeclarationError, match=message) as refused:
            answer_question(clusters, question)
        assert "share" not in str(refused.value).partition(" such as ")[2]


@pytest.mark.parametrize("method", ["count", "share"])
def test_condition_on_clusters_that_is_no_text_is_refused(method: str) -> None:
    with pytest.raises(DeclarationError, match="A condition must be a text, not NoneType"):
        getattr(opened(WEIGHTS.astype(float)), method)(None)


@pytest.mark.parametrize("columns", [1, 2, 40])
def test_an_export_prints_the_sizes_that_an_answer_has(columns: int) -> None:
    """A box in the middle is cut by the line between the centres."""
    names, rng = tuple(f"x{i}" for i in range(columns)), np.random.default_rng(2)
    lower, weights = rng.random((9, columns)), np.arange(1.0, 10.0)
    boxes = Synopsis(names, lower, lower + 1, weights, np.full(9, DEVIATION))
    tables = Clusters(names, rng.random((3, columns)) + 0.5, boxes).tables()
    sizes = [estimate.value for estimate in open_clusters(tables).sizes()]
    centres = added_columns("centres", tables)
    assert centres["noisy rows"] == pytest.approx(sizes)
    assert (centres["low"] < sizes).all()
    assert (sizes < centres["high"]).all()
    assert sum(sizes) == pytest.approx(45)


def test_no_ends_are_added_to_sizes_that_were_counted() -> None:
    """Their noise is not that of the boxes."""
    counted = {**clustering(WEIGHTS.astype(float)).tables(), "sizes": {"size": np.ones(2)}}
    assert list(added_columns("centres", counted)) == ["noisy rows", "x_low", "x_high"]


def test_an_export_adds_ends_to_boxes_sizes_and_centres() -> None:
    tables = clustering(WEIGHTS.astype(float)).tables()
    assert list(added_columns("synopsis", tables)) == ["low", "high"]
    centres = added_columns("centres", tables)
    assert list(centres) == ["noisy rows", "low", "high", "x_low", "x_high"]
    assert (centres["x_low"] < CENTRES[:, 0]).all()
    assert added_columns("sizes", {"sizes": {"size": np.ones(2)}}) == {}


def test_a_clustering_without_boxes_is_refused() -> None:
    with pytest.raises(DeclarationError, match="must have boxes with the deviation of their noise"):
        open_clusters(Clusters(("x",), CENTRES).tables())
