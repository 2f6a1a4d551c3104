"""Dask and Spark as workers of several processes or machines.

Workers get work and tasks and return small results; they need to read and write the same files as
this process. A lost task is done again, and of one that is done twice one result is used. An error
is reported by its type alone, on workers too, since libraries quote values of rows in messages.
"""

import atexit
import os
import pickle
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, Generic
from urllib.parse import urlsplit

import pyarrow as pa

from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.raw.workers import ParallelMap, Result, Task, in_threads, split_engine

_LOOPBACK = "127.0.0.1"
ANSWER_SECONDS = 30.0  # Longest time for a server of another machine to answer


def workers_of(engine: str, *, local: ParallelMap = in_threads) -> ParallelMap:
    """Return the function by which an engine does work on tasks; connect to Dask or Spark for it.

    engine   name and address, see ``split_engine``
    local    what is returned for every engine but Dask and Spark

    DeclarationError for an engine that is unknown or not installed, PipelineError if its server
    does not answer.
    """
    name, address = split_engine(engine)
    if name not in ("dask", "spark"):
        return local
    return (_dask_map if name == "dask" else _spark_map)(address)


def _dask_map(address: str) -> ParallelMap:
    client = dask_client(address)

    def parallel_map(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
        # A key of our own, since Dask would hash all that is sent.
        futures = deque(client.map(RedactErrors(work), tasks, key="rows", pure=False))
        while futures:
            yield unwrap(futures.popleft().result)

    return parallel_map


def _spark_map(address: str) -> ParallelMap:
    session = spark_session(address)

    def parallel_map(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
        redacted = RedactErrors(work)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for index in (i for batch in batches for i in batch.column(0).to_pylist()):
                yield pack((index, redacted(tasks[index])))

        # On a cluster one partition a task, to redo little of what is lost; locally each costs a
        # process.
        partitions = len(tasks) if address else min(len(tasks), 2 * (os.cpu_count() or 1))
        indices = session.range(0, len(tasks), 1, max(1, partitions))
        rows = unwrap(indices.mapInArrow(run, PACKED).collect)
        require_all_results(len(rows), len(tasks))
        yield from (result for _, result in sorted(map(unpack, rows), key=itemgetter(0)))

    return parallel_map


def require_all_results(results: int, tasks: int) -> None:
    """Raise PipelineError unless Spark gave one result for each task.

    A Spark that lost its context was seen to give none, and no error.
    """
    if results != tasks:
        raise PipelineError(
            f"Spark: expected one result for each of {tasks} tasks, got {results}; "
            "read the log of Spark, and run the command again"
        )


@dataclass(frozen=True, repr=False)
class RedactErrors(Generic[Task, Result]):
    """A function that does ``work`` on a task, and whose errors are those of ``unwrap``."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result:
        return unwrap(lambda: self.work(task))


def unwrap(get_result: Callable[[], Result]) -> Result:
    """Return ``get_result()``; raise a PipelineError that names the type alone of another error.

    A PipelineError itself is raised unchanged."""
    try:
        return get_result()
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001
        # Any type, since engines put a worker's trace and parts of its arguments into the message.
        kind = type(error).__name__
    raise PipelineError(
        f"The workers of the engine must all answer, but one failed with {kind}: read their "
        "logs, and check that all of them can read and write the folder of DP_PIPELINE_HOME"
    )


PACKED = "packed binary"  # Schema of the single column in which Spark returns workers' results


def pack(result: Any) -> pa.RecordBatch:
    """Return a Spark worker's result, pickled, as one row of the schema PACKED."""
    return pa.record_batch({"packed": pa.array([pickle.dumps(result)], pa.binary())})


def unpack(row: Any) -> Any:
    """Return the result that ``pack`` put into a row."""
    return pickle.loads(row.packed)  # noqa: S301


@cache
def dask_client(address: str) -> Any:
    """Return this process's connection to a Dask cluster, the same at every call.

    address   of its scheduler; empty: processes of this machine, one a core, which it starts

    DeclarationError without the package, or for an address without a host; PipelineError if no
    server answers.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise _not_installed("dask", "Dask") from None
    # The library has no types for them.
    make_client: Any = Client
    make_cluster: Any = LocalCluster
    if address:
        _require_answer(address, 8786)
        return make_client(address, set_as_default=False)
    # Else a worker that is not there again 15 seconds after it was killed is given up for good, and
    # without workers a scan waits for ever.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    cluster = make_cluster(
        n_workers=os.cpu_count() or 1,
        threads_per_worker=1,
        host=_LOOPBACK,
        dashboard_address=None,
        silence_logs=50,
    )
    client = make_client(cluster, set_as_default=False)
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client


@cache
def spark_session(address: str) -> Any:
    """Return this process's session of Spark, the same at every call.

    address   Spark Connect server, ``sc://host:port``; empty: this machine

    DeclarationError without the package, or for an address without a host; PipelineError if no
    server answers.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _not_installed("spark", "Spark") from None
    builder = SparkSession.builder.appName("dp_pipeline")
    if address:
        _require_answer(address, 15002)
        return builder.remote(address).getOrCreate()
    # Local workers run this same Python, with this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.task.maxFailures": "4",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    # The second number is the attempts of a task.
    session = builder.master("local[*,4]").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    atexit.register(session.stop)
    return session


def _require_answer(address: str, default_port: int) -> None:
    """Raise PipelineError if no server answers, since the libraries would retry for minutes.

    DeclarationError for an address without a host.
    """
    # The rest of an address, after host and port, may be secret.
    host, port = "", default_port
    with suppress(ValueError):
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or port
    if not host:
        form = "spark:sc://HOST:15002" if default_port == 15002 else "dask:tcp://HOST:8786"
        raise DeclarationError(
            f"The engine of other machines must be of the form {form}, but it is not: "
            "correct the variable DP_PIPELINE_ENGINE"
        )
    with suppress(OSError), socket.create_connection((host, port), ANSWER_SECONDS):
        return
    raise PipelineError(
        f"The engine has no server that answers within {ANSWER_SECONDS:.0f} seconds at "
        f"{host}:{port}: start it, or correct the variable DP_PIPELINE_ENGINE"
    )


def _not_installed(extra: str, name: str) -> DeclarationError:
    return DeclarationError(
        f"The engine needs {name}, which cannot be imported: `pip install 'dp-pipeline[{extra}]'`"
    )
