"""What stops a release in the middle, and what somebody may do to its files afterwards."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_pipeline.ledger import Ledger, Reservation
from dp_pipeline.releases import k_anonymous_release, publish, store
from dp_pipeline.releases.release import Release
from dp_pipeline.results.bundle import Bundle, table_digest
from dp_pipeline.results.transcript import Transcript


class Crash(BaseException):
    """In place of SIGKILL, in this process: no handler of ours catches it."""


def crash(*_: object, **__: object) -> None:
    raise Crash


def die(*_: object, **__: object) -> None:
    """End this process: no handler runs, nothing is flushed, no lock is given back politely."""
    os.kill(os.getpid(), signal.SIGKILL)


Stop = Callable[..., Any]


def _stop_at_first_look(patch: pytest.MonkeyPatch, stop: Stop) -> None:
    _stop_at_answer(patch, stop, 0)
    patch.setattr(k_anonymous_release, "coded_rows", stop)


def _stop_at_answer(patch: pytest.MonkeyPatch, stop: Stop, number: int) -> None:
    """Stop when so many answers are on disk, and the next one is drawn and not stored."""
    real, stored = Transcript.store, [0]

    def store_answer(self: Transcript, *answer: Any, **words: Any) -> Any:
        # The dry run keeps its answers in memory alone.
        if self._path is not None:
            if stored[0] == number:
                stop()
            stored[0] += 1
        return real(self, *answer, **words)

    patch.setattr(Transcript, "store", store_answer)


def _stop_at_second_table(patch: pytest.MonkeyPatch, stop: Stop) -> None:
    real, written = store._write_table, list[Path]()

    def write_table(path: Path, table: Mapping[str, np.ndarray]) -> None:
        if written:
            stop()
        written.append(path)
        real(path, table)

    patch.setattr(store, "_write_table", write_table)


POINTS: Mapping[str, Callable[[pytest.MonkeyPatch, Stop], None]] = {
    "before the charge": lambda patch, stop: patch.setattr(Ledger, "reserve", stop),
    "before the first look": _stop_at_first_look,
    "after one answer": lambda patch, stop: _stop_at_answer(patch, stop, 1),
    "half a bundle": _stop_at_second_table,
    "bundle not settled": lambda patch, stop: patch.setattr(Reservation, "settle", stop),
    "settled": lambda patch, stop: patch.setattr(publish, "PublishedBundle", stop),
}
"""Where a release stops."""


@contextmanager
def stopped(point: str | int) -> Iterator[None]:
    """Run a block that crashes at a point of POINTS, or after so many stored answers."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        if isinstance(point, int):
            _stop_at_answer(patch, crash, point)
        else:
            POINTS[point](patch, crash)
        yield


def edit_document(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "bundle.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")


def _main_table(folder: Path) -> Path:
    tables = ("released", "centres", "synthetic", "domain")
    files = (folder / f"{name}.parquet" for name in tables)
    return next((file for file in files if file.exists()), folder / "nothing.parquet")


def _lose_a_row(folder: Path) -> None:
    """With a digest that fits."""
    path = _main_table(folder)
    table = pq.read_table(path).slice(1)
    pq.write_table(table, path)
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    digest = table_digest(columns)
    edit_document(folder, lambda document: document["tables"].update({path.stem: digest}))


EDITS: Mapping[str, Callable[[Path], object]] = {
    "a fact": lambda folder: edit_document(folder, lambda d: d["facts"].update(dataset="another")),
    "the code": lambda folder: edit_document(folder, lambda d: d["facts"].update(code="9")),
    "a charge": lambda folder: edit_document(
        folder, lambda d: d["spends"].append({"epsilon": "1"})
    ),
    "a row of its table": _lose_a_row,
    "a cut table": lambda folder: next(folder.glob("*.parquet")).write_bytes(b"PAR1"),
    "a lost table": lambda folder: next(folder.glob("*.parquet")).unlink(),
    "a lost seal": lambda folder: (folder / "seal").unlink(),
    "a lost text": lambda folder: (folder / "bundle.json").unlink(),
    "a broken text": lambda folder: (folder / "bundle.json").write_bytes(b"\xff{"),
    "one more file": lambda folder: (folder / "rows.csv").write_text("ann,1", encoding="utf-8"),
    "one more folder": lambda folder: (folder / "more").mkdir(),
}
"""What may be done to the folder of a bundle by somebody without the key of its population."""


def reseal(release: Release, folder: Path) -> Bundle:
    """Seal the files of a bundle as they are now, as who holds the key could do."""
    key = release.home.ledger.key(release.spec.population)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "seal"}
    (folder / "seal").write_text(release.store._seal(folder, files, key))
    return release.store.read_sealed(folder, key=key)
