"""The public tables of the papers, from their files to codes; needs the data folder."""

import gzip
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import stages_of
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline_tests.raw.file_server import FileServer, file_server
from dp_pipeline_tests.raw.written import KEY

pytestmark = pytest.mark.skipif(
    not os.environ.get(DATA_FOLDER_VARIABLE), reason=f"{DATA_FOLDER_VARIABLE} names no data folder"
)

ROWS = {"adult": 45_222, "adult_raw": 48_842, "nltcs": 21_574}


def prepared(name: str, folder: Path) -> tuple[DatasetSpec, dict[str, pa.Table]]:
    """Every stage of a built-in data set; Great Expectations finds nothing to complain of."""
    spec = find_spec(name)
    snapshot = ingest(spec, folder, key=KEY, snapshot_id="day", today=date(2026, 1, 1))
    verdicts = validate(spec, snapshot)
    assert [verdict.expectation.name for verdict in verdicts if not verdict.passed] == []
    assert refusal(spec, verdicts) is None
    prepare(spec, snapshot)
    stages = ("ingested", *stages_of(spec))
    return spec, {stage: read_stage(snapshot, stage) for stage in stages}


@pytest.mark.chain
@pytest.mark.parametrize("name", ["adult", "nltcs"])
def test_every_row_of_a_public_table_becomes_codes(name, tmp_path):
    assert_every_level_occurs(*prepared(name, tmp_path))


def assert_every_level_occurs(spec: DatasetSpec, stages: dict[str, pa.Table]) -> None:
    """Every row has codes, and every declared cell is a level that occurs: none is misspelt."""
    assert {table.num_rows for table in stages.values()} == {ROWS[spec.name]} == {spec.nominal_rows}
    codes = stages["discretized"]
    assert codes.column_names == list(spec.domain.names)
    assert codes.num_columns == {"adult": 15, "adult_raw": 15, "nltcs": 16}[spec.name]
    for attribute in spec.domain:
        counts = np.bincount(codes.column(attribute.name).to_numpy())
        assert len(counts) == attribute.size
        assert counts.all()


@pytest.mark.chain
def test_adult_has_its_known_gaps_and_classes(tmp_path):
    spec, stages = prepared("adult_raw", tmp_path)
    assert_every_level_occurs(spec, stages)
    codes = {name: stages["discretized"].column(name).to_numpy() for name in spec.domain.names}
    gaps = {a.name: int((codes[a.name] == a.missing_code).sum()) for a in spec.domain if a.nullable}
    assert gaps == {"workclass": 2_799, "occupation": 2_809, "native_country": 857}
    complete = np.all([codes[name] != spec.domain[name].missing_code for name in gaps], axis=0)
    assert complete.sum() == ROWS["adult"]
    assert np.bincount(codes["income"]).tolist() == [37_155, 11_687]
    assert spec.domain.numeric == ("age", "fnlwgt", "education_num", "capital_gain",
                                   "capital_loss", "hours_per_week")  # fmt: skip
    schooling = zip(codes["education"].tolist(), codes["education_num"].tolist(), strict=True)
    assert len(set(schooling)) == 16
    # Codes of complete rows are those of the discretised table: levels are alphabetical.
    discretised = read_source(find_spec("adult"))
    for name in ("education", "marital_status", "occupation", "sex", "native_country", "income"):
        theirs = discretised.column(name).to_numpy().astype(int)
        assert np.array_equal(np.bincount(codes[name][complete]), np.bincount(theirs))


def codes_of(name: str, folder: Path) -> tuple[DatasetSpec, dict[str, NDArray[Any]]]:
    spec, stages = prepared(name, folder)
    assert {table.num_rows for table in stages.values()} == {spec.nominal_rows}
    table = stages["discretized"]
    return spec, {column: table.column(column).to_numpy() for column in table.column_names}


