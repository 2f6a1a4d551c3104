"""Engines over stored rows: threads of this machine, and Dask and Spark of several.

Workers get ``StoredRows``, with the places of the prepared rows, and a query; they return exact
sums over many batches. They draw no noise and write nothing. A lost or repeated task counts the
same batches again, and one of its answers is used. All workers need to read the files, and exact
sums cross the network, which has to be trusted or encrypted.
"""

import os
import pickle
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from dp_pipeline.raw.clusters import PACKED, pack, spark_session, unpack, unwrap, workers_of
from dp_pipeline.raw.counters.batch import Answer, BatchQuery
from dp_pipeline.raw.counters.fold import Fold, merge_answers
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.workers import split_engine

MAX_TASKS = 64  # Tasks of one scan, at most, since their answers are added up in one place


def fold_of(stored_rows: StoredRows, engine: str) -> Fold:
    """Return the function by which an engine answers a query about all rows.

    engine   name and address, see ``split_engine``; all but Dask and Spark are threads

    It raises what ``workers_of`` does.
    """
    name, address = split_engine(engine)
    if name == "spark":
        return _spark_fold(stored_rows, address)
    parallel_map, groups = workers_of(engine), range(len(stored_rows.groups))
    tasks = [groups[start::MAX_TASKS] for start in groups[:MAX_TASKS]]

    def fold(query: BatchQuery) -> Answer | None:
        work = partial(stored_rows.answer_batches, query)
        return merge_answers(query, parallel_map(work, tasks))

    return fold


def _spark_fold(stored_rows: StoredRows, address: str) -> Fold:
    session = spark_session(address)
    most = MAX_TASKS if address else 2 * (os.cpu_count() or 1)
    partitions = max(1, min(len(stored_rows.groups), most))

    def fold(query: BatchQuery) -> Answer | None:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            indices = (index for batch in batches for index in batch.column(0).to_pylist())
            yield pack(stored_rows.answer_batches(query, indices))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            contents = (content for batch in batches for content in batch.column(0).to_pylist())
            yield pack(merge_answers(query, map(pickle.loads, contents)))

        if not stored_rows.groups:
            return None
        # Added up on a worker, since all answers together may pass spark.driver.maxResultSize.
        indices = session.range(0, len(stored_rows.groups), 1, partitions)
        sums = indices.mapInArrow(count, PACKED).repartition(1).mapInArrow(add, PACKED)
        total: Answer | None = unpack(unwrap(sums.collect)[0])
        return total

    return fold
