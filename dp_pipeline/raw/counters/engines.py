"""Engines over stored rows: threads of this machine, and Dask and Spark of several.

Workers get ``StoredRows``, with the places of the prepared rows, and a query; they return exact
sums, first added up on workers. They draw no noise and write nothing. A lost or repeated task
counts the same batches again, and one of its answers is used. All workers need to read the files,
and exact sums cross the network, which has to be trusted or encrypted.
"""

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from dp_pipeline.raw.clusters import PACKED, dask_client, pack, spark_session, unpack, unwrap
from dp_pipeline.raw.counters.batch import Answer, BatchQuery
from dp_pipeline.raw.counters.fold import Fold, merge_answers
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.workers import MAX_THREADS

BATCHES_A_TASK = 4
ANSWERS_A_SUM = 8


def threaded_fold(stored_rows: StoredRows) -> Fold:
    """Return a function that answers a query about all rows, by at most MAX_THREADS threads."""

    def fold(query: BatchQuery) -> Answer | None:
        # The threads share one iterator, which gives each batch to one of them.
        indices = iter(range(len(stored_rows.groups)))
        threads = min(len(stored_rows.groups), os.cpu_count() or 1, MAX_THREADS)
        if threads <= 1:
            return stored_rows.answer_batches(indices, query)
        with ThreadPoolExecutor(threads) as pool:
            sums = [pool.submit(stored_rows.answer_batches, indices, query) for _ in range(threads)]
            return merge_answers(query, (answer.result() for answer in sums))

    return fold


def dask_fold(stored_rows: StoredRows, address: str = "") -> Fold:
    """Connect to a Dask cluster; return a function that answers a query about all rows on it.

    address   address of the scheduler; empty: starts processes of this machine, one a core

    It raises what ``dask_client`` does.
    """
    client = dask_client(address)

    def fold(query: BatchQuery) -> Answer | None:
        # A task, not scattered data, which would be lost with its worker.
        job = client.submit(pickle.loads, pickle.dumps((stored_rows, query)), pure=False)
        sums = [
            client.submit(_count, job, start, pure=False)
            for start in range(0, len(stored_rows.groups), BATCHES_A_TASK)
        ]
        while len(sums) > 1:
            sums = [
                client.submit(_merge, job, sums[start : start + ANSWERS_A_SUM], pure=False)
                for start in range(0, len(sums), ANSWERS_A_SUM)
            ]
        if not sums:
            return None
        total: Answer | None = unwrap(sums[0].result)
        return total

    return fold


def spark_fold(stored_rows: StoredRows, address: str = "") -> Fold:
    """Open a session of Spark; return a function that answers a query about all rows on it.

    address   Spark Connect server, ``sc://host:port``; empty: this machine, on loopback

    It raises what ``spark_session`` does.
    """
    session = spark_session(address)
    partitions = max(1, min(len(stored_rows.groups), 64 if address else 2 * (os.cpu_count() or 1)))

    def fold(query: BatchQuery) -> Answer | None:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            indices = (index for batch in batches for index in batch.column(0).to_pylist())
            yield pack(stored_rows.answer_batches(indices, query))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            contents = (content for batch in batches for content in batch.column(0).to_pylist())
            yield pack(merge_answers(query, map(pickle.loads, contents)))

        if not stored_rows.groups:
            return None
        indices = session.range(0, len(stored_rows.groups), 1, partitions)
        sums = indices.mapInArrow(count, PACKED).repartition(1).mapInArrow(add, PACKED)
        total: Answer | None = unpack(unwrap(sums.collect)[0])
        return total

    return fold


def _count(job: tuple[StoredRows, BatchQuery], start: int) -> Answer | None:
    stored_rows, query = job
    return stored_rows.answer_batches(
        range(len(stored_rows.groups))[start : start + BATCHES_A_TASK], query
    )


def _merge(job: tuple[StoredRows, BatchQuery], answers: list[Answer | None]) -> Answer | None:
    # A copy, since merging overwrites the answers of other workers.
    return merge_answers(job[1], pickle.loads(pickle.dumps(answers)))  # noqa: S301
