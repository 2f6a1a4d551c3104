"""Bought numbers of centres and tables say what exact metrics say, and cost exactly their ε."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.sections import Target
from dp_pipeline.gate import quality
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.quality import fixed_point_shares, private_quality
from dp_pipeline.metrics.auc import adjusted_rand, f_measure, macro_auc
from dp_pipeline.metrics.classification import LinearClassifier, misclassification, train
from dp_pipeline.metrics.marginals import attribute_sets
from dp_pipeline.raw.comparison import distances
from dp_pipeline.results.bit_classes import BitClasses, declared_bits
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import SILENT, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import loss_of_joining
from dp_pipeline_tests.models.tables import counter_of, dependent_rows, domain_of
from dp_pipeline_tests.populations import AWKWARD, NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row
from dp_pipeline_tests.raw.population import of_people
from dp_pipeline_tests.raw.questions import memory

CENTRES = np.array([[1.0, -0.75], [4.0, 0.0], [7.0, 0.75]])
CORNER = np.array([[0.0, -1.0]])


def clusters_at(centres: np.ndarray) -> Clusters:
    box = TOWN.box(("x", "y"))
    return Clusters(("x", "y"), centres, Synopsis.of_grid(np.ones((1, 1)), ("x", "y"), box))


def exact_nicv(rows: tuple[Row, ...], centres: np.ndarray, most: float) -> float:
    """Mean squared distance to the nearest centre, at most ``most`` a row, by a loop."""
    distances = [min(((np.array(row[:2]) - c) ** 2).sum() for c in centres) for row in rows]
    return float(np.mean([min(distance, most) for distance in distances]))


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
def test_without_noise_the_nicv_is_that_of_a_loop_over_rows(people: str) -> None:
    rows = AWKWARD[people]
    bought = private_quality(curator_over(rows), clusters_at(CORNER), epsilon=SILENT)["nicv"]
    # One box with its middle at (4, 0) and half its diagonal squared 4² + 1² = 17. 20 bits a row
    # of the clip, weights in 1024ths, coordinates in 2^-16 of the half-width.
    assert bought.value == pytest.approx(exact_nicv(rows, CORNER, 17.0 + 17.0), abs=1e-4)
    assert bought.unit == "squared data units"


@pytest.mark.parametrize(
    ("near", "far", "most"),
    [
        # Cells are 2 wide and 0.5 high, so half the diagonal squared is 1.0625.
        (99.0, 1.0, 1.0625),
        (97.0, 3.0, 6.0**2 + 1.5**2 + 1.0625),
        (5.0, 0.0, 1.0625),
        (-1.0, -1.0, 1.0625),
    ],
)
def test_rows_farther_than_the_synopsis_are_clipped(near: float, far: float, most: float) -> None:
    table = np.full((4, 4), -2.0)
    table[0, 0], table[3, 3] = near, far
    box = TOWN.box(("x", "y"))
    centre = np.array([[1.0, -0.75]])
    clusters = Clusters(("x", "y"), centre, Synopsis.of_grid(table, ("x", "y"), box))
    bought = private_quality(curator_over(TEN_PEOPLE), clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(exact_nicv(TEN_PEOPLE, centre, most), abs=1e-4)


MANY = memory(of_people(TEN_PEOPLE * 20))


def assert_scales_are_those_of_errors(
    ask, counter, exact, *, epsilon, seed=3, domain=TOWN, rel=0.24
):
    """Of 400 draws the deviation of each number is known to within √(5/1600) = 6 %: four times
    that is passed by chance once in 10,000. That of noise near a normal one is, to within 3.5 %.
    """
    noise, draws = SeededNoise(seed), []
    for _ in range(400):
        curator = curator_over(counter, epsilon=epsilon, domain=domain, noise=noise)
        draws.append(ask(curator, epsilon))
    for name, value in exact.items():
        errors = np.array([draw[name].value for draw in draws]) - value
        stated = np.sqrt(2) * np.mean([draw[name].scale for draw in draws])
        assert stated == pytest.approx(np.sqrt(np.mean(errors**2)), rel=rel), name
        assert abs(errors.mean()) < 5 * stated / 20, name


@pytest.mark.parametrize("label", [None, "colour"])
def test_the_scale_of_a_mean_holds_the_noise_of_sum_and_rows(label, monkeypatch):
    # Without the noise of the rows the statement would be too small by half.
    monkeypatch.setattr(quality, "redraw_error", lambda *_, **__: 0.0)
    exact = {"nicv": exact_nicv(TEN_PEOPLE, CORNER, 34.0)}
    ask = quality_of(clusters_at(CORNER), label=label)
    assert_scales_are_those_of_errors(ask, MANY, exact, epsilon=Fraction(2))


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
def test_without_noise_the_agreement_is_that_of_a_loop_over_rows(people: str) -> None:
    rows = AWKWARD[people]
    bought = private_quality(
        curator_over(rows), clusters_at(CENTRES), epsilon=SILENT, label="colour"
    )
    table = np.zeros((3, 3))
    for x, y, colour, _ in rows:
        nearest = int(((CENTRES - (x, y)) ** 2).sum(axis=1).argmin())
        table[("red", "green", "blue").index(colour), nearest] += 1
    assert bought["f_label"].value == pytest.approx(f_measure(table))
    assert bought["ari_label"].value == pytest.approx(adjusted_rand(table))
    assert bought["nicv"].value == pytest.approx(exact_nicv(rows, CENTRES, 17.0), abs=1e-4)
    units = {name: number.unit for name, number in bought.items()}
    assert units == {"nicv": "squared data units", "f_label": "share", "ari_label": "share"}


TABLES = {
    "equal sets": np.diag([200, 200, 300]),
    "nothing in common": np.full((3, 3), 70),
    "half of it": np.array([[150, 50, 0], [50, 150, 0], [0, 0, 300]]),
}


@pytest.mark.parametrize("metric", [f_measure, adjusted_rand])
@pytest.mark.parametrize("name", TABLES)
def test_the_scale_of_an_agreement_is_within_twice_its_error(name: str, metric) -> None:
    # 200 draws know the error to within 15 % (three deviations), its statement is a mean of 20.
    table, scale, noise = TABLES[name], 10.0, np.random.default_rng(5)
    draws = [table + np.rint(noise.laplace(0, scale, (3, 3))).astype(int) for _ in range(200)]
    values = np.array([metric(quality._nearest_counts(draw)) for draw in draws])
    error = np.sqrt(np.mean((values - metric(table)) ** 2))
    stated = [quality._agreement(metric, draw, scale).scale for draw in draws[:20]]
    assert error / 2 < np.sqrt(2) * np.mean(stated) < error * 2


def test_projection_halves_the_error_of_clipping_cells_at_zero() -> None:
    table, noise = np.diag([200] * 8), np.random.default_rng(5)
    errors = {"off": 0.0, "zero": 0.0}
    for _ in range(100):
        noisy = table + np.rint(noise.laplace(0, 10.0, table.shape)).astype(int)
        errors["off"] += 1 - f_measure(quality._nearest_counts(noisy))
        errors["zero"] += 1 - f_measure(noisy.clip(min=0))
    assert errors["off"] < errors["zero"] / 2


@pytest.mark.parametrize(
    ("centres", "most"),
    [
        (CENTRES, 3.0**2 + 0.75**2),
        (np.array([[0.0, 0.0], [1.0, 0.0], [7.0, 0.0]]), 6.0**2),
        (CORNER, 4.0**2 + 1.0**2),
        (np.array([[2.0, 0.0], [2.0, 0.0]]), 4.0**2 + 1.0**2),
        (np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 1.0]]), 1.0),
    ],
    ids=["three", "one far off", "one", "two at one place", "three at two places"],
)
def test_without_a_synopsis_rows_are_clipped_at_the_widest_gap(centres, most):
    clusters = Clusters(("x", "y"), centres)
    bought = private_quality(curator_over(TEN_PEOPLE), clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(exact_nicv(TEN_PEOPLE, centres, most), abs=1e-4)


@pytest.mark.parametrize("width", [1e-100, 1e-3, 1e15])
def test_a_box_of_any_declared_width_has_a_nicv(width: float) -> None:
    sides = {"x": Coordinate(0.0, width), "y": Coordinate(0.0, width / 1e6)}
    thin = Domain(
        tuple(Attribute(name, name, "clip", coordinate=side) for name, side in sides.items())
    )
    synopsis = Synopsis.of_grid(np.ones((1, 1)), ("x", "y"), thin.box(("x", "y")))
    clusters = Clusters(("x", "y"), np.array([[0.0, 0.0]]), synopsis)
    curator = curator_over(LoopCounter(((width / 8, 0.0),), thin), domain=thin)  # type: ignore[arg-type]
    bought = private_quality(curator, clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(width**2 / 64, rel=1e-3)


TARGETS = (Target("smokes", ("yes",)), Target("colour", ("red", "blue"), without=("smokes",)))
NUMBERS = ("avd_2", "avd_3", "misclassified_logistic/smokes", "misclassified_logistic/colour")
SIZES = {name: TOWN[name].size for name in TOWN.discrete}


def codes_of(rows: tuple[Row, ...], *names: str) -> dict[str, np.ndarray]:
    counter = LoopCounter(rows)
    return {
        name: np.array([counter.code(row, name) for row in rows], dtype=np.int64)
        for name in names or TOWN.discrete
    }


def table_of(rows: tuple[Row, ...], *names: str) -> SyntheticTable:
    codes = codes_of(rows, *names)
    columns = np.stack(list(codes.values()), axis=1)
    return SyntheticTable(tuple(codes), columns, (), (tuple(codes),), (), TOWN, 0)


SOME = table_of((*TEN_PEOPLE[2:9], *TEN_PEOPLE[4:6]))


def bought(curator, epsilon, *, table=SOME) -> dict[str, NoisyNumber]:
    return private_quality(curator, table, epsilon=epsilon, targets=TARGETS)


def test_every_number_gets_one_share_and_rows_a_quarter() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=Fraction(17))
    bought(curator, Fraction(17))
    assert [spend.epsilon for spend in curator.accountant.spends] == [1, 4, 4, 4, 4]


def test_another_table_is_another_question() -> None:
    questions = []
    for table in (SOME, table_of(TEN_PEOPLE)):
        transcript = Transcript()
        bought(curator_over(TEN_PEOPLE, transcript=transcript), Fraction(1), table=table)
        questions.append([record.question for record in transcript.records])
    same = [first == other for first, other in zip(*questions, strict=True)]
    assert same == [True, False, False, False, False]


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
def test_without_noise_it_equals_the_exact_metrics(people: str) -> None:
    rows = AWKWARD[people]
    numbers = bought(curator_over(rows), SILENT)
    real, released = codes_of(rows), dict(zip(SOME.attributes, SOME.codes.T, strict=True))
    for k in (2, 3):
        distance_of = distances(real, released, SIZES, attribute_sets(TOWN.discrete, k))
        exact = np.mean(list(distance_of.values()))
        assert numbers[f"avd_{k}"].value == pytest.approx(exact, abs=1e-4)
    for target in TARGETS:
        classifier = train("logistic", *target.classification_task(released, TOWN), SIZES)
        exact = misclassification(classifier, *target.classification_task(real, TOWN))
        number = numbers[f"misclassified_logistic/{target.attribute}"]
        assert number.value == pytest.approx(exact)


def test_a_table_without_rows_is_evaluated() -> None:
    empty = bought(curator_over(TEN_PEOPLE), SILENT, table=table_of(NOBODY))
    assert tuple(empty) == NUMBERS
    # Four of ten smoke and seven are red or blue; who learned from nobody says no to all.
    assert empty["misclassified_logistic/smokes"].value == pytest.approx(0.4)
    assert empty["misclassified_logistic/colour"].value == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("smokes",), ("avd_2", "misclassified_logistic/smokes")),
        (("y", "smokes"), ("avd_2", "misclassified_logistic/smokes")),
        (("y",), ("avd_2",)),
    ],
)
def test_a_table_of_few_attributes_has_fewer_numbers(names, expected) -> None:
    table = table_of(TEN_PEOPLE[:7], *names)
    curator = curator_over(TEN_PEOPLE, epsilon=Fraction(1))
    assert tuple(bought(curator, Fraction(1), table=table)) == expected
    curator.accountant.require_all_spent()
    both = (codes_of(people, *names) for people in (TEN_PEOPLE, TEN_PEOPLE[:7]))
    distance_of = distances(*both, SIZES, attribute_sets(names, 2) or [names])
    exact = np.mean(list(distance_of.values()))
    silent = bought(curator_over(TEN_PEOPLE), SILENT, table=table)
    assert silent["avd_2"].value == pytest.approx(exact, abs=1e-4)


def test_marginals_too_large_together_are_omitted(monkeypatch) -> None:
    # y × colour has 9 cells, y × smokes 6, colour × smokes 6, all three 18.
    for most, avd_2 in {15: 2, 12: 1, 5: 3}.items():
        monkeypatch.setattr(quality, "MAX_CELLS", most)
        curator = curator_over(TEN_PEOPLE, epsilon=Fraction(1))
        numbers = private_quality(curator, SOME, epsilon=Fraction(1))
        assert tuple(numbers) == ("avd_2",)
        spend = curator.accountant.spends[1]
        assert spend.what == f"error of {avd_2} released marginals"
        curator.accountant.require_all_spent()


def test_the_scale_that_is_stated_is_that_of_the_error(monkeypatch) -> None:
    trained: dict[bytes, LinearClassifier] = {}

    def train_once(method, codes, answers, sizes):
        if answers.tobytes() not in trained:
            trained[answers.tobytes()] = train(method, codes, answers, sizes)
        return trained[answers.tobytes()]

    monkeypatch.setattr(quality, "train", train_once)
    numbers = bought(curator_over(MANY), SILENT)
    exact = {name: numbers[name].value for name in NUMBERS}
    assert_scales_are_those_of_errors(bought, MANY, exact, epsilon=Fraction(2))


@settings(max_examples=40)
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=300).filter(lambda w: sum(w) > 1e-3)
)
def test_whole_parts_add_up_and_are_within_one(weights: list[float]) -> None:
    shares = np.array(weights) / np.sum(weights)
    parts = fixed_point_shares(shares)
    assert parts.sum() == 1 << 16
    assert (parts >= 0).all()
    assert (np.abs(parts - shares * (1 << 16)) < 1 + 1e-9).all()
    # The largest remainders are rounded up.
    rest = shares * (1 << 16) - np.floor(shares * (1 << 16))
    is_up = parts > np.floor(shares * (1 << 16))
    assert rest[is_up].min(initial=1) >= rest[~is_up].max(initial=0) - 1e-9


def test_whole_parts_keep_the_shape_whatever_the_memory_layout() -> None:
    shares = (np.arange(12.0) / 66).reshape(3, 4)
    assert fixed_point_shares(shares).shape == (3, 4)
    copy = np.ascontiguousarray(shares.T)
    assert (fixed_point_shares(shares.T) == fixed_point_shares(copy)).all()


LABEL_SIZES = {"two labels": [2, 3, 4], "three labels": [3, 3, 4]}


def released(domain: Domain, label: str, *, least: int = 1) -> ClassTable:
    """Classes by all bits but the label's, with counts of another population."""
    names = tuple(name for name in domain.discrete if name != label)
    classes = BitClasses(declared_bits(domain, names), domain)
    noisy = np.random.default_rng(4).integers(-2, 30, (classes.size, domain[label].size))
    promise = ClassPromise(least, 1, Fraction(1, 20), noisy.shape[1], classes.size, Fraction(1, 9))
    return ClassTable.of_noisy(label, classes, noisy, promise)


