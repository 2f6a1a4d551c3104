"""Study: measure the cells that are not finished yet.

Benchmark: the prepared rows of one public data set, kept in the folder of a study.

Journal: the finished cells, one line each, on disk before the next begins. A study that was killed
goes on where it stopped; one with other settings in the same folder adds its cells. Cells of other
code are never mixed with these. Seeds are from the key of a cell alone: every run draws the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

import dp_pipeline
from benchmarks.papers.results import Row, System
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared, PipelineError, one_of
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.models.base import FitResult, Model, ModelFit, PrivacyGuarantee
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.fold import FoldCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.threads import load_threaded_libraries, one_thread

_KEY = bytes(32)
"""Public rows need no secret, and which rows of a person are kept must not differ by study."""


@dataclass(frozen=True)
class Benchmark:
    """One public data set, prepared."""

    spec: DatasetSpec
    snapshot: Snapshot

    @classmethod
    def of(cls, spec: DatasetSpec, folder: Path, repetition: int = 0) -> Benchmark:
        """Return the data set as it lies in the study's ``folder``, prepared or not.

        repetition   where rows are sampled: which sample, drawn by the declared seed + repetition

        DeclarationError for a data set to be released: a study shows exact numbers and has no
        ceiling.
        """
        if spec.is_release:
            raise DeclarationError(
                f"{spec.name}: expected purpose: benchmark for a study, got purpose: release"
            )
        name, sample = "study", spec.source.sample
        if sample is not None:
            sample = replace(sample, seed=sample.seed + repetition)
            spec = replace(spec, source=replace(spec.source, sample=sample))
            name = f"study-{sample.seed}"
        return cls(spec, Snapshot(folder / ".data" / spec.name / name, _KEY))

    def prepare(self, ledger: Ledger) -> None:
        """Ingest, validate and prepare the rows; what was prepared before stays as it is.

        DeclarationError where the ledger protects a file that was downloaded, SourceError when the
        source cannot be read, NotPrepared when its rows are not as declared.
        """
        spec, store = self.spec, self.snapshot.folder.parent.parent
        claim = partial(ledger.require_claimable, spec.population)
        name = self.snapshot.id
        ingest(spec, store, key=_KEY, snapshot_id=name, today=date.min, claim=claim)
        try:
            require_prepared(spec, self.snapshot)
        except NotPrepared:
            refused = refusal(spec, validate(spec, self.snapshot))
            if refused is not None:
                raise NotPrepared(refused) from None
            prepare(spec, self.snapshot)

    def counter(self) -> FoldCounter:
        """Return a new engine over the rows, in which no earlier fit has computed anything."""
        return open_counter(self.spec, self.snapshot, "memory")


def seed_of(use: str, key: str) -> int:
    """Return 128 bits: the same in every run, independent between keys and uses."""
    return int.from_bytes(hashlib.sha256(f"{use} {key}".encode()).digest()[:16])


def key_of(cell: Sequence[Any]) -> str:
    """Return the text by which a journal knows a cell, and which decides its randomness: systems
    that are compared as independent samples must not share their noise.

    >>> key_of(("wdbc", "rfka", "nested", (2, 5), ("logistic",), 3))
    'wdbc/rfka/nested/2,5/logistic/3'
    """
    return "/".join(
        ",".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in cell
    )


def timed_fit(
    model: Model,
    counter: Counter,
    spec: DatasetSpec,
    guarantee: PrivacyGuarantee,
    *,
    epsilon: Fraction,
    key: str,
) -> tuple[FitResult, float]:
    """Fit with the noise that ``key`` decides; return the fit and its wall-clock seconds."""
    noise = SeededNoise(seed_of("noise", key))
    rng = np.random.default_rng(seed_of("post-processing", key))
    fit, started = ModelFit(spec, model, guarantee), time.perf_counter()
    fitted = fit.fit_model(counter, Transcript(), noise, epsilon=epsilon, rng=rng)
    return fitted, time.perf_counter() - started


def guarantee_facts(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """Return the columns of a row that say what its system promises and costs."""
    facts = {"claim": guarantee.kind, "epsilon_charged": guarantee.composed}
    return {**facts, "reason": guarantee.reason}


def finite(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers without NaN and infinities, which no row holds."""
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


