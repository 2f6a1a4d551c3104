"""Clusters: Dask and Spark as workers of several processes or machines.

Work and tasks are sent to workers, small results come back. What a worker reads and writes lies
where all of them, and this process, can read and write. A task that is lost is done again, one that
is done twice gives one of its results. What fails is told by its kind alone, on workers too: their
logs are no place for values of rows, and messages of libraries quote them.
"""

from __future__ import annotations

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
from typing import Any, Generic
from urllib.parse import urlsplit

import pyarrow as pa

from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.raw.workers import Each, Result, Task, engine_of, in_threads

_LOOPBACK = "127.0.0.1"

ANSWER_SECONDS = 30.0
"""That a server of another machine has to answer."""


def workers_of(engine: str, *, here: Each = in_threads) -> Each:
    """Those of an engine, as ``engine_of`` reads it. Raises what that does; DeclarationError for
    one that is not installed.

    here   those of this process, of every engine but Dask and Spark
    """
    name, address = engine_of(engine)
    if name not in ("dask", "spark"):
        return here
    return (each_in_dask if name == "dask" else each_in_spark)(address)


def each_in_dask(address: str = "") -> Each:
    """The workers of a Dask cluster.

    address   of its scheduler; empty: processes of this machine, one a core, on loopback

    DeclarationError where Dask is not installed.
    """
    client = dask_client(address)

    def each(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
        # A key of our own: else it would be made of what is sent.
        waiting = deque(client.map(Quiet(work), tasks, key="rows", pure=False))
        while waiting:
            yield told(waiting.popleft().result)

    return each


def each_in_spark(address: str = "") -> Each:
    """The workers of Spark.

    address   of a Spark Connect server, ``sc://host:port``; empty: this machine, on loopback

    DeclarationError where Spark is not installed.
    """
    session = spark_session(address)

    def each(work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]:
        quiet = Quiet(work)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for place in (at for batch in batches for at in batch.column(0).to_pylist()):
                yield packed((place, quiet(tasks[place])))

        # A partition a task on a cluster: what is done again is one. Here each costs a process.
        parts = len(tasks) if address else min(len(tasks), 2 * (os.cpu_count() or 1))
        places = session.range(0, len(tasks), 1, max(1, parts))
        rows = told(places.mapInArrow(run, PACKED).collect)
        yield from (result for _, result in sorted(map(unpacked, rows), key=lambda one: one[0]))

    return each


@dataclass(frozen=True, repr=False)
class Quiet(Generic[Task, Result]):
    """Work that tells of what fails nothing but its kind, wherever it is done."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result:
        """The work on one task; PipelineError where it fails."""
        return told(lambda: self.work(task))


def told(result: Callable[[], Result]) -> Result:
    """``result()``; what failed on a worker is one line, without what its engine says of it."""
    try:
        return result()
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001
        # Of whatever kind: engines put the trace of a worker, and parts of its arguments, into it.
        kind = type(error).__name__
    raise PipelineError(
        f"engine: expected the answers of all workers, got {kind}: see their logs, and whether all "
        "of them can read and write the home's folder"
    )


PACKED = "packed binary"
"""The one column in which Spark hands on what its workers found."""


def packed(found: Any) -> pa.RecordBatch:
    """What a worker of Spark found, as a row of PACKED."""
    return pa.record_batch({"packed": pa.array([pickle.dumps(found)], pa.binary())})


def unpacked(row: Any) -> Any:
    """What is in a row of PACKED."""
    return pickle.loads(row.packed)  # noqa: S301


@cache
def dask_client(address: str) -> Any:
    """The connection to a Dask cluster, one for this process."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise _missing("dask", "Dask") from None
    # Typed as nothing by the library.
    make_client: Any = Client
    make_cluster: Any = LocalCluster
    if address:
        _require_answer(address, 8786)
        return make_client(address, set_as_default=False)
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
    """The connection to Spark, one for this process."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _missing("spark", "Spark") from None
    builder = SparkSession.builder.appName("dp_pipeline")
    if address:
        _require_answer(address, 15002)
        return builder.remote(address).getOrCreate()
    # Workers of this machine run the Python that this is, with this package.
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
    # The second number is how often a task is tried.
    session = builder.master("local[*,4]").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    atexit.register(session.stop)
    return session


def _require_answer(address: str, port: int) -> None:
    """PipelineError where nobody answers: libraries would try again for minutes.

    port   where none is named
    """
    # What follows a host and its port in an address may be secret.
    host, place = "", "an address without a host and its port"
    with suppress(ValueError):
        named = urlsplit(address)
        host, port = named.hostname or "", named.port or port
    if host:
        place = f"{host}:{port}"
        with suppress(OSError), socket.create_connection((host, port), ANSWER_SECONDS):
            return
    raise PipelineError(f"engine: expected a server that answers, got nobody at {place}")


def _missing(extra: str, name: str) -> DeclarationError:
    return DeclarationError(
        f"engine: expected {name}, got none that can be imported: "
        f"`pip install 'dp-pipeline[{extra}]'`"
    )