TOWNS = released(TOWN, "smokes", least=20)


@pytest.mark.parametrize("name", LABEL_SIZES)
@pytest.mark.parametrize("least", [1, 25])
def test_without_noise_it_is_the_auc_of_the_rows(name: str, least: int) -> None:
    domain, codes = domain_of(LABEL_SIZES[name]), dependent_rows(LABEL_SIZES[name], 300)
    table = released(domain, "x0", least=least)
    curator = curator_over(counter_of(domain, codes), domain=domain)
    (number,) = private_quality(curator, table, epsilon=SILENT).values()
    places = table.places_of({"x1": codes[:, 1], "x2": codes[:, 2]})
    assert number.value == pytest.approx(macro_auc(table.rates[places], codes[:, 0]))
    assert number.scale < 1e-3


def with_one_withheld(rows: int, at_most: int = 1) -> NoisyNumber:
    """Of two published classes of 40 and 50 rows, and so many in a third one; K = 20 persons."""
    domain = domain_of([2, 3])
    classes = BitClasses(declared_bits(domain, ("x1",)), domain)
    promise = ClassPromise(20, 1, Fraction(1, 20), 2, classes.size, Fraction(1, 9))
    counts = {(0, 0): 10, (1, 0): 30, (0, 1): 45, (1, 1): 5}
    noisy = np.array([[10, 30], [45, 5], [0, 0]])
    table = ClassTable.of_noisy("x0", classes, noisy, promise)
    assert table.published.tolist() == [0, 1]
    codes = np.repeat([*counts, (1, 2)], [*counts.values(), rows], axis=0)
    rows_counted = counter_of(domain, codes)
    curator = curator_over(rows_counted, epsilon=SILENT, distance=at_most, domain=domain)
    (number,) = private_quality(curator, table, epsilon=SILENT).values()
    return number


