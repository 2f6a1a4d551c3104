"""A k-anonymous release is whole as the ledger settled it: a mutant each."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.checks import INTACT, KEEPS_K, release_checks
from dp_pipeline.orchestration.columns import k_anonymous_columns
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline_tests.orchestration.forging import reseal
from dp_pipeline_tests.orchestration.projects import HOMES, Project

pytestmark = pytest.mark.chain

Made = tuple[KAnonymousRelease, PublishedBundle]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, DatasetSpec]:
    """Twelve homes, prepared."""
    project = Project(tmp_path_factory.mktemp("homes"))
    known = {"methods": {"kjig": {}}, "attributes": "rooms rent", "partitions": ["2", "3"]}
    spec = project.declare("homes", HOMES, label="tenure", k_anonymity=known, allow_not_dp="true")
    rows = [f"{n % 2 * 4 + 1},300,{'owner' if n % 3 else 'renter'}" for n in range(12)]
    project.write_rows("homes.csv", ["rooms,rent,tenure", *rows])
    assert project.launch(spec, "ingested", "validated", "normalized", "discretized").success
    return project, spec


@pytest.fixture
def made(homes: tuple[Project, DatasetSpec]) -> Made:
    project, spec = homes
    release = KAnonymousRelease(spec, "kjig", 2, project.home)
    return release, publish(release)


def fault(release: KAnonymousRelease, published: PublishedBundle) -> str | None:
    """The line of what is not whole, or None."""
    kept, whole = release_checks(release, published)
    assert (kept.check_name, whole.check_name) == (KEEPS_K, INTACT)
    assert kept.passed
    return None if whole.passed else str(whole.metadata["fault"].value)


def changed(path: Path, content: bytes, made: Made) -> str | None:
    """The fault while a file holds something else."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        return fault(*made)
    finally:
        path.write_bytes(before)


def test_a_release_as_it_was_settled_is_whole(made: Made):
    assert fault(*made) is None


def test_another_row_is_seen(made: Made):
    path = made[1].folder / "released.parquet"
    table = pq.read_table(path)
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(1), sink)
    found = changed(path, sink.getvalue().to_pybytes(), made)
    assert "expected it as it was stored, got another" in str(found)


def test_another_fact_is_seen(made: Made):
    path = made[1].folder / "bundle.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["facts"]["k"] = "3"
    found = changed(path, json.dumps(document).encode(), made)
    assert "expected it as it was stored, got another" in str(found)


def test_another_fact_that_was_sealed_anew_is_seen_in_the_ledger(made: Made):
    release, published = made
    path = published.folder / "bundle.json"
    before = path.read_text(encoding="utf-8")
    document = json.loads(before)
    document["facts"]["k"] = "3"
    path.write_text(json.dumps(document), encoding="utf-8")
    reseal(release, published.folder)
    found = fault(*made)
    path.write_text(before, encoding="utf-8")
    reseal(release, published.folder)
    assert "expected it as it was stored, got another" in str(found)


def test_a_broken_table_is_seen(made: Made):
    path = made[1].folder / "columns.parquet"
    assert "expected it as it was stored" in str(changed(path, b"PAR1", made))


def test_a_file_beside_the_tables_is_seen(made: Made):
    path = made[1].folder / "rows.csv"
    path.write_text("ann,1", encoding="utf-8")
    assert "expected it as it was stored" in str(fault(*made))
    path.unlink()


def test_a_kept_column_is_followed_to_its_attribute_and_no_level_is_told(made: Made):
    columns = k_anonymous_columns(made[1].bundle)
    assert columns[-1].name == "tenure"
    assert {source for column in columns for _, source in column.sources} <= {
        "rooms", "rent", "tenure",
    }  # fmt: skip
    assert all(column.rules == () for column in columns)
