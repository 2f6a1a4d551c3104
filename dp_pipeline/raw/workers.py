"""Parallel work on batches of rows, and the transport of its tables.

Work is a function and a list of tasks, which can be pickled and sent to the rows. A task can be
repeated or lost: it reads files that do not change, and writes files atomically.
"""

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
MAX_THREADS = 8  # Threads that work on batches, at most; each has one in memory
Task = TypeVar("Task")
Result = TypeVar("Result")


class ParallelMap(Protocol):
    """A function that does work on tasks in parallel and yields their results in order."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], /
    ) -> Iterator[Result]: ...


def split_engine(text: str) -> tuple[str, str]:
    """Return an engine's name and the address of its server, each empty where ``text`` has none.

    text   one of ENGINES, or empty; for other machines ``dask:ADDRESS`` or ``spark:ADDRESS``

    DeclarationError for an unknown engine, and for an address of another than Dask and Spark.
    """
    name, _, address = text.partition(":")
    if name not in ("", *ENGINES) or (address and name not in ("dask", "spark")):
        raise DeclarationError(
            f"The engine {one_of(ENGINES, text)} (the variable DP_PIPELINE_ENGINE names it)"
        )
    return name, address


def in_threads(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
    """Yield the results of work on tasks, in order, by at most MAX_THREADS threads."""
    threads = min(os.cpu_count() or 1, MAX_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        futures: deque[Future[Result]] = deque()
        for task in tasks:
            futures.append(pool.submit(work, task))
            if len(futures) > threads:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


def map_to_tables(
    parallel_map: ParallelMap,
    work: Callable[[Task], Iterable[pa.Table]],
    tasks: Sequence[Task],
    folder: Path,
) -> Iterator[pa.Table]:
    """Yield the tables that ``work`` makes of each task, in the order of the tasks.

    work     yields at least one table of each task, each of one chunk; empty ones beside others may
             be left out
    folder   private folder for the workers' files of tables, which are deleted after reading

    A single task is done here, without a file."""
    if len(tasks) == 1:
        yield from work(tasks[0])
        return
    for path in parallel_map(partial(_write_result, work, folder), list(enumerate(tasks))):
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for i in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(i)])
            if not reader.num_record_batches:
                yield reader.schema.empty_table()
        path.unlink()


def _write_result(
    work: Callable[[Task], Iterable[pa.Table]], folder: Path, numbered_task: tuple[int, Task]
) -> Path:
    number, task = numbered_task
    path = folder / f"result {number}.arrow"
    write_tables(path, work(task))
    return path


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables, at least one and of one chunk each, as batches of an Arrow file, atomically."""

    def write(file: BinaryIO) -> None:
        remaining = iter(tables)
        first = next(remaining)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(file, first.schema, options=options) as writer:
            writer.write_table(first)
            for table in remaining:
                writer.write_table(table)

    write_atomically(path, write)
