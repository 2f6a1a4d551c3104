"""A declared sample of the rows of a source: of benchmarks only, and told in the source's name."""

from __future__ import annotations

from pathlib import Path

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