def test_a_withheld_small_class_is_in_no_number() -> None:
    for at_most in (1, 3):
        without, most = with_one_withheld(0, at_most), 19 * at_most
        assert all(with_one_withheld(rows, at_most) == without for rows in (1, 7, 19, most))
        assert with_one_withheld(most + 1, at_most).value != without.value
    without, large = with_one_withheld(0), with_one_withheld(20)
    # What 20 rows may change is in the scale of the number that leaves them out.
    assert abs(large.value - without.value) < without.scale < 0.2
    assert large.scale < 1e-3


def test_without_published_classes_there_is_no_number() -> None:
    domain, codes = domain_of([2, 3, 4]), dependent_rows([2, 3, 4], 300)
    curator = curator_over(counter_of(domain, codes), domain=domain)
    numbers = private_quality(curator, released(domain, "x0", least=10**6), epsilon=SILENT)
    assert list(numbers.values()) == [NoisyNumber(0.5, 0.5, "share")]


@pytest.mark.parametrize("name", LABEL_SIZES)
def test_its_scale_is_that_of_its_errors(name: str) -> None:
    domain, codes = domain_of(LABEL_SIZES[name]), dependent_rows(LABEL_SIZES[name], 4000)
    counter, table = counter_of(domain, codes), released(domain, "x0")
    places = table.places_of({"x1": codes[:, 1], "x2": codes[:, 2]})
    exact = {"auc_class_rate/x0": macro_auc(table.rates[places], codes[:, 0])}
    ask, how = quality_of(table), {"epsilon": Fraction(1, 5), "seed": 8, "domain": domain}
    assert_scales_are_those_of_errors(ask, counter, exact, rel=0.14, **how)


