"""Declared constraints: combinations of cells that no row has.

Preparation drops each row that breaks one, so one more row is still at most one more row. A fit
gives such cells no mass: they are known to be empty, at no cost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray, Names

Mask = NDArray[np.bool_]

MAX_CONSTRAINT_CELLS = 1 << 20
"""Cells over the attributes of one constraint, at most."""

Box = tuple[tuple[int, ...], ...]
"""Codes of every attribute of a constraint."""


@dataclass(frozen=True)
class Constraint:
    """A declared constraint on the combinations of attributes that rows may have.

    words        text for people
    attributes   two or more, in declared order
    boxes        sets of cells: a row is in one if the code of each attribute is among its codes
    is_only      whether every row is in one of the boxes; else no row is in any

    >>> never = Constraint("no child drives", ("age", "drives"), (((0,), (1,)),), is_only=False)
    >>> never.mask((3, 2)).tolist()
    [[True, False], [True, True], [True, True]]
    """

    words: str
    attributes: Names
    boxes: tuple[Box, ...]
    is_only: bool

    def mask(self, shape: tuple[int, ...]) -> Mask:
        """Return a mask of the allowed cells, of the shape of the attributes' marginal."""
        inside = np.zeros(shape, dtype=np.bool_)
        for box in self.boxes:
            inside[np.ix_(*box)] = True
        return inside if self.is_only else ~inside

    @property
    def measured(self) -> dict[str, Any]:
        """The fields of the constraint that change a measurement, by name."""
        return {"attributes": self.attributes, "boxes": self.boxes, "is_only": self.is_only}


@dataclass(frozen=True, eq=False)
class AllowedCells:
    """The cells of some attributes that all constraints together allow.

    names    two or more
    mask     True for the allowed cells: at least one, and not all
    """

    names: Names
    mask: Mask

    def holds(self, codes: Mapping[str, IntArray]) -> Mask:
        """Return a mask (n,) of the rows in allowed cells.

        codes   attribute → codes (n,), none of them negative
        """
        keys = np.zeros(len(codes[self.names[0]]), dtype=np.int64)
        for name, size in zip(self.names, self.mask.shape, strict=True):
            keys = keys * size + codes[name]
        return self.mask.ravel()[keys]

    @cached_property
    def twin(self) -> IntArray | None:
        """The second attribute's code for each code of the first (levels,), in code order.

        None unless there are two attributes and each decides the other.
        """
        is_pair = len(self.names) == 2 and self.mask.shape[0] == self.mask.shape[1]
        if not is_pair or (self.mask.sum(axis=0) != 1).any() or (self.mask.sum(axis=1) != 1).any():
            return None
        return np.asarray(self.mask.argmax(axis=1), dtype=np.int64)


def allowed_cells(
    constraints: Iterable[Constraint], names: Names, sizes: Mapping[str, int]
) -> tuple[AllowedCells, ...]:
    """Return the allowed cells of each set of ``names`` that constraints relate.

    names   in any order; a constraint with further attributes allows a cell if it allows it with
            some cell of those
    sizes   number of cells of every constrained attribute

    A set has two or more attributes; one whose cells are all allowed is left out.

    >>> never = Constraint("no child drives", ("age", "drives"), (((0,), (1,)),), is_only=False)
    >>> sizes = {"drives": 2, "age": 3, "sex": 2}
    >>> [cells.names for cells in allowed_cells([never], tuple(sizes), sizes)]
    [('age', 'drives')]
    """
    masks: dict[Names, Mask] = {}
    for constraint in constraints:
        present = tuple(name for name in constraint.attributes if name in names)
        if len(present) < 2:
            continue
        names_of_axes = constraint.attributes
        absent = tuple(axis for axis, name in enumerate(names_of_axes) if name not in present)
        mask = constraint.mask(tuple(sizes[name] for name in names_of_axes)).any(axis=absent)
        masks[present] = masks[present] & mask if present in masks else np.asarray(mask)
    return tuple(AllowedCells(names, mask) for names, mask in masks.items() if not mask.all())


def constrained_pairs(allowed: Iterable[AllowedCells]) -> tuple[tuple[str, str], ...]:
    """Return the distinct pairs of attributes that a constraint relates, as edges of a graph."""
    pairs = (pair for cells in allowed for pair in combinations(cells.names, 2))
    return tuple(dict.fromkeys(pairs))
