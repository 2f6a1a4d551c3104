"""What tests of boxes share: every row there could be, and which boxes hold it."""

from __future__ import annotations

from itertools import product

import numpy as np

from dp_pipeline.anonymity.boxes import Box, BoxRecoding
from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.method import Method, Recoded
from dp_pipeline.anonymity.mondrian import Mondrian, Tree
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee, TooFewRows

CUTTING: list[Method] = [Mondrian(), Tree(least=1), Tree(least=4)]
BOXING: list[Method] = [*CUTTING, ClusterKAnonymity()]


def every_row(columns: tuple[Column, ...]) -> CodedRows:
    """One row for each way to fill in the columns, all of one label."""
    records = list(product(*(range(column.size) for column in columns)))
    codes = np.array(records, dtype=np.int64).reshape(len(records), len(columns))
    return CodedRows(columns, codes, np.zeros(len(codes), dtype=np.int64), ("any",))


def tried(method: Method, rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded | None:
    """What the method finds, or None where the promise cannot be kept."""
    try:
        return method.recode(rows, promise, seed=5)
    except TooFewRows:
        return None


def is_in(codes: tuple[int, ...], box: Box) -> bool:
    """Whether a box holds a row."""
    return all(code in allowed for code, allowed in zip(codes, box, strict=True))


def boxes_of(recoding: BoxRecoding, rows: CodedRows) -> list[Box]:
    """The box that each row is released as."""
    return [recoding.boxes[place] for place in recoding.finder.places(rows.codes).tolist()]