EPSILONS = [Fraction(text) for text in ("0.05", "1", "2.5")]
Ask = Callable[[Curator, Fraction], dict[str, NoisyNumber]]


def quality_of(released: object, **declared: object) -> Ask:
    """All numbers of what was released, for an ε."""
    return lambda curator, epsilon: private_quality(curator, released, epsilon=epsilon, **declared)  # type: ignore[arg-type]


BOUGHT = {
    "centres": quality_of(clusters_at(CENTRES)),
    "labelled centres": quality_of(clusters_at(CENTRES), label="smokes"),
    "table": quality_of(SOME, targets=TARGETS),
    "class table": quality_of(TOWNS),
}


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("people", AWKWARD)
@pytest.mark.parametrize("kind", BOUGHT)
def test_scales_of_quality_prove_its_epsilon_for_any_rows(kind, people, distance, epsilon):
    noise = RecordingNoise()
    curator = curator_over(AWKWARD[people], epsilon=epsilon, distance=distance, noise=noise)
    numbers = BOUGHT[kind](curator, epsilon)
    curator.accountant.require_all_spent()
    spends = zip(curator.accountant.spends, noise.draws, strict=True)
    assert sum(Fraction(spend.sensitivity) / draw.scale for spend, draw in spends) == epsilon
    for name, number in numbers.items():
        assert 0 < number.scale < np.inf
        if name == "nicv":
            assert 0 <= number.value < np.inf
        else:
            assert (-0.5 if name == "ari_label" else 0) <= number.value <= 1
            assert number.unit == "share"


