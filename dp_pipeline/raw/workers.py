"""Workers: who does some work on every batch of rows, and how tables come back from them.

Work is a function and a list of tasks, both plain data, so that they can be sent to where the rows
are. Every task can be done twice, or started and lost: it reads files that do not change, and
what it writes gets its name when it is whole.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import pyarrow as pa

from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.files import write_atomically

ENGINES = ("memory", "stream", "dask", "spark")

MAX_THREADS = 8
"""Bounds the threads that work on batches at a time: each has one in memory."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class ParallelMap(Protocol):
    """Yields the results of some work, one a task, in order; small ones, for they travel. Tasks are
    done in any order, several at a time.
    """

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], /
    ) -> Iterator[Result]: ...


def split_engine(text: str) -> tuple[str, str]:
    """Return name and address of an engine, both empty where ``text`` is; DeclarationError for an
    engine that does not exist.

    text   one of ENGINES; of dask and spark on other machines with a colon and the address
    """
    name, _, address = text.partition(":")
    if name not in ("", *ENGINES) or (address and name not in ("dask", "spark")):
        raise DeclarationError(f"engine: expected {one_of(ENGINES, text)}")
    return name, address


def in_threads(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
    """Work in this process: a thread a core, a few results ahead of the caller."""
    threads = min(os.cpu_count() or 1, MAX_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        futures: deque[Future[Result]] = deque()
        for task in tasks:
            futures.append(pool.submit(work, task))
            if len(futures) > threads:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


def one_by_one(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
    """Work in this thread alone."""
    yield from map(work, tasks)


def map_to_tables(
    parallel_map: ParallelMap,
    work: Callable[[Task], Iterable[pa.Table]],
    tasks: Sequence[Task],
    folder: Path,
) -> Iterator[pa.Table]:
    """Yield the tables of every task, in order. They do not travel: workers leave them in files.

    folder   a private one for these files, which are deleted when they have been read
    """
    if len(tasks) == 1:
        yield from work(tasks[0])
        return
    for path in parallel_map(partial(_write_result, work, folder), list(enumerate(tasks))):
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for i in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(i)])
        path.unlink()


def _write_result(
    work: Callable[[Task], Iterable[pa.Table]], folder: Path, numbered_task: tuple[int, Task]
) -> Path:
    number, task = numbered_task
    path = folder / f"result {number}.arrow"
    write_tables(path, work(task))
    return path


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one chunk each as batches of an Arrow file, whole or not at all."""

    def write(file: BinaryIO) -> None:
        remaining = iter(tables)
        first = next(remaining)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(file, first.schema, options=options) as writer:
            writer.write_table(first)
            for table in remaining:
                writer.write_table(table)

    write_atomically(path, write)
