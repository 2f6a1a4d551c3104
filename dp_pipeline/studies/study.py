"""Study: measure the cells that are not finished yet, then write what came of all of them.

Benchmark: the prepared rows of one public data set, kept in the folder of a study.

Journal: the finished cells, one line each, on disk before the next begins. A study that was killed
goes on where it stopped; one with other settings in the same folder adds its cells. Cells of other
code are never mixed with these.

Seeds of a study are from the name of a cell alone, so that every run draws the same.

Workers: many independent tasks, in this process or in several, one thread each; progress is a bar
with the time left on a terminal, a line every 5 % elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date
from fractions import Fraction
from functools import cache, partial
from importlib import metadata, resources
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.files import load_threaded_libraries, one_thread
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.models.base import Fitted, Model, PrivacyGuarantee, fit
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import (
    Damaged,
    DeclarationError,
    NotPrepared,
    PipelineError,
    SourceError,
    one_of,
)
from dp_pipeline.studies.report import Family, write_report
from dp_pipeline.studies.results import Row, System

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
        require = None if ledger is None else partial(ledger.require_claimable, spec.population)
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
_SHARED = "studies/study.py"
SAID = "\n# Below stands what the study claims and shows: no cell depends on it.\n"


@cache
def code_version(study: str, *files: str, rooms: Collection[str] = ()) -> str:
    """Of the rooms that measure, and of the files of studies that do, down to the line ``SAID``:
    charts and words may change without making finished cells void.

    study   the file of a study
    files   beside it and those that every study depends on
    rooms   beside those that every study depends on
    """
    package = Path(str(resources.files("dp_pipeline")))
    found = [file for room in (*_ROOMS, *rooms) for file in package.joinpath(room).rglob("*.py")]
    found += [package.joinpath(file) for file in (study, _SHARED, *files)]
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(file.read_bytes().partition(SAID.encode())[0])
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scikit-learn"))
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}, {versions}"


def seed_of(use: str, key: str) -> int:
    """128 bits: the same in every run, independent between keys and uses."""
    return int.from_bytes(hashlib.sha256(f"{use} {key}".encode()).digest()[:16])


def digest_of(facts: Sequence[object]) -> str:
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def timed_fit(
    model: Model,
    counter: Counter,
    spec: DatasetSpec,
    guarantee: PrivacyGuarantee,
    *,
    epsilon: Fraction,
    key: str,
) -> tuple[Fitted, float]:
    """A fit with the noise that ``key`` decides, and its wall-clock seconds."""

    def ask(accountant: Accountant) -> Curator:
        return Curator(
            counter,
            domain=spec.domain,
            distance=spec.distance,
            accountant=accountant,
            transcript=Transcript(),
            noise=SeededNoise(seed_of("noise", key)),
            benchmark=not spec.is_release,
            relation=spec.relation,
        )

    rng = np.random.default_rng(seed_of("post-processing", key))
    began = time.perf_counter()
    fitted = fit(model, guarantee, ask, epsilon=epsilon, rng=rng)
    return fitted, time.perf_counter() - began


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
        with one_thread(with_sklearn=True):
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
    load_threaded_libraries(with_sklearn=True)
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


class Journal:
    """The open file of one study; see ``open_journal``."""

    def __init__(self, path: Path, file: BinaryIO, rows: dict[str, Row]) -> None:
        self._path, self._file, self._rows = path, file, rows

    @property
    def rows(self) -> Mapping[str, Row]:
        """Cell → its row, in the order in which they were finished."""
        return self._rows

    def append(self, cell: str, row: Row) -> None:
        """Store one finished cell; it is on disk when this returns."""
        _append(self._file, {"cell": cell, "row": dict(row)})
        self._rows[cell] = row


@contextmanager
def open_journal(path: Path, header: Mapping[str, str]) -> Iterator[Journal]:
    """The journal at ``path``, made if there is none, for this process alone.

    header   what made the cells: study, code, versions

    A torn last line (a crash while writing it) is dropped. DeclarationError for a journal
    with another header, or one that another process has open; Damaged when a line in the
    middle is broken.
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
        yield Journal(path, file, _begun(path, file, header))


def _begun(path: Path, file: BinaryIO, header: Mapping[str, str]) -> dict[str, Row]:
    """The rows so far; writes the header where there is none."""
    lines = list(_whole_lines(path, file))
    if not lines:
        _append(file, dict(header))
    elif lines[0] != header:
        made = "; ".join(f"{name} {lines[0].get(name)}" for name in header)
        raise DeclarationError(
            f"{path}: expected cells of {'; '.join(f'{n} {v}' for n, v in header.items())}, "
            f"got cells of {made}; name another folder with --out"
        )
    return {line["cell"]: line["row"] for line in lines[1:]}


