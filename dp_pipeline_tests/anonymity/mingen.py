"""MinGen: the oracle. A search of a whole toy lattice of generalisations, in loops over rows.

Source: Sweeney, "Achieving k-anonymity privacy protection using generalization and suppression"
(2002). It walks every node, so it is for a handful of columns of a handful of levels.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee

Record = tuple[int, ...]

Hierarchy = tuple[tuple[int, ...], ...]
"""One entry a height, from 0 for values as they are to one group of all: the group of each code."""

Node = tuple[int, ...]
"""A height for every column."""


def halving(column: Column) -> Hierarchy:
    """Neighbouring groups are joined in pairs until there is one group."""
    heights = [tuple(range(column.size))]
    while len(set(heights[-1])) > 1:
        heights.append(tuple(group // 2 for group in heights[-1]))
    return tuple(heights)


def whole_or_hidden(column: Column) -> Hierarchy:
    """Values as they are, or all of them as one: what a selection of columns can do."""
    return tuple(range(column.size)), (0,) * column.size


def keeps(records: Sequence[Record], labels: Sequence[int], guarantee: KAnonymityGuarantee) -> bool:
    """Whether every record is released together with enough equal ones: the definition."""
    if guarantee.is_empty:
        return True
    for record in records:
        twins = [at for at, other in enumerate(records) if other == record]
        if len(twins) < guarantee.k or len({labels[at] for at in twins}) < guarantee.diversity:
            return False
    return True


def is_anonymous(rows: CodedRows, guarantee: KAnonymityGuarantee) -> bool:
    """``keeps`` of released rows."""
    return keeps([tuple(codes) for codes in rows.codes.tolist()], rows.target.tolist(), guarantee)


def generalised(rows: CodedRows, hierarchies: Sequence[Hierarchy], node: Node) -> list[Record]:
    """The records with each column at the height that a node gives it."""
    return [
        tuple(hierarchies[at][node[at]][code] for at, code in enumerate(codes))
        for codes in rows.codes.tolist()
    ]


def minimal_generalisations(
    rows: CodedRows, hierarchies: Sequence[Hierarchy], guarantee: KAnonymityGuarantee
) -> set[Node]:
    """The nodes that keep the guarantee and have no node below them that does, however far."""
    lattice = list(product(*(range(len(hierarchy)) for hierarchy in hierarchies)))
    labels = rows.target.tolist()
    keeping = [
        node for node in lattice if keeps(generalised(rows, hierarchies, node), labels, guarantee)
    ]
    return {node for node in keeping if not any(_below(node, keeping))}


def _below(node: Node, others: Sequence[Node]) -> Iterator[bool]:
    for other in others:
        yield other != node and all(low <= high for low, high in zip(other, node, strict=True))
