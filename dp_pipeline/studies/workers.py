"""Workers: many independent tasks, in this process or in several, one thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from dp_pipeline.release.one_thread import load_threaded_libraries, one_thread
from dp_pipeline.schema.errors import PipelineError

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
