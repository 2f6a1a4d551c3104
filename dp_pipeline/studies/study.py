"""Study: measure the cells that are not finished yet, then write what came of all of them.

Benchmark: the prepared rows of one public data set, kept in the folder of a study.

What made the cells of a study: a digest of the code that measures, and versions below it.

Seeds of a study: from the name of a cell alone, so that every run draws the same.

Workers: many independent tasks, in this process or in several, one thread each.

Progress of a study: a bar with the time left on a terminal, a line every 5 % elsewhere.

Named: the systems of a study that a command line names.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, partial
from importlib import metadata, resources
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from dp_pipeline import __version__
from dp_pipeline.files import load_threaded_libraries, one_thread
from dp_pipeline.ledger import Ledger
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import DeclarationError, NotPrepared, PipelineError, one_of
from dp_pipeline.studies.journal import Journal, Row, open_journal

SNAPSHOT = "study"
_KEY = bytes(32)
"""Public rows need no secret, and which rows of a person are kept must not differ by study."""


@dataclass(frozen=True)
class Benchmark:
    """One public data set, prepared."""

    spec: DatasetSpec
    snapshot: Snapshot

    @classmethod
    def of(cls, spec: DatasetSpec, folder: Path, repetition: int = 0) -> Benchmark:
        """The data set as it lies in the study's ``folder``, prepared or not.

        repetition   where rows are sampled: which sample, drawn by the declared seed + repetition

        DeclarationError for a data set to be released: a study shows exact numbers and has no
        ceiling.
        """
        if spec.is_release:
            raise DeclarationError(
                f"{spec.name}: expected purpose: benchmark for a study, got purpose: release"
            )
        name, sample = SNAPSHOT, spec.source.sample
        if sample is not None:
            sample = replace(sample, seed=sample.seed + repetition)
            spec = replace(spec, source=replace(spec.source, sample=sample))
            name = f"{SNAPSHOT}-{sample.seed}"
        return cls(spec, Snapshot(folder / ".data" / spec.name / name, _KEY))

    def prepare(self, ledger: Ledger | None = None) -> None:
        """Ingest, validate, prepare; what was prepared before stays as it is.

        ledger   of the project: what it protects is not studied; None where there is none

        DeclarationError where a file that was downloaded is protected, SourceError when the source
        cannot be read, NotPrepared when its rows are not as declared.
        """
        spec, store = self.spec, self.snapshot.folder.parent.parent
        require = None if ledger is None else partial(ledger.require_public, spec.lineage)
        name = self.snapshot.id
        ingest(spec, store, key=_KEY, snapshot_id=name, today=date.min, claim=require)
        if self._is_prepared:
            return
        refused = refusal(spec, validate(spec, self.snapshot))
        if refused is not None:
            raise NotPrepared(refused)
        prepare(spec, self.snapshot)

    @property
    def _is_prepared(self) -> bool:
        try:
            require_prepared(self.spec, self.snapshot)
        except NotPrepared:
            return False
        return True

    def counter(self) -> MemoryCounter:
        """A new engine over the rows: nothing that an earlier fit computed is kept in it."""
        return MemoryCounter.open(self.spec, self.snapshot)


@cache
def opened(folder: Path, dataset: str, repetition: int = 0) -> Benchmark:
    """The benchmark in a study's folder, looked up once a process."""
    return Benchmark.of(find_spec(dataset), folder, repetition)


_ROOMS = ("gate", "inference", "metrics", "models", "raw", "release", "spec")
_SHARED = ("studies/study.py", "studies/fit.py")


@cache
def code_version(*files: str, rooms: Collection[str] = ()) -> str:
    """Of the rooms that measure, and of the files of studies that do: charts and words
    may change without making finished cells void.

    rooms   beside those that every study depends on
    """
    package = Path(str(resources.files("dp_pipeline")))
    found = [file for room in (*_ROOMS, *rooms) for file in package.joinpath(room).rglob("*.py")]
    found += [package.joinpath(file) for file in (*_SHARED, *files)]
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(file.read_bytes())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scikit-learn"))
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}, {versions}"


def seed_of(use: str, key: str) -> int:
    """128 bits: the same in every run, independent between keys and uses."""
    return int.from_bytes(hashlib.sha256(f"{use} {key}".encode()).digest()[:16])


Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    task: Callable[[Item], Result], items: Sequence[Item], *, jobs: int
) -> Iterator[tuple[Item, Result]]:
    """(item, task(item)) as they are finished: in the order of ``items`` where ``jobs`` is 1.

    task   with more jobs it is pickled, and so are items and results

    Every task runs on one thread: sums of floats depend on the number of threads, so results
    would depend on the machine. Whoever stops listening stops the work. PipelineError when a
    process is killed, by the kernel for want of memory for example.
    """
    if jobs == 1:
        with one_thread():
            for item in items:
                yield item, task(item)
        return
    # Not fork: a copy of a process with threads in numerical libraries may hang. Not a fork server:
    # one that was started before would have an older environment than this process.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_use_one_thread)
    try:
        with _interrupts_ignored():
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


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started meanwhile never hear of Ctrl-C: their parent does, and stops them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _use_one_thread() -> None:
    """For the whole life of a worker process."""
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    load_threaded_libraries()
    threadpool_limits(limits=1)


