"""What is discovered, what it costs, and what one person may change of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import (
    BETA,
    Discover,
    DiscoveredAttribute,
    DiscoveredDomain,
)
from dp_pipeline.config.domain import Attribute, Domain, Undeclared
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError, NoAnswer
from dp_pipeline.gate.discovery import bucket_edges, bucket_threshold, discover, discovery_queries
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.texts import unpack_texts
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import LAPLACE, TREE_PATHS, TRUNCATED_TEXTS, Accountant
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise
from dp_pipeline_tests.raw.written import KEY, written_spec

Row = tuple[float, str, str]
"""x, word, rider."""

BOUNDS = "{x: {bounds: discover}}"
NUMBERS = "{x: {bounds: discover, bins: {quantiles: 4}}}"
WORDS = "{word: {levels: discover}}"
ALL = "{x: {bounds: discover, bins: {quantiles: 4}}, word: {levels: discover}}"
PERSON = "{unit: rows_of_person, column: rider, at_most: 2}"


def spec_of(folder, attributes, cost, *, relation="add_remove", person=False) -> DatasetSpec:
    protection = PERSON if person else "{unit: one_row}"
    more = f"discover: {cost}\nrelation: {relation}"
    return written_spec(folder, attributes, protection=protection, more=more)


def counter_of(spec: DatasetSpec, rows: Sequence[Row]) -> UndeclaredRows:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.float64(), pa.string(), pa.string())
    names = ("x", "word", "rider")
    named = zip(names, columns, types, strict=True)
    table = pa.table({name: pa.array(cells, kind) for name, cells, kind in named})
    return UndeclaredRows.of_table(spec, table, KEY)


def accountant_of(spec: DatasetSpec) -> Accountant:
    return Accountant(spec.discover.epsilon, delta=spec.discover.delta or Fraction(0))


def run(spec, rows, noise=None, transcript=None) -> DiscoveredDomain:
    counter = None if rows is None else counter_of(spec, rows)
    accountant = accountant_of(spec)
    noise = SeededNoise(1) if noise is None else noise
    given = Transcript() if transcript is None else transcript
    domain = discover(spec, counter, accountant, given, noise)
    accountant.require_all_spent()
    return domain


def crowd(values: Sequence[float], *, words: str = "ab", times: int = 100) -> list[Row]:
    return [
        (value, words[index % len(words)], f"p{index}-{again}")
        for again in range(times)
        for index, value in enumerate(values)
    ]


def rows_at(values: Iterable[float]) -> list[Row]:
    return [(float(value), "a", "p") for value in values]


def binned(folder, values, *, upper=100.0, many, unit=1.0, epsilon=20, noise=None):
    """What is discovered of the bins of x in [0, upper]."""
    text = f"{{x: {{bounds: [0, {upper}], bins: {{quantiles: {many}}}, unit: {unit}}}}}"
    spec = spec_of(folder, text, f"{{epsilon: {epsilon}}}")
    return run(spec, rows_at(values), noise)["x"]


def test_without_noise_bounds_are_powers_of_two_around_the_rows(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOUNDS, "{epsilon: 100}")
    cases = {
        (33.0, 90.0): (0.0, 128.0),
        (70.0, 90.0): (64.0, 128.0),
        (-90.0, -17.0): (-128.0, 0.0),
        (0.0, 0.5): (0.0, 1.0),
        (-3.0, 5.0): (-4.0, 8.0),
        (-64.0, -33.0): (-64.0, -32.0),
        (5e14, 5e14): (2.0**48, 2.0**49),
    }
    for values, bounds in cases.items():
        assert run(spec, crowd(values))["x"] == DiscoveredAttribute(bounds=bounds)


def test_an_outlier_of_one_person_does_not_widen_bounds(tmp_path: Path) -> None:
    """Seeded; by the declared β it would fail once in 10^6 seeds."""
    spec = spec_of(tmp_path, BOUNDS, "{epsilon: 1}")
    rows = [*crowd([1.5, 3.0]), (1e12, "a", "far")]
    assert run(spec, rows)["x"].bounds == (0.0, 4.0)


def test_an_empty_bucket_passes_with_probability_beta_at_most() -> None:
    for scale, beta in ((Fraction(10), Fraction(1, 10**6)), (Fraction(7, 3), Fraction(1, 100))):
        threshold, buckets = bucket_threshold(scale, 100, beta), 100
        q = float(np.exp(-1 / float(scale)))
        assert buckets * q**threshold / (1 + q) <= beta
        assert buckets * q ** (threshold - 1) > beta


@dataclass
class Same(ForcedNoise):
    """One answer to every question."""

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return np.full(counts.shape, self.most, dtype=np.int64)


def test_a_bucket_passes_from_the_threshold_on(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOUNDS, "{epsilon: 1}")
    edges = bucket_edges(1.0)
    threshold = bucket_threshold(Fraction(1), len(edges) - 1, BETA)
    assert run(spec, [], Same(1, threshold))["x"].bounds == (edges[0], edges[-1])
    below = run(spec, [], Same(1, threshold - 1))["x"]
    assert below.bounds == (edges[0], edges[1])
    assert f"the needed {threshold:,} rows" in str(below.weak)


@pytest.mark.parametrize("unit", [1.0, 0.1, 5.0])
def test_edges_are_distinct_multiples_of_the_unit(tmp_path: Path, unit: float) -> None:
    rng = np.random.default_rng(1)
    for values in (rng.uniform(0, 100, 2000), rng.integers(0, 5, 2000), np.full(2000, 37.0)):
        edges = binned(tmp_path, values, many=16, unit=unit, epsilon=1).edges
        assert len(edges) <= 15
        assert list(edges) == sorted(set(edges))
        assert all(0 < edge < 100 for edge in edges)
        steps = np.array(edges) / unit
        assert np.abs(steps - np.rint(steps)).max(initial=0) < 1e-9


def test_quantile_bins_hold_about_as_many_rows_each(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, NUMBERS, "{epsilon: 20}")
    values = np.random.default_rng(2).lognormal(3, 1, 4000)
    full = spec.with_domain(run(spec, rows_at(values)))
    (box,) = full.domain.box(("x",))
    counts = np.bincount(
        full.domain["x"].cells.encode(np.clip(values, box.lower, box.upper)), minlength=4
    )
    assert counts.min() > 850


def test_a_value_of_many_rows_is_cut_off_on_both_sides(tmp_path: Path) -> None:
    gains = np.random.default_rng(3).integers(200, 800, 500)
    first, *others = binned(tmp_path, [*gains, *[0] * 3500], upper=1000, many=16).edges
    assert first == 1.0
    # An eighth of the rows is for two of sixteen bins.
    assert others == [pytest.approx(np.median(gains), abs=25)]
    hours = np.random.default_rng(4).integers(0, 100, 2000)
    edges = binned(tmp_path, [*hours, *[40] * 2000], many=8).edges
    assert {40.0, 41.0} <= set(edges)
    assert 5 <= len(edges) <= 7


def test_pieces_tell_where_rows_are_inside_of_bins(tmp_path: Path) -> None:
    values = [*np.random.default_rng(5).uniform(0, 100, 4000), *[999] * 100]
    starts, rows = np.array(binned(tmp_path, values, upper=1000, many=2).pieces).T
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert (rows >= 0).all()
    assert len(starts) <= 128
    upto = np.interp([100, 900], [*starts, 1000], [0, *np.cumsum(rows)])
    assert upto == pytest.approx([4000, 4000], abs=40)
    assert rows.sum() == pytest.approx(4100, abs=40)


def test_only_open_attributes_are_discovered(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ALL, "{epsilon: 30, delta: 0.001}")
    actual = run(spec, crowd([1.5, 3.0]))
    assert actual.names == ("x", "word")
    assert actual["word"] == DiscoveredAttribute(levels=("a", "b"))
    assert spec.with_domain(actual).to_discover == ()


def test_every_query_has_its_part_of_the_budget(tmp_path: Path) -> None:
    text = ALL[:-1] + ", more: {levels: discover}}"
    spec = spec_of(tmp_path, text, "{epsilon: 1, delta: 0.001}", person=True)
    spends = [look.spend for look in discovery_queries(spec)]
    assert [spend.mechanism for spend in spends[:2]] == [LAPLACE, TREE_PATHS]
    assert {spend.epsilon for spend in spends} == {Fraction(1, 4)}
    assert [spend.delta for spend in spends] == [0, 0, Fraction(1, 2000), Fraction(1, 2000)]
    assert {spend.sensitivity for spend in spends if not spend.delta} == {2}
    accountant_of(spec).charge(*spends)


def test_a_rule_of_texts_is_of_all_rows_that_a_person_may_have(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, WORDS, "{epsilon: 1, delta: 0.001}", person=True)
    (look,) = discovery_queries(spec)
    assert len(look.rule.weights) == 2
    rows = [(1.0, word, f"p{index}") for index in range(200) for word in "ab"]
    assert run(spec, rows)["word"].levels == ("a", "b")


def test_replacing_a_person_doubles_what_is_paid_for(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ALL, "{epsilon: 1, delta: 0.001}", relation="replace_one")
    spends = [look.spend for look in discovery_queries(spec)]
    assert [spend.mechanism for spend in spends] == [LAPLACE, TREE_PATHS, TRUNCATED_TEXTS]
    assert {spend.sensitivity for spend in spends} == {2}
    assert {int(spend.scale + Fraction(1, 2)) for spend in spends} == {6}


def test_a_charge_comes_before_any_look(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ALL, "{epsilon: 1, delta: 0.001}")

    class Unseen(UndeclaredRows):
        def magnitudes(self, *_):
            raise AssertionError("looked at")

    poor = Accountant(Fraction(1, 2), delta=Fraction(1, 1000))
    with pytest.raises(Exception, match="refused by this release"):
        discover(spec, Unseen.empty(spec), poor, Transcript(), SeededNoise(1))
    no_delta = Accountant(Fraction(1))
    with pytest.raises(BoundaryViolation, match="may spend δ of at most 0"):
        discover(spec, Unseen.empty(spec), no_delta, Transcript(), SeededNoise(1))


def losses(spec, rows, others, seed) -> list[float]:
    """Of each draw, ln of how much likelier the same answers are over the rows than the others."""
    draws = []
    for people in (rows, others):
        noise = RecordingNoise(ForcedNoise(seed, most=6000))
        run(spec, people, noise)
        draws.append(noise.draws)
    for first, second in zip(*draws, strict=True):
        assert first.scale == second.scale
        assert np.array_equal(first.answer, second.answer)
    return [
        float((np.abs(b.answer - b.exact).sum() - np.abs(a.answer - a.exact).sum()) / a.scale)
        for a, b in zip(*draws, strict=True)
    ]


TOWN: list[Row] = crowd([0.5, 3.0, 12.5, -7.0], times=2)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_person_makes_answers_likelier_by_more_than_epsilon(tmp_path, relation):
    spec = spec_of(tmp_path, NUMBERS, "{epsilon: 1}", relation=relation, person=True)
    largest = 0.0
    for seed, places in product(range(12), ((0.5, 0.5), (3.0, -7.0), (1e9, float("nan")))):
        eve = [(place, "a", "eve") for place in places]
        mallory: list[Row] = [(2.0**at, "a", "eve") for at in (3, 40)]
        neighbour = TOWN if relation == "add_remove" else [*TOWN, *mallory]
        # The other way round it is the same with the other sign: the answers are forced.
        largest = max(largest, abs(sum(losses(spec, [*TOWN, *eve], neighbour, seed))))
    # Nearly all forced answers are above the counts, so what one person loses another one gains.
    assert {"add_remove": 0.7, "replace_one": 0.4}[relation] < largest <= 1 + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_the_domain_depends_on_noisy_answers_only(tmp_path: Path, seed: int) -> None:
    spec = spec_of(tmp_path, NUMBERS, "{epsilon: 1}")
    domains = [
        str(run(spec, rows, ForcedNoise(seed, most=300)).to_facts())
        for rows in (TOWN, [], crowd([1e9], times=50))
    ]
    assert len(set(domains)) == 1


def test_the_domain_of_too_few_rows_states_its_weakness(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ALL, "{epsilon: 0.1, delta: 0.000001}")
    domain = run(spec, crowd([1.0], times=2))
    assert domain["word"].levels == ()
    assert domain["x"].bounds is not None
    of_bounds, of_levels = domain.warnings
    assert of_bounds == (
        "bounds of x: no power of two has a noisy count of the needed 553 rows, so they are a "
        "guess: raise `discover`, or declare bounds"
    )
    assert of_levels.startswith("levels of word: no text has the about ")
    assert spec.with_domain(domain).domain["word"].labels() == ("other",)


@pytest.mark.parametrize("times", [0, 3])
def test_quantiles_of_few_rows_are_one_bin_with_a_reason(tmp_path: Path, times: int) -> None:
    weak = 0
    for seed in range(40):
        values, noise = [1.0, 4.0] * times, SeededNoise(seed)
        actual = binned(tmp_path, values, upper=9, many=4, epsilon=0.1, noise=noise)
        if actual.weak is not None:
            assert actual.weak.startswith("quantiles of x: the number of rows is less than its n")
            assert actual.edges == ()
            weak += 1
    assert weak > 20


@pytest.mark.parametrize("dropped", ["", ", on_invalid: drop"])
def test_without_a_level_every_value_is_other(tmp_path: Path, dropped: str) -> None:
    text = f"{{word: {{levels: discover{dropped}}}}}"
    spec = spec_of(tmp_path, text, "{epsilon: 1, delta: 0.000001}")
    domain = run(spec, crowd([1.0], words="a", times=5))
    (attribute,) = spec.with_domain(domain).domain
    assert (attribute.labels()[0], attribute.on_invalid) == ("other", "other")
    assert "the about 15 persons" in str(domain["word"].weak)


def test_the_level_of_all_others_is_counted_once(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, WORDS, "{epsilon: 1, delta: 0.001}")
    domain = run(spec, [(1.0, "other", "p")] * 500)
    assert spec.with_domain(domain).domain["word"].labels()[:1] == ("other",)
    assert domain["word"].weak is not None


def test_a_declared_file_has_nothing_to_discover(tmp_path: Path) -> None:
    spec = written_spec(tmp_path, "{x: {bounds: [0, 1]}}")
    with pytest.raises(DeclarationError, match="people has nothing to discover"):
        discovery_queries(spec)


def test_a_replay_needs_no_rows_and_finds_the_same(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ALL, "{epsilon: 30, delta: 0.001}")
    transcript = Transcript()
    actual = run(spec, crowd([1.5, 3.0, 9.0]), transcript=transcript)
    assert run(spec, None, SeededNoise(9), transcript.rewind()) == actual
    with pytest.raises(NoAnswer):
        run(spec, None)


def test_nothing_of_a_text_that_did_not_pass_is_stored(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, WORDS, "{epsilon: 10, delta: 0.000001}")
    transcript = Transcript()
    run(spec, [*crowd([1.0, 2.0]), (1.0, "SECRET", "s")], transcript=transcript)
    (record,) = transcript.records
    texts, rest = unpack_texts(record.answer)
    assert (texts, len(rest)) == ((b"a", b"b"), 0)
    assert "SECRET" not in record.words


def test_counts_and_their_order_do_not_leave_with_the_texts(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, WORDS, "{epsilon: 10, delta: 0.000001}")
    answers: list[IntArray] = []
    for times in ((100, 900), (900, 100)):
        rows = [*crowd([1.0], words="a", times=times[0]), *crowd([1.0], words="b", times=times[1])]
        transcript = Transcript()
        run(spec, rows, transcript=transcript)
        answers.append(transcript.records[0].answer)
    assert np.array_equal(*answers)


def test_whatever_an_answer_depends_on_makes_another_question(tmp_path: Path) -> None:
    declared = (
        "x: {bounds: discover, bins: 2, unit: 1, nullable: true, missing: ['-9']}, "
        "y: {column: x, bounds: [0, 16], bins: {quantiles: 2}}, "
        "word: {levels: discover, at_most: 9, aliases: {c: a}}"
    )
    changes = {"unit: 1": "unit: 2", "at_most: 9": "at_most: 8", "-9": "-8", "{c: a}": "{d: a}"}
    texts = [declared, *(declared.replace(old, new) for old, new in changes.items())]
    costs = [(text, "0.001") for text in (*texts, declared.replace("[0, 16]", "[0, 8]"))]
    keys = set()
    for text, delta in [*costs, (declared, "0.0001")]:
        spec = spec_of(tmp_path, f"{{{text}}}", f"{{epsilon: 90, delta: {delta}}}")
        transcript = Transcript()
        run(spec, crowd([1.5]), transcript=transcript)
        keys.add(tuple(record.question for record in transcript.records))
    assert len(keys) == len(costs) + 1


def test_every_unit_has_less_than_200_buckets() -> None:
    assert max(len(bucket_edges(unit)) for unit in (1e-9, 1.0, 1e9)) < 200


def test_dates_are_discovered_from_years_with_rows() -> None:
    days = Attribute(
        "day", "day", "clip", clock=Clock("date"), undeclared=Undeclared(bounds=True, quantiles=4)
    )
    spec = DatasetSpec.of_domain("frame", Domain((days,)), discover=Discover(epsilon="8"))
    rows = pa.table({"day": ["2024-05-01", "2026-02-03", "no date"] * 200})
    counter, accountant = UndeclaredRows.of_table(spec, rows, KEY), accountant_of(spec)
    domain = discover(spec, counter, accountant, Transcript(), SeededNoise(1))
    (attribute,) = spec.with_domain(domain).domain
    assert attribute.range == ("2024-01-01", "2026-12-31")
    assert attribute.labels()[0].startswith("[2024-01-01, 20")
    assert domain.warnings == ()


UNITS = [index + 0.5 for index in range(16)] * 100


@pytest.mark.parametrize(
    ("values", "upper", "unit", "many", "edges"),
    [
        (UNITS, 16, 1.0, 4, (4.0, 8.0, 12.0)),
        (UNITS, 16, 1.0, 2, (8.0,)),
        # The rows of a box that is not divided are taken to lie evenly.
        ([8.0 + index / 400 for index in range(400)], 16, 0.25, 2, (8.5,)),
        ([index / 10 + 0.05 for index in range(6)] * 100, 1.6, 0.1, 2, (0.3,)),
    ],
    ids=["four bins", "two bins", "inside of a box", "three tenths"],
)
def test_without_noise_bins_have_equally_many_rows(tmp_path, values, upper, unit, many, edges):
    assert binned(tmp_path, values, upper=upper, many=many, unit=unit, epsilon=1000).edges == edges


@pytest.mark.parametrize(
    ("unit", "answer", "steps"),
    [
        pytest.param(1.0, 10_000, 1, id="boxes of one unit"),
        pytest.param(0.5, 10_000, 2, id="boxes of two units"),
        pytest.param(0.001, 10, 1, id="boxes of less rows than noise"),
        pytest.param(0.05, 10_000, 3, id="boxes of many units and rows"),
    ],
)
def test_a_box_is_divided_while_it_is_wide_and_heavy(tmp_path, unit, answer, steps):
    noise = RecordingNoise(Same(1, answer))
    binned(tmp_path, [], upper=16, many=4, unit=unit, epsilon=1, noise=noise)
    sizes = [draw.exact.shape for draw in noise.draws if draw.mechanism == LAPLACE]
    assert [shape[1] for shape in sizes].count(16) == steps


def test_of_two_measures_the_one_with_more_shares_counts_more(tmp_path: Path) -> None:
    """A box that is not divided is measured with a quarter of the shares, then with the rest."""

    class Twice(Same):
        def discrete_laplace(self, counts: np.ndarray, _: Fraction) -> np.ndarray:
            wanted = np.zeros(counts.shape, dtype=np.int64)
            first = counts.shape[1] == 16
            wanted.ravel()[0 if first else -1] = 1000
            return wanted

    assert binned(tmp_path, [], upper=16, many=2, epsilon=1, noise=Twice(1)).edges == (15.0,)
