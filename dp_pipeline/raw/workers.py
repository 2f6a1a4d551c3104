"""Workers: who does a piece of work about every batch of rows, and how tables come back from them.

A piece of work is a function and a list of tasks, both plain data, so that they can be sent to
where the rows are. Every task can be done twice, or begun and lost: it reads files that do not
change, and what it writes gets its name when it is whole.
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

MOST_THREADS = 8
"""That work on batches at a time: each has one in memory."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Each(Protocol):
    """The results of some work, one a task, in order; small ones, for they travel."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], /
    ) -> Iterator[Result]:
        """Tasks are done in any order, several at a time."""


def engine_of(text: str) -> tuple[str, str]:
    """Name and address of an engine; both empty where none is named.

    text   one of ENGINES, where it is on other machines with a colon and its address

    DeclarationError for an engine that is none.
    """
    name, _, address = text.partition(":")
    if name not in ("", *ENGINES) or (address and name not in ("dask", "spark")):
        raise DeclarationError(f"engine: expected {one_of(ENGINES, text)}")
    return name, address


def in_threads(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
    """The workers of this process: a thread a core, a few results ahead of who takes them."""
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def one_by_one(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
    """This thread alone."""
    yield from map(work, tasks)


def tables_made(
    each: Each, make: Callable[[Task], Iterable[pa.Table]], tasks: Sequence[Task], folder: Path
) -> Iterator[pa.Table]:
    """What is made of every task, in order. Tables do not travel: workers leave them in files.

    folder   a private one for these files, which are deleted when they have been read
    """
    if len(tasks) == 1:
        yield from make(tasks[0])
        return
    for path in each(partial(_made, make, folder), list(enumerate(tasks))):
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as made:
            for at in range(made.num_record_batches):
                yield pa.Table.from_batches([made.get_batch(at)])
        path.unlink()


def _made(make: Callable[[Task], Iterable[pa.Table]], folder: Path, task: tuple[int, Task]) -> Path:
    """On a worker: what is made of one task, in a file."""
    number, one = task
    path = folder / f"made {number}.arrow"
    write_tables(path, make(one))
    return path


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema, one or more of one chunk each, as the batches of an Arrow file,
    whole or not at all: who writes the same file at the same time does not matter.
    """

    def write(file: BinaryIO) -> None:
        parts = iter(tables)
        first = next(parts)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(file, first.schema, options=options) as writer:
            writer.write_table(first)
            for table in parts:
                writer.write_table(table)

    write_atomically(path, write)