_LINES = 20


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """On stderr; the function that is given is told each cell after it was finished."""
    show = _bar if sys.stderr.isatty() else _lines
    with show(total) as on_finished:
        yield on_finished


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}"),
    )
    # The cells differ much in length: the estimate looks back further than Rich's 30 seconds.
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=600
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, description=name, advance=1)


@contextmanager
def _lines(total: int) -> Iterator[Callable[[str], None]]:
    began, finished = time.monotonic(), 0

    def on_finished(name: str) -> None:
        nonlocal finished
        finished += 1
        if finished * _LINES // total > (finished - 1) * _LINES // total:
            left = duration_text((time.monotonic() - began) / finished * (total - finished))
            sys.stderr.write(f"{finished} of {total} cells, {left} left: {name}\n")
            sys.stderr.flush()

    yield on_finished


def duration_text(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration_text(3725.2), duration_text(59.9)
    ('1:02:05', '0:00:59')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class AnyCell(Protocol):
    """What is measured at once, and known by one text."""

    @property
    def repetition(self) -> int:
        """Which one of the same: early ones of every system come first."""
        ...

    @property
    def key(self) -> str:
        """What a journal knows it by."""
        ...


Cell = TypeVar("Cell", bound=AnyCell)


@dataclass(frozen=True, kw_only=True)
class Study(ABC, Generic[Cell]):
    """What is to be measured, and where to.

    folder   results, pictures, report, and the prepared rows in ``.data``
    ledger   of the project: what it protects is not studied
    jobs     processes; results do not depend on it
    """

    specs: tuple[DatasetSpec, ...]
    repeats: int
    folder: Path
    ledger: Ledger
    jobs: int = 1

    def run(self) -> Path:
        """Measure the cells that are not in the folder yet; the path of the report.

        The files are of all cells in the folder, those of earlier runs included.
        DeclarationError, before anything is read or written, for a data set to be released or
        whose rows a lineage of the project protects, one without a system to run, and for a
        folder with cells of other code or data.
        """
        benchmarks = [Benchmark.of(spec, self.folder) for spec in self.specs]
        for spec in self.specs:
            for source in spec.source.identities:
                self.ledger.require_public(spec.lineage, source)
        cells = [cell for spec in self.specs for cell in self.cells(spec)]
        cells.sort(key=lambda cell: cell.repetition)
        header = self.header()
        with open_journal(self.folder / "results.jsonl", header) as journal:
            self._require_same_data(journal)
            missing = [cell for cell in cells if cell.key not in journal.rows]
            if missing:
                self._measure(missing, benchmarks, journal)
            return self.write(list(journal.rows.values()), header)

    @abstractmethod
    def header(self) -> dict[str, str]:
        """What makes the cells: other cells are not mixed with these."""

    @abstractmethod
    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Every cell of one data set; DeclarationError where there is nothing to run."""

    @abstractmethod
    def declared(self, spec: DatasetSpec) -> str:
        """What the file of a data set says to this study; in every row, as ``declared``."""

    @abstractmethod
    def prepared(self, benchmark: Benchmark) -> None:
        """What is computed once for all cells of a prepared data set."""

    @abstractmethod
    def measuring(self) -> Callable[[Cell], Row]:
        """Measures a cell; pickled where there are several processes."""

    @abstractmethod
    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Every file but the journal, from finished cells; the path of the report."""

    def _require_same_data(self, journal: Journal) -> None:
        declared = {spec.name: self.declared(spec) for spec in self.specs}
        for row in journal.rows.values():
            if row["declared"] != declared.get(row["dataset"], row["declared"]):
                raise DeclarationError(
                    f"{self.folder}: expected cells of {row['dataset']} as it is declared now, "
                    "got cells of another declaration; name another folder with --out"
                )

    def _measure(
        self, cells: Sequence[Cell], benchmarks: Sequence[Benchmark], journal: Journal
    ) -> None:
        for benchmark in benchmarks:
            benchmark.prepare(self.ledger)
            self.prepared(benchmark)
        with progress(len(cells)) as on_finished:
            for cell, row in each(self.measuring(), cells, jobs=self.jobs):
                journal.append(cell.key, row)
                on_finished(cell.key)


System = TypeVar("System")


def named(
    names: Sequence[str], known: Mapping[str, System], *, what: str = "system"
) -> tuple[System, ...]:
    """Those with these names, all for no name, in their own order; DeclarationError for an
    unknown one.

    >>> named(["b", "a"], {"a": 1, "b": 2, "c": 3})
    (1, 2)
    """
    for name in names:
        if name not in known:
            raise DeclarationError(f"{what}: expected {one_of(known, name)}")
    return tuple(system for name, system in known.items() if not names or name in names)
