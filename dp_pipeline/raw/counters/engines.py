"""Engines over stored rows: threads of this machine, and Dask and Spark of several.

Workers get ``StoredRows``, with the places of the prepared rows, and queries; they return exact
sums, first added up on workers. They draw no noise and write nothing. A lost or repeated task
counts the same batches again, and one of its answers is used. All workers need to read the files,
and exact sums cross the network, which has to be trusted or encrypted.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from dp_pipeline.raw.clusters import PACKED, dask_client, pack, spark_session, unpack, unwrap
from dp_pipeline.raw.counters.batch import BatchQuery
from dp_pipeline.raw.counters.fold import Fold, Partial, merge_partials
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.workers import MAX_THREADS

BATCHES_A_TASK = 4
PARTIALS_A_SUM = 8


def threaded_fold(stored_rows: StoredRows) -> Fold:
    """Return a function that answers queries about all rows, by at most MAX_THREADS threads."""

    def fold(queries: Sequence[BatchQuery]) -> Partial:
        # The threads share one iterator, which gives each batch to one of them.
        indices = iter(range(len(stored_rows.groups)))
        threads = min(len(stored_rows.groups), os.cpu_count() or 1, MAX_THREADS)
        if threads <= 1:
            return stored_rows.answer_batches(indices, queries)
        with ThreadPoolExecutor(threads) as pool:
            sums = [
                pool.submit(stored_rows.answer_batches, indices, queries) for _ in range(threads)
            ]
            return merge_partials(queries, (partial.result() for partial in sums))

    return fold


def dask_fold(stored_rows: StoredRows, address: str = "") -> Fold:
    """Connect to a Dask cluster; return a function that answers queries about all rows on it.

    address   address of the scheduler; empty: starts processes of this machine, one a core

    It raises what ``dask_client`` does.
    """
    client = dask_client(address)

    def fold(queries: Sequence[BatchQuery]) -> Partial:
        # A task, not scattered data, which would be lost with its worker.
        job = client.submit(pickle.loads, pickle.dumps((stored_rows, tuple(queries))), pure=False)
        partials = [
            client.submit(_count, job, start, pure=False)
            for start in range(0, len(stored_rows.groups), BATCHES_A_TASK)
        ]
        while len(partials) > 1:
            partials = [
                client.submit(_merge, job, partials[start : start + PARTIALS_A_SUM], pure=False)
                for start in range(0, len(partials), PARTIALS_A_SUM)
            ]
        if not partials:
            return [None] * len(queries)
        total: Partial = unwrap(partials[0].result)
        return total

    return fold


def spark_fold(stored_rows: StoredRows, address: str = "") -> Fold:
    """Open a session of Spark; return a function that answers queries about all rows on it.

    address   Spark Connect server, ``sc://host:port``; empty: this machine, on loopback

    It raises what ``spark_session`` does.
    """
    session = spark_session(address)
    partitions = max(1, min(len(stored_rows.groups), 64 if address else 2 * (os.cpu_count() or 1)))

    def fold(queries: Sequence[BatchQuery]) -> Partial:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            indices = (index for batch in batches for index in batch.column(0).to_pylist())
            yield pack(stored_rows.answer_batches(indices, queries))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            contents = (content for batch in batches for content in batch.column(0).to_pylist())
            yield pack(merge_partials(queries, map(pickle.loads, contents)))

        if not stored_rows.groups:
            return [None] * len(queries)
        indices = session.range(0, len(stored_rows.groups), 1, partitions)
        sums = indices.mapInArrow(count, PACKED).repartition(1).mapInArrow(add, PACKED)
        total: Partial = unpack(unwrap(sums.collect)[0])
        return total

    return fold


def _count(job: tuple[StoredRows, tuple[BatchQuery, ...]], start: int) -> Partial:
    stored_rows, queries = job
    return stored_rows.answer_batches(
        range(len(stored_rows.groups))[start : start + BATCHES_A_TASK], queries
    )


def _merge(job: tuple[StoredRows, tuple[BatchQuery, ...]], partials: list[Partial]) -> Partial:
    # A copy, since merging overwrites the answers of other workers.
    return merge_partials(job[1], pickle.loads(pickle.dumps(partials)))  # noqa: S301