_ROOMS = ("config", "gate", "inference", "metrics", "models", "raw", "results")


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """What is to be measured, and where to; pickled where there are several processes.

    name          of the study in journals and on the command line
    measured_by   files beside this one that its cells depend on, and further folders and files of
                  the package
    folder        results, pictures, report, and the prepared rows in ``.data``

    A cell is a named tuple whose fields are the factors, ``dataset`` first and ``repetition`` last.
    """

    name: ClassVar[str]
    measured_by: ClassVar[tuple[str, ...]]

    specs: tuple[DatasetSpec, ...]
    repeats: int
    folder: Path

    @abstractmethod
    def cells(self, spec: DatasetSpec) -> list[Any]:
        """Return every cell of one data set; DeclarationError where there is nothing to run."""

    @abstractmethod
    def facts(self, spec: DatasetSpec) -> list[object]:
        """Return what of a data set file decides the cells, beside attributes and rows."""

    @abstractmethod
    def measure(self, cell: Any) -> Row:
        """Measure one cell; a system that refuses gives a row with a ``failure`` and no numbers:
        hours of other cells are not lost for it.
        """

    def prepare(self, benchmark: Benchmark, ledger: Ledger) -> None:
        """Prepare the rows of a data set, and what is computed once for all of its cells."""
        benchmark.prepare(ledger)

    def rows(self, cells: Sequence[Row]) -> list[Row]:
        """Return the rows of finished cells; each is one where nothing else is said."""
        return list(cells)

    def benchmark(self, dataset: str, repetition: int = 0) -> Benchmark:
        """Return a data set of the study."""
        (spec,) = (spec for spec in self.specs if spec.name == dataset)
        return Benchmark.of(spec, self.folder, repetition)

    def declared(self, spec: DatasetSpec) -> str:
        """Return 12 hex digits of what a data set file says to this study; in every row."""
        text = json.dumps([spec.digest, spec.source.identity, *self.facts(spec)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def header(self) -> dict[str, str]:
        """Return what makes the cells: other cells are not mixed with these."""
        here, package = Path(__file__).parent, Path(dp_pipeline.__file__).parent
        paths = [package / name for name in _ROOMS] + [Path(__file__)]
        paths += [package / name if "/" in name else here / name for name in self.measured_by]
        digest = hashlib.sha256()
        for path in paths:
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                digest.update(file.read_bytes())
        versions = [f"{name} {metadata.version(name)}" for name in ("numpy", "scikit-learn")]
        code = f"dp_pipeline {dp_pipeline.__version__} {digest.hexdigest()[:12]}"
        return {"study": self.name, "code": ", ".join([code, *versions])}

    def run(self, ledger: Ledger, *, jobs: int = 1) -> list[Row]:
        """Measure the cells that are not in the folder yet; return all cells of the folder, those
        of earlier runs included.

        ledger   of the project: what it protects is not studied
        jobs     processes; results do not depend on it

        DeclarationError, before anything is read or written, for a data set to be released or
        whose rows a population of the project protects, one without a system to run, and for a
        folder with cells of other code or data.
        """
        benchmarks = [Benchmark.of(spec, self.folder) for spec in self.specs]
        for spec in self.specs:
            ledger.require_claimable(spec.population, *spec.source.identities)
        cells = [cell for spec in self.specs for cell in self.cells(spec)]
        cells.sort(key=lambda cell: cell.repetition)
        with open_journal(self.folder / "results.jsonl", self.header()) as journal:
            self._require_same_data(journal)
            missing = [cell for cell in cells if key_of(cell) not in journal.rows]
            for benchmark in benchmarks if missing else ():
                self.prepare(benchmark, ledger)
            show = partial(_show_progress, len(missing), time.monotonic())
            for number, (cell, row) in enumerate(map_cells(self.measure, missing, jobs=jobs), 1):
                journal.append(key_of(cell), row)
                show(number, key_of(cell))
            return list(journal.rows.values())

    def _require_same_data(self, journal: Journal) -> None:
        declared = {spec.name: self.declared(spec) for spec in self.specs}
        for row in journal.rows.values():
            if row["declared"] != declared.get(row["dataset"], row["declared"]):
                raise DeclarationError(
                    f"{self.folder}: expected cells of {row['dataset']} as it is declared now, "
                    "got cells of another declaration; name another folder with --out"
                )


def map_cells(
    task: Callable[[Any], Any], items: Sequence[Any], *, jobs: int
) -> Iterator[tuple[Any, Any]]:
    """Return (item, task(item)) as they are finished: in the order of ``items`` for one job.

    task   with more jobs it is pickled, and so are items and results

    Every task runs on one thread: sums of floats depend on the number of threads, so results would
    depend on the machine. PipelineError when a process is killed, for want of memory for example.
    """
    if jobs == 1:
        with one_thread(with_sklearn=True):
            for item in items:
                yield item, task(item)
        return
    # Not fork: a copy of a process with threads in numerical libraries may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)
    try:
        waiting = {pool.submit(task, item): item for item in items}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise PipelineError(
            f"expected {jobs} processes at work, got one that was killed; run again to go on, "
            "with fewer --jobs if memory was short"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent process, and use one thread for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    load_threaded_libraries(with_sklearn=True)
    threadpool_limits(limits=1)


def _show_progress(total: int, started: float, finished: int, name: str) -> None:
    """Write a line on stderr every twentieth of the cells."""
    if finished * 20 // total > (finished - 1) * 20 // total:
        seconds = int((time.monotonic() - started) / finished * (total - finished))
        time_text = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"
        sys.stderr.write(f"{finished} of {total} cells, {time_text}: {name}\n")
        sys.stderr.flush()


class Journal:
    """The open file of one study; see ``open_journal``.

    rows   key of a cell → its row, in the order in which they were finished
    """

    def __init__(self, file: BinaryIO, rows: dict[str, Row]) -> None:
        self._file, self.rows = file, rows

    def append(self, cell: str, row: Row) -> None:
        """Store one finished cell; it is on disk when this returns."""
        _append(self._file, {"cell": cell, "row": dict(row)})
        self.rows[cell] = row


@contextmanager
def open_journal(path: Path, header: Mapping[str, str]) -> Iterator[Journal]:
    """Open the journal at ``path``, made if there is none, for this process alone.

    header   what made the cells: study, code, versions

    A torn last line (a crash while writing it) is dropped. DeclarationError for a journal with
    another header, or one that another process has open; Damaged when a line in the middle is
    broken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeclarationError(
                f"{path}: expected no other study in this folder, got one; name another with --out"
            ) from None
        lines = _read_lines(path, file)
        if len(lines) < 2:
            # Without a cell it may become that of any code.
            file.truncate(0)
            file.seek(0)
            _append(file, header)
        elif lines[0] != header:
            expected, got = (
                "; ".join(f"{name} {line.get(name)}" for name in header)
                for line in (header, lines[0])
            )
            raise DeclarationError(
                f"{path}: expected cells of {expected}, got cells of {got}; name another folder "
                "with --out"
            )
        yield Journal(file, {line["cell"]: line["row"] for line in lines[1:]})


def _read_lines(path: Path, file: BinaryIO) -> list[dict[str, Any]]:
    """Read every whole line, and cut off a torn last one."""
    text = file.read()
    complete = text[: text.rfind(b"\n") + 1]
    lines = []
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            lines.append(json.loads(line))
        except ValueError:
            raise Damaged(
                f"Line {number} of {path} must be complete, but it is damaged: restore or delete it"
            ) from None
    file.truncate(len(complete))
    file.seek(len(complete))
    return lines


def _append(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def select_systems(
    names: Sequence[str], allowed: Mapping[str, System], *, noun: str = "system"
) -> tuple[Any, ...]:
    """Return the systems with these names, all for no name, in their own order; DeclarationError
    for an unknown one.
    """
    for name in names:
        if name not in allowed:
            raise DeclarationError(f"the {noun} {one_of(allowed, name)}")
    return tuple(system for name, system in allowed.items() if not names or name in names)
