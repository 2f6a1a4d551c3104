"""What the built-in files declare of their downloads reads such files; the network is not asked."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.stages import read_stage
from dp_pipeline_tests.raw.file_server import FileServer, file_server

needs_data = pytest.mark.skipif(
    not os.environ.get(DATA_FOLDER_VARIABLE), reason=f"{DATA_FOLDER_VARIABLE} names no data folder"
)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        yield served


def served_here(spec: DatasetSpec, server: FileServer) -> DatasetSpec:
    """The data set, were its files absent and its downloads, under their names, on this server."""
    source = spec.source
    assert source.download is not None
    moved = {url: server.url("/" + url.rpartition("/")[2]) for url in source.download.locations}
    first, *more = moved.values()
    hashes = {moved[url]: sha256 for url, sha256 in source.download.sha256.items()}
    download = replace(source.download, location=first, more=tuple(more), sha256=hashes)
    return replace(spec, source=replace(source, location="absent", more=(), download=download))


def downloaded(name: str, server: FileServer, store: Path) -> pa.Table:
    spec = served_here(find_spec(name), server)
    snapshot = ingest(spec, store, key=b"k" * 32, snapshot_id="one", today=date(2026, 11, 21))
    assert snapshot.manifest["source"].startswith("http://")
    return read_stage(snapshot, "ingested")


@needs_data
@pytest.mark.parametrize("name", ["adult_raw", "adult_2000", "breast_cancer_wisconsin"])
def test_the_declared_hashes_are_those_of_our_copies_and_both_read_as_one_table(
    name: str, server: FileServer, tmp_path: Path
) -> None:
    local = find_spec(name)
    for path in map(Path, local.source.locations):
        content = path.read_bytes()
        published = path.name.removesuffix(".gz")
        server.files[f"/{published}"] = (
            gzip.decompress(content) if path.suffix == ".gz" else content
        )
    assert downloaded(name, server, tmp_path).equals(read_source(local))


@needs_data
def test_birch3_is_read_from_lines_of_white_space(server: FileServer, tmp_path: Path) -> None:
    local = read_source(find_spec("birch3"))
    rows = zip(*local.to_pydict().values(), strict=True)
    server.files["/birch3.txt"] = "".join(f"{x:>10}{y:>10}\n" for x, y in rows).encode()
    assert downloaded("birch3", server, tmp_path).equals(local)


@pytest.mark.parametrize("name", ["checkin", "checkin_events"])
def test_gowalla_is_read_as_its_page_shows_it(
    name: str, server: FileServer, tmp_path: Path
) -> None:
    lines = (
        "196514\t2010-07-24T13:45:06Z\t53.3648119\t-2.2723465833\t145064\n"
        "196514\t2010-07-24T13:44:58Z\t53.360511233\t-2.276369017\t1275991\n"
    )
    server.files["/loc-gowalla_totalCheckins.txt.gz"] = gzip.compress(lines.encode())
    first, second = downloaded(name, server, tmp_path).to_pylist()
    assert (first["lat"], first["lon"]) == ("53.3648119", "-2.2723465833")
    assert second["lat"] == "53.360511233"
    assert ("user" in first) == (name == "checkin")
