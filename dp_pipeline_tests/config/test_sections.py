"""Sections of a data set file: k-anonymous releases, targets and expectations of rows."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.sections import PARTITIONS, DeclaredExpectation, KAnonymity, Target, parse_k
from dp_pipeline_tests.config.declarations import FIELDS, loaded

ALONE = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
BENCHMARK = {**ALONE, "purpose": "purpose: benchmark"}
MORE = "\n  job: {levels: [a, b]}\n  income: {bounds: [0, 9]}"


def declared(folder: Path, lines: str = "", **changes: str | None) -> KAnonymity:
    section = f"k_anonymity:\n  methods: {{kjig: }}\n  {lines}"
    spec = loaded(folder, **BENCHMARK | {"k_anonymity": section} | changes)
    return spec.k_anonymity


def test_omitted_fields_have_defaults(tmp_path):
    default = KAnonymity(
        {"kjig": {}}, ("age",), partitions=PARTITIONS, suppress=Fraction(0), seed=0
    )
    assert declared(tmp_path) == default
    assert (default.sensitive_label, default.diversity) == (True, None)
    plain = loaded(tmp_path)
    assert (plain.k_anonymity, plain.allow_not_dp) == (None, False)
    # All attributes with cells, and of sensitive rows all K above 0.
    assert declared(tmp_path, attributes=FIELDS["attributes"] + MORE).attributes == ("age", "job")
    release = {"purpose": "purpose: release", "allow_not_dp": "allow_not_dp: true"}
    assert declared(tmp_path, **release).partitions == (2, 5, 10, 20, 50)


def test_everything_is_read_in_the_order_of_the_file(tmp_path):
    block = (
        "k_anonymity: {methods: {rfka: {trees: 1000, depth: 3}, kjig: }, attributes: job age, "
        "partitions: [3, 7], sensitive_label: false, diversity: 2, suppress: 0.02, seed: 7}"
    )
    read = declared(tmp_path, attributes=FIELDS["attributes"] + MORE, k_anonymity=block)
    assert list(read.methods.items()) == [("rfka", {"trees": "1000", "depth": "3"}), ("kjig", {})]
    assert (read.attributes, read.partitions) == (("job", "age"), (3, 7))
    assert (read.sensitive_label, read.diversity) == (False, 2)
    assert (read.suppress, read.seed) == (Fraction(1, 50), 7)


@pytest.mark.parametrize("text", ["0", ".5", "0.0", "0.999"])
def test_a_share_to_leave_out_is_exact(text, tmp_path):
    assert declared(tmp_path, f"suppress: {text}").suppress == Fraction(text)


@given(st.integers(0, 10**9 - 1))
def test_a_partition_is_found_by_its_key(k):
    listed = KAnonymity({"kjig": {}}, ("age",), partitions=(k,))
    assert listed.partition_keys == (str(k),)
    assert listed.partition(f" {k} ", of="toy") == parse_k(str(k)) == k


@pytest.mark.parametrize("text", ["", "-1", "2.0", "1e1", "two", "0x5", "٣", "1" * 10])
def test_only_listed_whole_numbers_are_k(text):
    listed = KAnonymity({"kjig": {}}, ("age",))
    with pytest.raises(DeclarationError, match="K: expected an integer from 0 to 999999999"):
        listed.partition(text, of="toy")
    fault = r"^toy: the K of a table must be one of 0, 2, 5, 10, 20, 50, not 3: list it"
    with pytest.raises(DeclarationError, match=fault):
        listed.partition("3", of="toy")


def test_targets_are_read_in_the_order_of_the_file(tmp_path):
    lines = "targets: {colour: {positive: [green, red], without: [age]}}"
    spec = loaded(tmp_path, targets=lines)
    assert spec.targets == (Target("colour", ("green", "red"), ("age",)),)
    assert spec.targets[0].codes(spec.domain) == (0, 1)
    assert loaded(tmp_path).targets == loaded(tmp_path, targets="targets:").targets == ()
    attributes = "attributes:\n  job: {levels: [a, b], nullable: true}"
    lines = "targets: {job: {positive: [missing]}}"
    spec = loaded(tmp_path, attributes=attributes, targets=lines)
    assert spec.targets[0].codes(spec.domain) == (2,)


def test_a_target_hides_itself_and_what_gives_it_away(tmp_path):
    spec = loaded(tmp_path)
    target = Target("colour", ("red",), without=("age",))
    codes = {"colour": np.array([0, 2]), "age": np.array([1, 3])}
    features, answers = target.classification_task(codes, spec.domain)
    assert features == {}
    assert answers.tolist() == [True, False]
    assert list(Target("colour", ("red",)).classification_task(codes, spec.domain)[0]) == ["age"]
    with pytest.raises(DeclarationError, match="positive levels of target 'colour' must be levels"):
        Target("colour", ("pink",)).codes(spec.domain)


REGEX = "type: expect_column_values_to_match_regex"
BETWEEN = "type: expect_column_values_to_be_between"
PUBLIC = {"purpose": "purpose: benchmark"}


def expecting(*lines: str) -> dict[str, str]:
    return {"expectations": "expectations:\n" + "".join(f"  - {{{line}}}\n" for line in lines)}


def test_arguments_of_an_expectation_have_their_types(tmp_path):
    lines = expecting(
        f"{BETWEEN}, column: age, min_value: 1, strict_max: true, mostly: 0.95, name: grown",
        f'{REGEX}, column: person, regex: "^[a-z]+$"',
        "type: expect_column_values_to_be_in_set, column: x, value_set: [1, 2.5]",
        "type: expect_column_values_to_be_in_set, column: colour, value_set: [1, red]",
    )
    ages, persons, numbers, texts = loaded(tmp_path, **lines).expectations
    between = BETWEEN.removeprefix("type: ")
    arguments, share = {"min_value": 1.0, "strict_max": True}, Fraction(19, 20)
    grown = DeclaredExpectation(between, {"column": "age"}, arguments, mostly=share, name="grown")
    assert ages == grown
    assert persons.arguments == {"regex": "^[a-z]+$"}
    values = [each.arguments["value_set"] for each in (numbers, texts)]
    assert values == [(1.0, 2.5), ("1", "red")]
    assert loaded(tmp_path).expectations == ()


def test_public_rows_may_be_stopped_and_sensitive_ones_never(tmp_path):
    line = f"{BETWEEN}, column: x, min_value: 1"
    warned, stopped = expecting(f"{line}, severity: warning"), expecting(line)
    for lines, more, is_critical in ((stopped, PUBLIC, 1), (warned, PUBLIC, 0), (stopped, {}, 0)):
        assert loaded(tmp_path, **lines, **more).expectations[0].is_critical == is_critical
