"""Which k-anonymous releases a data set file may declare, and what stands in its way."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.sections import PARTITIONS, KAnonymity, parse_k
from dp_pipeline_tests.config.declarations import FIELDS, loaded

ALONE = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
BENCHMARK = {**ALONE, "purpose": "purpose: benchmark"}


def section(lines: str = "", methods: str = "{kjig: }") -> str:
    return f"k_anonymity:\n  methods: {methods}\n  {lines}"


def declared(folder: Path, lines: str = "", **changes: str | None) -> KAnonymity:
    spec = loaded(folder, **{**BENCHMARK, "k_anonymity": section(lines), **changes})
    assert spec.k_anonymity is not None
    return spec.k_anonymity


def test_omitted_fields_have_defaults(tmp_path: Path) -> None:
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


def test_attributes_with_cells_are_quasi_identifiers(tmp_path: Path) -> None:
    more = "\n  job: {levels: [a, b]}\n  income: {bounds: [0, 9]}"
    read = declared(tmp_path, attributes=FIELDS["attributes"] + more)
    assert read.attributes == ("age", "job")


@pytest.mark.parametrize(
    ("text", "share"),
    [("0", 0), (".5", Fraction(1, 2)), ("0.0", 0), ("0.999", Fraction(999, 1000))],
)
def test_a_share_to_leave_out_is_exact(text: str, share: Fraction, tmp_path: Path) -> None:
    assert declared(tmp_path, f"suppress: {text}").suppress == share


def released(folder: Path, lines: str = "", **changes: str | None) -> DatasetSpec:
    return loaded(folder, **{**ALONE, "k_anonymity": section(lines), **changes})


def test_default_partitions_of_sensitive_rows_guarantee_some_k(tmp_path: Path) -> None:
    spec = released(tmp_path, allow_not_dp="allow_not_dp: true")
    assert spec.k_anonymity is not None
    assert spec.k_anonymity.partitions == (2, 5, 10, 20, 50)


@given(st.integers(0, 10**9 - 1))
def test_a_partition_is_found_by_its_key(k: int) -> None:
    listed = KAnonymity({"kjig": {}}, ("age",), partitions=(k,))
    assert listed.partition_keys == (str(k),)
    assert listed.partition(f" {k} ", of="toy") == parse_k(str(k)) == k


@pytest.mark.parametrize("text", ["", "-1", "2.0", "1e1", "two", "0x5", "٣", "1" * 10])
def test_only_whole_numbers_are_k(text: str) -> None:
    with pytest.raises(DeclarationError, match="K: expected an integer from 0 to 999999999"):
        KAnonymity({"kjig": {}}, ("age",)).partition(text, of="toy")


def test_a_k_that_is_not_listed_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        DeclarationError,
        match=r"^toy: the K of a table must be one of 0, 2, 5, 10, 20, 50, not 3: list it",
    ):
        KAnonymity({"kjig": {}}, ("age",)).partition("3", of="toy")
