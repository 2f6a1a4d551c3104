"""Which k-anonymous releases a data set file may declare, and what stands in its way."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.dataset import PARTITIONS, DatasetSpec, KAnonymity, parse_k
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.config.declarations import FIELDS, declaration, loaded, written

ALONE = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
BENCHMARK = {**ALONE, "purpose": "purpose: benchmark"}
ALLOWED = {**ALONE, "allow_not_dp": "allow_not_dp: true"}


def section(lines: str = "", methods: str = "{kjig: }") -> str:
    return f"k_anonymity:\n  methods: {methods}\n  {lines}"


def declared(folder: Path, lines: str = "", **changes: str | None) -> KAnonymity:
    spec = loaded(folder, **{**BENCHMARK, "k_anonymity": section(lines), **changes})
    assert spec.k_anonymity is not None
    return spec.k_anonymity


def complaint(folder: Path, block: str | None, **changes: str | None) -> tuple[str, str]:
    """The line that is named, and what is said of it."""
    text = declaration(**{**BENCHMARK, "k_anonymity": block, **changes})
    with pytest.raises(DeclarationError) as refused:
        load_spec(written(folder, text))
    found = re.fullmatch(r"(.+):(\d+): (.+: expected .+, got .+)", str(refused.value))
    assert found
    assert found[1] == str(folder / "toy.yaml")
    return text.splitlines()[int(found[2]) - 1], found[3]


def test_what_is_not_said_goes_without_saying(tmp_path: Path) -> None:
    assert declared(tmp_path) == KAnonymity(
        methods={"kjig": {}},
        attributes=("age",),
        partitions=PARTITIONS,
        sensitive_label=True,
        diversity=None,
        suppress=Fraction(0),
        seed=0,
    )
    plain = loaded(tmp_path)
    assert (plain.k_anonymity, plain.allow_not_dp) == (None, False)


def test_everything_is_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    attributes = FIELDS["attributes"] + "\n  job: {levels: [a, b]}\n  income: {bounds: [0, 9]}"
    block = (
        "k_anonymity:\n"
        "  methods: {rfka: {trees: 1000, depth: 3}, kjig: }\n"
        "  attributes: job age\n"
        "  partitions: [3, 7]\n"
        "  sensitive_label: false\n"
        "  diversity: 2\n"
        "  suppress: 0.02\n"
        "  seed: 7"
    )
    read = declared(tmp_path, attributes=attributes, k_anonymity=block)
    assert list(read.methods.items()) == [("rfka", {"trees": "1000", "depth": "3"}), ("kjig", {})]
    assert read.attributes == ("job", "age")
    assert read.partitions == (3, 7)
    assert (read.sensitive_label, read.diversity) == (False, 2)
    assert (read.suppress, read.seed) == (Fraction(1, 50), 7)


def test_every_attribute_with_cells_but_the_label_is_a_quasi_identifier(tmp_path: Path) -> None:
    more = "\n  job: {levels: [a, b]}\n  income: {bounds: [0, 9]}"
    read = declared(tmp_path, attributes=FIELDS["attributes"] + more)
    assert read.attributes == ("age", "job")


@pytest.mark.parametrize(
    ("text", "share"),
    [("0", 0), (".5", Fraction(1, 2)), ("0.0", 0), ("0.999", Fraction(999, 1000))],
)
def test_a_share_to_leave_out_is_exact(text: str, share: Fraction, tmp_path: Path) -> None:
    assert declared(tmp_path, f"suppress: {text}").suppress == share


MISTAKES = {
    "methods: {rfka: [1000]}": ("methods.rfka", "got something else"),
    "methods: {rfka: {trees: [1]}}": ("methods.rfka.trees", "got a list or mapping"),
    "methods: [kjig]": ("methods", "got something else"),
    "methods:": ("methods", "expected at least one method, got none"),
    "attributes: age colour": ("attributes", "with cells, each once: age, got age, colour"),
    "attributes: x": ("attributes", "with cells, each once: age, got x"),
    "attributes: shoe": ("attributes", "got shoe"),
    "attributes: age age": ("attributes", "got age, age"),
    "attributes: ' '": ("attributes", "got none"),
    "attributes:": ("attributes", "got ''"),
    "partitions: []": ("partitions", "at least one, got none"),
    "partitions: [5, 2]": ("partitions", "ascending K of at least 0, each once"),
    "partitions: [2, 2]": ("partitions", "got 2, 2"),
    "partitions: [-1, 2]": ("partitions", "got -1, 2"),
    "partitions: [2, 2.5]": ("partitions", "got 2, 2.5"),
    "partitions: 5": ("partitions", "expected a list"),
    "sensitive_label: yes": ("sensitive_label", "expected true | false, got 'yes'"),
    "diversity: 0": ("diversity", "at least 1, got '0'"),
    "diversity: 4": ("diversity", "expected at most the label's 3 levels, got 4"),
    "suppress: 1": ("suppress", "from 0 to below 1, got '1'"),
    "suppress: -0.1": ("suppress", "got '-0.1'"),
    "suppress: 1e-2": ("suppress", "got '1e-2'"),
    "suppress: half": ("suppress", "got 'half'"),
    "seed: -1": ("seed", "at least 0, got '-1'"),
    "k: 5": ("k", "got a field that is not known"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    field, part = MISTAKES[line]
    methods = "" if line.startswith("methods") else "  methods: {kjig: }\n"
    at, said = complaint(tmp_path, f"k_anonymity:\n{methods}  {line}")
    assert said.startswith(f"k_anonymity.{field}: expected ")
    assert part in said
    assert at == f"  {line}"


def test_no_methods_are_refused(tmp_path: Path) -> None:
    assert "k_anonymity.methods: expected a mapping" in complaint(tmp_path, "k_anonymity:")[1]


def test_without_a_label_there_is_nothing_to_predict(tmp_path: Path) -> None:
    at, said = complaint(tmp_path, "k_anonymity: {methods: {kjig: }}", label=None)
    assert said == "k_anonymity: expected a `label` beside it, for rows to predict, got none"
    assert at == "k_anonymity: {methods: {kjig: }}"


@pytest.mark.parametrize("lines", ["", "attributes: colour"])
def test_a_label_alone_has_no_quasi_identifiers(lines: str, tmp_path: Path) -> None:
    only = "attributes:\n  x: {bounds: [0, 8]}\n  colour: {levels: [red, green]}"
    said = complaint(tmp_path, section(lines), attributes=only)[1]
    assert "expected attributes with cells, each once: there is none" in said


def test_a_label_that_is_not_declared_is_what_is_complained_of(tmp_path: Path) -> None:
    said = complaint(tmp_path, section(), label="label: shoe")[1]
    assert said == "label: expected an attribute with levels: colour, got 'shoe'"


def test_a_missing_label_does_not_pass_for_another_label(tmp_path: Path) -> None:
    nullable = FIELDS["attributes"].replace("other: blue", "nullable: true")
    said = complaint(tmp_path, section(), attributes=nullable)[1]
    assert "expected a label that is never missing" in said
    assert said.endswith("got colour with `nullable: true`")


def test_there_are_not_more_different_labels_than_levels(tmp_path: Path) -> None:
    assert "3 levels, got 4" in complaint(tmp_path, section("diversity: 4"))[1]


def test_many_rows_of_a_person_are_not_many_persons(tmp_path: Path) -> None:
    rows = FIELDS["protection"]
    at, said = complaint(tmp_path, section(), protection=rows)
    assert "for K rows to be K persons, got at most 3 rows of a person, column person" in said
    assert at == "  methods: {kjig: }"
    one = rows.replace("at_most: 3", "at_most: 1")
    assert declared(tmp_path, protection=one).attributes == ("age",)


# Sensitive rows


def released(folder: Path, lines: str = "", **changes: str | None) -> DatasetSpec:
    return loaded(folder, **{**ALONE, "k_anonymity": section(lines), **changes})


@pytest.mark.parametrize(("allow", "got"), [(None, "none"), ("allow_not_dp: false", "false")])
def test_sensitive_rows_need_a_word_that_this_is_no_privacy(
    allow: str | None, got: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError) as refused:
        released(tmp_path, allow_not_dp=allow)
    assert str(refused.value).endswith(
        ": k_anonymity: expected `allow_not_dp: true` for k-anonymous releases of sensitive rows, "
        f"got {got}"
    )
    allowed = released(tmp_path, allow_not_dp="allow_not_dp: true")
    assert allowed.is_release
    assert allowed.allow_not_dp
    assert allowed.k_anonymity is not None


def test_the_word_alone_promises_nothing_and_is_allowed(tmp_path: Path) -> None:
    spec = loaded(tmp_path, allow_not_dp="allow_not_dp: true")
    assert (spec.allow_not_dp, spec.k_anonymity) == (True, None)
    with pytest.raises(DeclarationError, match=r"allow_not_dp: expected true \| false, got 'yes'"):
        loaded(tmp_path, allow_not_dp="allow_not_dp: yes")


@pytest.mark.parametrize("partitions", ["[0, 2]", "[1, 2]", "[0]", "[1]"])
def test_sensitive_rows_are_not_released_for_no_promise(partitions: str, tmp_path: Path) -> None:
    lines = f"partitions: {partitions}"
    said = complaint(tmp_path, section(lines), **{**ALLOWED, "purpose": "purpose: release"})[1]
    assert "k_anonymity.partitions: expected ascending K of at least 2" in said
    assert declared(tmp_path, lines).partition_keys == tuple(re.findall(r"\d", partitions))


def test_the_partitions_that_go_without_saying_promise_something_of_sensitive_rows(
    tmp_path: Path,
) -> None:
    spec = released(tmp_path, allow_not_dp="allow_not_dp: true")
    assert spec.k_anonymity is not None
    assert spec.k_anonymity.partitions == (2, 5, 10, 20, 50)


def test_releases_of_before_keep_their_keys_and_cost_what_they_did(tmp_path: Path) -> None:
    without = loaded(tmp_path, **ALONE)
    beside = loaded(tmp_path, **ALLOWED, k_anonymity=section("diversity: 2"))
    assert without.digest == beside.digest
    assert without.cost_of_everything == beside.cost_of_everything


# K as a partition


@given(st.integers(0, 10**9 - 1))
def test_a_partition_is_found_by_its_key(k: int) -> None:
    listed = KAnonymity({"kjig": {}}, ("age",), partitions=(k,))
    assert listed.partition_keys == (str(k),)
    assert listed.partition(f" {k} ") == parse_k(str(k)) == k


@pytest.mark.parametrize("text", ["", "-1", "2.0", "1e1", "two", "0x5", "٣", "1" * 10])
def test_what_is_no_whole_number_is_no_k(text: str) -> None:
    with pytest.raises(DeclarationError, match="K: expected an integer from 0 to 999999999"):
        KAnonymity({"kjig": {}}, ("age",)).partition(text)


def test_a_k_that_is_not_listed_is_refused_with_those_that_are() -> None:
    with pytest.raises(DeclarationError, match=r"^K: expected one of 0, 2, 5, 10, 20, 50, got 3$"):
        KAnonymity({"kjig": {}}, ("age",)).partition("3")