def test_breast_cancer_has_ten_levels_and_sixteen_gaps(tmp_path):
    spec, codes = codes_of("breast_cancer_wisconsin", tmp_path)
    assert np.bincount(codes["diagnosis"]).tolist() == [458, 241]
    gaps = codes["bare_nuclei"] == spec.domain["bare_nuclei"].missing_code
    assert gaps.sum() == 16
    sizes = {name: spec.domain[name].size for name in spec.k_anonymity.attributes}
    assert sizes.pop("bare_nuclei") == 11
    assert set(sizes.values()) == {10}
    # The lowest and the highest grade of every attribute occur; 9 mitoses were never seen.
    assert all(codes[name].min() == 0 and codes[name].max() == 9 for name in sizes)
    assert 8 not in codes["mitoses"]


@pytest.mark.chain
def test_sample_of_adult_keeps_the_ratio_of_incomes(tmp_path):
    spec, codes = codes_of("adult_2000", tmp_path)
    # 2000 of 48,842 rows, of which 37,155 and 11,687 have the one and the other income.
    assert np.bincount(codes["income"]).tolist() == [1_521, 479]
    assert sum(spec.domain[name].size for name in spec.k_anonymity.attributes) == 45
    for name in ("age", "education_num", "hours_per_week", "relationship", "sex"):
        assert len(np.bincount(codes[name])) == spec.domain[name].size


def test_a_sample_holds_rows_of_the_whole_table_in_its_order():
    spec = find_spec("adult_2000")
    all_rows = read_source(replace(spec, source=replace(spec.source, sample=None)))
    rows = iter(all_rows.to_pylist())
    assert all_rows.num_rows == ROWS["adult_raw"]
    assert all(row in rows for row in read_source(spec).to_pylist())


@pytest.fixture
def server():
    with file_server() as served:
        yield served


def served_here(spec: DatasetSpec, server: FileServer) -> DatasetSpec:
    """The data set, were its files absent and its downloads, under their names, on this server."""
    source = spec.source
    moved = {url: server.url("/" + url.rpartition("/")[2]) for url in source.download.locations}
    first, *more = moved.values()
    hashes = {moved[url]: sha256 for url, sha256 in source.download.sha256.items()}
    download = replace(source.download, location=first, more=tuple(more), sha256=hashes)
    return replace(spec, source=replace(source, location="absent", more=(), download=download))


def downloaded(name: str, server: FileServer, store: Path) -> pa.Table:
    spec = served_here(find_spec(name), server)
    snapshot = ingest(spec, store, key=KEY, snapshot_id="one", today=date(2026, 11, 21))
    assert snapshot.manifest["source"].startswith("http://")
    return read_stage(snapshot, "ingested")


@pytest.mark.parametrize("name", ["adult_raw", "adult_2000", "breast_cancer_wisconsin"])
def test_declared_hashes_are_those_of_our_copies(name, server, tmp_path):
    local = find_spec(name)
    for path in map(Path, local.source.locations):
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        server.files[f"/{path.name.removesuffix('.gz')}"] = content
    assert downloaded(name, server, tmp_path).equals(read_source(local))


def test_birch3_is_read_from_lines_of_white_space(server, tmp_path):
    local = read_source(find_spec("birch3"))
    rows = zip(*local.to_pydict().values(), strict=True)
    server.files["/birch3.txt"] = "".join(f"{x:>10}{y:>10}\n" for x, y in rows).encode()
    assert downloaded("birch3", server, tmp_path).equals(local)


@pytest.mark.parametrize("name", ["checkin", "checkin_events"])
def test_gowalla_is_read_as_its_page_shows_it(name, server, tmp_path):
    lines = (
        "196514\t2010-07-24T13:45:06Z\t53.3648119\t-2.2723465833\t145064\n"
        "196514\t2010-07-24T13:44:58Z\t53.360511233\t-2.276369017\t1275991\n"
    )
    server.files["/loc-gowalla_totalCheckins.txt.gz"] = gzip.compress(lines.encode())
    first, second = downloaded(name, server, tmp_path).to_pylist()
    assert (first["lat"], first["lon"]) == ("53.3648119", "-2.2723465833")
    assert second["lat"] == "53.360511233"
    assert ("user" in first) == (name == "checkin")
