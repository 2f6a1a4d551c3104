"""Engines of several processes or machines: Dask and Spark count the same batches.

What travels to workers is ``StoredRows``, where the prepared rows lie, and questions as plain data;
what comes back are exact sums, added up on the workers before they travel. A worker draws nothing
and writes no value anywhere. A task that is lost, repeated, or run twice at once counts the same
batches again, and one of its answers is taken: nothing changes. The files have to lie where all
workers can read them, and exact sums cross the network, which has to be trusted or encrypted.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa

from dp_pipeline.raw.clusters import PACKED, dask_client, packed, spark_session, told, unpacked
from dp_pipeline.raw.counters.batch import BatchQuery
from dp_pipeline.raw.counters.fold import Fold, Partial, added
from dp_pipeline.raw.counters.stream import StoredRows

BATCHES_A_TASK = 4
PARTIALS_A_SUM = 8


def in_dask(stored: StoredRows, address: str = "") -> Fold:
    """The engine of a Dask cluster.

    address   of its scheduler; empty: processes of this machine, one a core, on loopback

    DeclarationError where Dask is not installed.
    """
    client = dask_client(address)

    def fold(questions: Sequence[BatchQuery]) -> Partial:
        # A task, and not scattered: what one worker alone has dies with it; a task is done again.
        asked = client.submit(pickle.loads, pickle.dumps((stored, tuple(questions))), pure=False)
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
        found: Partial = told(partials[0].result)
        return found

    return fold


def in_spark(stored: StoredRows, address: str = "") -> Fold:
    """The engine of Spark.

    address   of a Spark Connect server, ``sc://host:port``; empty: this machine, on loopback

    DeclarationError where Spark is not installed.
    """
    session = spark_session(address)
    parts = max(1, min(len(stored.groups), 2 * (os.cpu_count() or 1) if not address else 64))

    def fold(questions: Sequence[BatchQuery]) -> Partial:
        asked = tuple(questions)

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            places = (at for batch in batches for at in batch.column(0).to_pylist())
            yield packed(stored.answered(places, asked))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield packed(added(asked, _unpacked(batches)))

        if not stored.groups:
            return [None] * len(asked)
        numbers = session.range(0, len(stored.groups), 1, parts)
        counted = numbers.mapInArrow(count, PACKED)
        one = counted.repartition(1).mapInArrow(add, PACKED)
        rows = told(one.collect)
        found: Partial = unpacked(rows[0])
        return found

    return fold


def _answered(asked: tuple[StoredRows, tuple[BatchQuery, ...]], first: int) -> Partial:
    """On a worker: a few batches."""
    stored, questions = asked
    return stored.answered(
        iter(range(len(stored.groups))[first : first + BATCHES_A_TASK]), questions
    )


def _summed(asked: tuple[StoredRows, tuple[BatchQuery, ...]], partials: list[Partial]) -> Partial:
    """On a worker: what others have counted, put together. What they hold is not written to."""
    return added(asked[1], pickle.loads(pickle.dumps(partials)))  # noqa: S301


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[Partial]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield pickle.loads(text)  # noqa: S301