def _whole_lines(path: Path, file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Every whole line; a torn last one is cut off."""
    whole = 0
    for number, line in enumerate(file.readlines(), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            yield json.loads(line)
        except ValueError:
            raise Damaged(f"{path}: expected line {number} whole, got a broken one") from None
        whole += len(line)
    file.truncate(whole)
    file.seek(whole)


def _append(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _gone_where_nothing_can_be_read(folder: Path) -> Iterator[None]:
    """A folder that a study has made goes again where the rows cannot be read or used: it would
    hold the name of the study and nothing else.
    """
    is_new = not folder.exists()
    try:
        yield
    except (SourceError, NotPrepared):
        if is_new:
            shutil.rmtree(folder)
        raise


class Cell:
    """What is measured at once, and known by one text. A study's cells are frozen dataclasses whose
    fields are the factors, the repetition last.
    """

    dataset: str
    system: str
    repetition: int

    @property
    def key(self) -> str:
        """What a journal knows the cell by, and what decides its randomness: systems that are
        compared as independent samples must not share their noise.
        """
        return "/".join(map(_key_text, (getattr(self, factor.name) for factor in fields(self))))  # type: ignore[arg-type]


def _key_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


AnyCell = TypeVar("AnyCell", bound=Cell)


@dataclass(frozen=True, kw_only=True)
class Study(Family, Generic[AnyCell]):
    """What is to be measured, and where to.

    name     of the study in journals; ``file`` is its file, ``measures_in`` further files and
             ``rooms`` further folders that its cells depend on
    folder   results, pictures, report, and the prepared rows in ``.data``
    ledger   of the project: what it protects is not studied
    jobs     processes; results do not depend on it
    """

    name: ClassVar[str]
    file: ClassVar[str]
    measures_in: ClassVar[tuple[str, ...]] = ()
    rooms: ClassVar[tuple[str, ...]] = ()

    specs: tuple[DatasetSpec, ...]
    repeats: int
    folder: Path
    ledger: Ledger
    jobs: int = 1

    def run(self) -> Path:
        """Measure the cells that are not in the folder yet; the path of the report.

        The files are of all cells in the folder, those of earlier runs included.
        DeclarationError, before anything is read or written, for a data set to be released or
        whose rows a population of the project protects, one without a system to run, and for a
        folder with cells of other code or data. PipelineError when every system refused.
        """
        benchmarks = [Benchmark.of(spec, self.folder) for spec in self.specs]
        for spec in self.specs:
            self.ledger.require_claimable(spec.population, *spec.source.identities)
        cells = [cell for spec in self.specs for cell in self.cells(spec)]
        cells.sort(key=lambda cell: cell.repetition)
        header = self.header()
        with (
            _gone_where_nothing_can_be_read(self.folder),
            open_journal(self.folder / "results.jsonl", header) as journal,
        ):
            self._require_same_data(journal)
            missing = [cell for cell in cells if cell.key not in journal.rows]
            if missing:
                self._measure(missing, benchmarks, journal)
            return write_report(self.folder, self, list(journal.rows.values()), header)

    def header(self) -> dict[str, str]:
        """What makes the cells: other cells are not mixed with these."""
        code = code_version(self.file, *self.measures_in, rooms=self.rooms)
        return {"study": self.name, "code": code}

    @abstractmethod
    def cells(self, spec: DatasetSpec) -> list[AnyCell]:
        """Every cell of one data set; DeclarationError where there is nothing to run."""

    @abstractmethod
    def declared(self, spec: DatasetSpec) -> str:
        """What the file of a data set says to this study; in every row, as ``declared``."""

    @abstractmethod
    def measuring(self) -> Callable[[AnyCell], Row]:
        """Measures a cell; pickled where there are several processes."""

    def prepared(self, benchmark: Benchmark) -> None:
        """What is computed once for all cells of a prepared data set: nothing."""

    def _require_same_data(self, journal: Journal) -> None:
        declared = {spec.name: self.declared(spec) for spec in self.specs}
        for row in journal.rows.values():
            if row["declared"] != declared.get(row["dataset"], row["declared"]):
                raise DeclarationError(
                    f"{self.folder}: expected cells of {row['dataset']} as it is declared now, "
                    "got cells of another declaration; name another folder with --out"
                )

    def _measure(
        self, cells: Sequence[AnyCell], benchmarks: Sequence[Benchmark], journal: Journal
    ) -> None:
        for benchmark in benchmarks:
            benchmark.prepare(self.ledger)
            self.prepared(benchmark)
        with progress(len(cells)) as on_finished:
            for cell, row in each(self.measuring(), cells, jobs=self.jobs):
                journal.append(cell.key, row)
                on_finished(cell.key)


AnySystem = TypeVar("AnySystem", bound=System)


def named(
    names: Sequence[str], known: Mapping[str, AnySystem], *, what: str = "system"
) -> tuple[AnySystem, ...]:
    """Those with these names, all for no name, in their own order; DeclarationError for an
    unknown one.
    """
    for name in names:
        if name not in known:
            raise DeclarationError(f"{what}: expected {one_of(known, name)}")
    return tuple(system for name, system in known.items() if not names or name in names)
