"""Engines of several processes or machines: Dask and Spark count the same batches.

What travels to workers is ``StoredRows``, where the prepared rows lie, and questions as plain data;
what comes back are exact sums, added up on the workers before they travel. A worker draws nothing
and writes no value anywhere. A task that is lost, repeated, or run twice at once counts the same
batches again, and one of its answers is taken: nothing changes. The files have to lie where all
workers can read them, and exact sums cross the network, which has to be trusted or encrypted.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from dp_pipeline.raw.counters.batch import Question
from dp_pipeline.raw.counters.fold import Fold, Partial, added
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.spec.errors import DeclarationError, PipelineError

BATCHES_A_TASK = 4
PARTIALS_A_SUM = 8

_LOOPBACK = "127.0.0.1"


def in_dask(stored: StoredRows, address: str = "") -> Fold:
    """The engine of a Dask cluster.

    address   of its scheduler; empty: processes of this machine, one a core, on loopback

    DeclarationError where Dask is not installed.
    """
    client = _dask_client(address)

    def fold(questions: Sequence[Question]) -> Partial:
        asked = client.scatter((stored, tuple(questions)), hash=False)
        partials = [
            client.submit(_answered, asked, at, pure=False)
            for at in range(0, len(stored.groups), BATCHES_A_TASK)
        ]
        while len(partials) > 1:
            groups = range(0, len(partials), PARTIALS_A_SUM)
            partials = [
                client.submit(_summed, asked, partials[at : at + PARTIALS_A_SUM], pure=False)
                for at in groups
            ]
        if not partials:
            return [None] * len(questions)
        found: Partial = _told(partials[0].result)
        return found

    return fold


def in_spark(stored: StoredRows, address: str = "") -> Fold:
    """The engine of Spark.

    address   of a Spark Connect server, ``sc://host:port``; empty: this machine, on loopback

    DeclarationError where Spark is not installed.
    """
    session = _spark_session(address)
    parts = max(1, min(len(stored.groups), 2 * (os.cpu_count() or 1) if not address else 64))

    def fold(questions: Sequence[Question]) -> Partial:
        asked = tuple(questions)

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            places = (at for batch in batches for at in batch.column(0).to_pylist())
            yield _packed(stored.answered(places, asked))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _packed(added(asked, _unpacked(batches)))

        if not stored.groups:
            return [None] * len(asked)
        numbers = session.range(0, len(stored.groups), 1, parts)
        counted = numbers.mapInArrow(count, "answers binary")
        one = counted.repartition(1).mapInArrow(add, "answers binary")
        rows = _told(one.collect)
        found: Partial = pickle.loads(rows[0].answers)  # noqa: S301
        return found

    return fold


def _answered(asked: tuple[StoredRows, tuple[Question, ...]], first: int) -> Partial:
    """On a worker: a few batches."""
    stored, questions = asked
    return stored.answered(
        iter(range(len(stored.groups))[first : first + BATCHES_A_TASK]), questions
    )


def _summed(asked: tuple[StoredRows, tuple[Question, ...]], partials: list[Partial]) -> Partial:
    """On a worker: what others have counted, put together. What they hold is not written to."""
    return added(asked[1], pickle.loads(pickle.dumps(partials)))  # noqa: S301


def _packed(partial: Partial) -> pa.RecordBatch:
    return pa.record_batch({"answers": pa.array([pickle.dumps(partial)], pa.binary())})


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[Partial]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield pickle.loads(text)  # noqa: S301


def _told(result: Any) -> Any:
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
        "of them can read the home's folder"
    )


@cache
def _dask_client(address: str) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise _missing("dask", "Dask") from None
    # Typed as nothing by the library.
    make_client: Any = Client
    make_cluster: Any = LocalCluster
    if address:
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
def _spark_session(address: str) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _missing("spark", "Spark") from None
    builder = SparkSession.builder.appName("dp_pipeline")
    if address:
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


def _missing(extra: str, name: str) -> DeclarationError:
    return DeclarationError(
        f"engine: expected {name}, got none that can be imported: "
        f"`pip install 'dp-pipeline[{extra}]'`"
    )
