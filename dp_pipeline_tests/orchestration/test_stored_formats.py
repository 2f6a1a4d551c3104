"""What has another format is refused in one line, and stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.errors import Damaged, UnknownFormat
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle
from dp_pipeline_tests.orchestration.projects import RIDES, Project

Read = Callable[[], object]


def stored_bundle(folder: Path) -> tuple[Path, Read]:
    table = {"x": np.array([1, 2])}
    bundle = Bundle("ab" * 32, {"releasable": "yes"}, (), {}, {"t": table}, "cd" * 32)
    store, key = BundleStore(folder), bytes(32)
    store.write(folder / "bundle", bundle, key=key)
    return folder / "bundle" / "bundle.json", lambda: store.read_sealed(folder / "bundle", key=key)


def stored_manifest(folder: Path) -> tuple[Path, Read]:
    snapshot = Snapshot(folder / "toy" / "2026-11-22", b"k" * 32)
    snapshot.record(population="people")
    return snapshot.folder / "manifest.json", lambda: snapshot.manifest


def retired_manifest(folder: Path) -> tuple[Path, Read]:
    snapshot = Snapshot(folder / "toy" / "2026-11-22", b"")
    snapshot.mark_retired(population="people", on=date(2026, 11, 22))
    return snapshot.folder / "manifest.json", lambda: (snapshot.population, snapshot.is_retired())


def document(folder: Path) -> tuple[Path, Read]:
    path = folder / "value.json"
    path.write_text('{"format": 1, "value": {"rows": []}}', encoding="utf-8")
    return path, lambda: read_document(path)


OBJECTS = [stored_bundle, stored_manifest, retired_manifest, document]


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path.read_bytes()


@pytest.mark.parametrize("make", OBJECTS)
def test_what_this_program_stored_it_reads(make: Callable[..., Any], tmp_path: Path):
    _, read = make(tmp_path)
    assert read()


@pytest.mark.parametrize("make", OBJECTS)
@pytest.mark.parametrize(
    ("number", "words"), [(0, "use"), (2, "use"), (97, "use"), (None, "use"), ("1", "put back")]
)
def test_another_format_is_refused_before_anything_else_is_read(
    number: object, words: str, make: Callable[..., Any], tmp_path: Path
):
    path, read = make(tmp_path)

    def with_number(fields: dict[str, Any]) -> None:
        fields.clear()
        fields["format"] = number

    content = changed(path, with_number)
    with pytest.raises(UnknownFormat, match=f"expected format 1, got .*: {words}") as refused:
        read()
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


def test_a_list_in_the_place_of_a_document_has_no_format(tmp_path: Path):
    path = tmp_path / "value.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(UnknownFormat):
        read_document(path)


@pytest.mark.parametrize("content", [b"{", b'{"format": 1}', b"\xff", b"[" * 100_000])
def test_a_document_that_is_none_is_damage_in_one_line(content: bytes, tmp_path: Path):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(Damaged, match="must hold JSON as this program writes it, but it does not"):
        read_document(path)


@pytest.mark.parametrize(
    ("content", "line"), [("{", "JSON as this program"), ("{}", "format 1, got no format")]
)
@pytest.mark.parametrize(
    ("stage", "partition", "path"),
    [
        ("evaluation", "0.5", "released/rides/dpqt_kmeans/partition-0.5.json"),
        ("comparison", None, "internal/rides/evaluation/0.5.json"),
    ],
)
def test_what_an_asset_cannot_read_is_reported_in_one_line(
    content: str, line: str, stage: str, partition: str | None, path: str, released_rides: Project
):
    (released_rides.home.root / path).write_text(content, encoding="utf-8")
    spec = released_rides.declare("rides", RIDES)
    result = released_rides.launch(spec, stage, partition=partition)
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    failure_data = failed.step_failure_data.user_failure_data
    assert line in failure_data.description
    assert failure_data.metadata["exit_code"].value == 1