def test_without_persons_there_is_no_error() -> None:
    values = {"table": 0.0, "centres": 0.0, "class table": 0.5}
    for kind, value in values.items():
        numbers = BOUGHT[kind](curator_over(NOBODY), SILENT)
        assert {number.value for number in numbers.values()} == {value}
    assert numbers == {"auc_class_rate/smokes": NoisyNumber(0.5, 0.5, "share")}


# Farther from the one centre than what counts, or of levels that the released table has not:
# 2^17 a marginal, and not the half of it.
MOVING = {
    "centres": (quality_of(clusters_at(CORNER)), TEN_PEOPLE[-1]),
    "labelled centres": (quality_of(clusters_at(CORNER), label="colour"), TEN_PEOPLE[-1]),
    "table": (quality_of(table_of(TEN_PEOPLE[:3]), targets=TARGETS), TEN_PEOPLE[8]),
    "class table": (quality_of(TOWNS), TEN_PEOPLE[0]),
}


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("rows", [1, 3])
def test_who_moves_every_number_uses_all_of_its_epsilon(kind: str, rows: int) -> None:
    ask, person = MOVING[kind]
    five = Fraction(5)
    assert loss_of_joining(lambda curator: ask(curator, five), [person] * rows, epsilon=five) == 5


@pytest.mark.parametrize("kind", BOUGHT)
def test_quality_is_replayed_without_rows(kind: str) -> None:
    transcript = Transcript()
    paid = BOUGHT[kind](curator_over(TEN_PEOPLE, transcript=transcript), Fraction(1))
    assert BOUGHT[kind](curator_over(None, transcript=transcript.rewind()), Fraction(1)) == paid
