"""A declared sample of the rows of a source: of benchmarks only, and told in the source's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Sample, Source
from dp_pipeline_tests.config.declarations import loaded

BENCHMARK = "purpose: benchmark"


def source(sample: str) -> str:
    return f"source:\n  kind: csv\n  paths: [a.csv, b.csv]\n  sample: {sample}"


def test_a_sample_is_read(tmp_path: Path) -> None:
    lines = source("{rows: 20, by: colour, seed: 7}")
    spec = loaded(tmp_path, source=lines, purpose=BENCHMARK)
    assert spec.source.sample == Sample(20, "colour", 7)
    assert loaded(tmp_path).source.sample is None


MISTAKES = {
    "{rows: 0, by: colour, seed: 7}": "sample.rows: expected an integer of at least 1",
    "{rows: many, by: colour, seed: 7}": "sample.rows: expected an integer of at least 1",
    "{by: colour, seed: 7}": "sample.rows: expected a value, got nothing",
    "{rows: 20, seed: 7}": "sample.by: expected a value, got nothing",
    "{rows: 20, by: colour}": "sample.seed: expected a value, got nothing",
    "{rows: 20, by: colour, seed: -1}": "sample.seed: expected an integer of at least 0",
    "{rows: 20, by: age, seed: 7}": "sample.by: expected an attribute with levels: colour, got",
    "{rows: 20, by: shoe, seed: 7}": "sample.by: expected an attribute with levels: colour, got",
    "{rows: 20, by: colour, seed: 7, n: 1}": "sample.n: expected one of by, rows, seed, got a",
    "20": "sample: expected a mapping",
}


@pytest.mark.parametrize("sample", MISTAKES)
def test_a_sample_that_cannot_be_is_refused_with_its_line(sample: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as refused:
        loaded(tmp_path, source=source(sample), purpose=BENCHMARK)
    message = str(refused.value)
    lines = (tmp_path / "toy.yaml").read_text().splitlines()
    assert f"  sample: {sample}" == lines[int(message.split(":")[1]) - 1]
    assert f": source.{MISTAKES[sample]}" in message


def test_sensitive_rows_are_never_sampled(tmp_path: Path) -> None:
    lines = source("{rows: 20, by: colour, seed: 7}")
    with pytest.raises(
        DeclarationError, match="sample: expected every row of sensitive data, got a"
    ):
        loaded(tmp_path, source=lines)


def test_another_sample_is_another_source_of_the_same_persons() -> None:
    all_rows = Source("csv", "/a.csv", more=("/b.csv",))
    samples = [
        Sample(20, "job", 7),
        Sample(21, "job", 7),
        Sample(20, "sex", 7),
        Sample(20, "job", 8),
    ]
    sources = [
        all_rows,
        *(Source("csv", "/a.csv", more=("/b.csv",), sample=sample) for sample in samples),
    ]
    assert len({sampled.identity for sampled in sources}) == 5
    # The ledger keeps two populations apart by these: a sample must not slip by.
    assert {sampled.identities for sampled in sources} == {("file:/a.csv", "file:/b.csv")}
    assert sources[1].only("/b.csv").identity == "csv:/b.csv"
