"""Cell codes as bits: one 0/1 column a cell, written in parts, because bits are many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.tables import store_parts
from dp_pipeline.schema.domain import Attribute, Domain

_ROWS_A_PART = 1 << 16


def bit_names(attribute: Attribute) -> tuple[str, ...]:
    """``attribute=label`` of every cell, in code order.

    >>> from dp_pipeline.schema.encoding import Levels
    >>> bit_names(Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))))
    ('sex=f', 'sex=m')
    """
    return tuple(f"{attribute.name}={label}" for label in attribute.labels())


def store_one_hot(domain: Domain, snapshot: Snapshot, codes: pa.Table) -> None:
    """Store the stage ``one_hot`` of a table of codes."""
    names = [name for a in domain.discrete for name in bit_names(domain[a])]
    schema = pa.schema([(name, pa.uint8()) for name in names])
    store_parts(snapshot, "one_hot", schema, _parts(domain, codes, schema))


def _parts(domain: Domain, codes: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    for start in range(0, codes.num_rows, _ROWS_A_PART):
        part = codes.slice(start, _ROWS_A_PART)
        bits = []
        for name in domain.discrete:
            column = part.column(name).to_numpy()
            bits += [
                pa.array((column == code).astype(np.uint8)) for code in range(domain[name].size)
            ]
        yield pa.Table.from_arrays(bits, schema=schema)
