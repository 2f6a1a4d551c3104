"""Refusals of questions that no engine or proof covers, from public numbers, before any charge.

Each raises BoundaryViolation, or DeclarationError for a column without declared bounds.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.counter import MAX_GRID_AXES, MAX_GRID_CELLS
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.gate.sparse_sampler import (
    MAX_CELLS,
    MAX_THRESHOLD_SCALES,
    expected_above_threshold,
)
from dp_pipeline.results.derived_attribute import MOST_DERIVED_CELLS, DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

MAX_EMPTY_CELLS = 1 << 20
"""Empty cells that noise may carry over a threshold on average."""


def require_table(domain: Domain, attributes: tuple[str, ...]) -> tuple[int, ...]:
    """Return the shape of a marginal."""
    _require_different(attributes, of="attributes of a marginal")
    require_size(domain.cell_count(attributes), of=f"the marginal of {', '.join(attributes)}")
    return domain.shape(attributes)


def _require_different(names: Sequence[str], *, of: str) -> None:
    if len(set(names)) < len(names):
        raise BoundaryViolation(f"The {of} must be different, not {', '.join(names)}")


def require_groupings(domain: Domain, groupings: Mapping[str, Grouping]) -> None:
    """Raise BoundaryViolation unless each attribute has a Grouping that merges neighbouring levels
    into groups 0, 1, … in order."""
    for name, grouping in groupings.items():
        if type(grouping) is not Grouping:
            raise BoundaryViolation(
                f"The groups of attribute {name} must be a Grouping, not {type(grouping).__name__}"
            )
        # The first group is 0: a step of 1 from −1.
        steps = np.diff(grouping.groups, prepend=-1)
        is_complete = len(steps) == domain[name].size and steps[0] == 1
        if not is_complete or not set(steps.tolist()) <= {0, 1}:
            raise BoundaryViolation(
                f"The groups of attribute {name} must be a number for each of its "
                f"{domain[name].size} levels, which begins at 0 and never falls or rises by more "
                "than 1 (as 0, 0, 1), but they are not"
            )


def require_derived(domain: Domain, derived: Mapping[str, DerivedAttribute]) -> None:
    """Raise BoundaryViolation unless each derived attribute has a new name and a group per cell.

    The cells are those of the attributes that it is derived from; no group is unused.
    """
    for name, attribute in derived.items():
        # A list could be changed between two questions.
        if not (
            type(attribute) is DerivedAttribute
            and type(name) is str
            and name not in domain.names
            and type(attribute.attributes) is tuple
            and type(attribute.groups) is tuple
        ):
            raise BoundaryViolation(
                f"The derived attribute {name} must be a DerivedAttribute of two tuples, with a "
                "text as its name that no attribute has, but it is not"
            )
        cells = domain.cell_count(attribute.attributes)
        is_integral = cells <= MOST_DERIVED_CELLS and all(
            type(group) is int for group in attribute.groups
        )
        used = set(attribute.groups) if is_integral else set()
        if not attribute.attributes:
            raise BoundaryViolation(
                f"The attribute {name} must be derived from others, not from none"
            )
        _require_different(attribute.attributes, of=f"attributes that {name} is derived from")
        if len(attribute.groups) != cells or used != set(range(len(used))) or not used:
            raise BoundaryViolation(
                f"The derived attribute {name} needs one of the groups 0, 1, …, none of them "
                f"without a cell, for each of at most {MOST_DERIVED_CELLS} cells, but its "
                f"{len(attribute.groups)} for {cells} cells are not so"
            )


def require_cells(domain: Domain, attributes: tuple[str, ...]) -> int:
    """Return the number of cells of a sparse table, 2^62 at most."""
    if not attributes:
        raise BoundaryViolation("A sparse table needs one or more attributes, but it has none")
    _require_different(attributes, of="attributes of a sparse table")
    cells = domain.cell_count(attributes)
    require_size(cells, of=f"the sparse table of {', '.join(attributes)}", most=MAX_CELLS)
    return cells


def require_sparse(
    domain: Domain, attributes: tuple[str, ...], *, threshold: int, scale: Fraction
) -> int:
    """Return the number of cells of a sparse table.

    threshold   integer from 1 to 2^32 scales, which noise carries at most 2^20 empty cells over on
                average
    scale       of the Laplace noise in every cell
    """
    cells = require_cells(domain, attributes)
    if type(threshold) is not int or not 1 <= threshold <= MAX_THRESHOLD_SCALES * scale:
        raise BoundaryViolation(
            "A threshold must be an integer from 1 to 2^32 noise scales, not "
            f"{threshold!r:.30} at scale {float(scale):.4g}"
        )
    if expected_above_threshold(cells, threshold, scale) > MAX_EMPTY_CELLS:
        raise BoundaryViolation(
            f"A threshold must stop all but {MAX_EMPTY_CELLS} empty cells on average, which "
            f"{threshold} does not at scale {float(scale):.4g} with {cells} cells"
        )
    return cells


def require_axes(domain: Domain, columns: tuple[str, ...]) -> None:
    domain.box(columns)
    if not columns:
        raise BoundaryViolation("A box needs one or more columns as axes, but it has none")
    _require_different(columns, of="axes of a box")


def require_grid(domain: Domain, columns: tuple[str, ...], cells_per_axis: int) -> None:
    require_axes(domain, columns)
    if len(columns) > MAX_GRID_AXES:
        raise BoundaryViolation(
            f"A grid must have at most {MAX_GRID_AXES} axes, not {len(columns)}"
        )
    if cells_per_axis < 1 or cells_per_axis ** len(columns) > MAX_GRID_CELLS:
        raise BoundaryViolation(
            f"A grid must have 1 to {MAX_GRID_CELLS} cells, not {cells_per_axis} on each of "
            f"{len(columns)} axes"
        )


def require_tree(domain: Domain, tree: BitTree) -> None:
    # A list could be changed between two questions: the same nodes would be other boxes.
    is_fixed = type(tree) is BitTree and all(type(x) is tuple for x in (tree.axes, tree.columns))
    if not is_fixed or not all(type(axis) is int for axis in tree.axes):
        raise BoundaryViolation(
            "The axes and columns of a bit tree must be tuples, the axes of integers, but those "
            f"of this {type(tree).__name__} are not"
        )
    require_axes(domain, tree.columns)
    tree.require_axes()


def require_nodes(tree: BitTree, nodes: Prefixes, bits: int) -> None:
    """Raise BoundaryViolation unless all nodes are in the tree, as are the at most 2^24 boxes
    ``bits`` levels below them."""
    # A session accounts by the keys and children of this type.
    if type(nodes) is not Prefixes:
        raise BoundaryViolation(
            f"The nodes of a bit tree must be Prefixes, not {type(nodes).__name__}"
        )
    # Shifted in fewer bits, a node would lose its first ones and be taken for another.
    require_int64(nodes.depths, of="tree nodes")
    require_int64(nodes.bits, of="tree nodes")
    tree.require_nodes(nodes, bits)
    require_size(len(nodes) << bits, of="tree nodes")


def require_disjoint(are_disjoint: bool) -> None:
    if not are_disjoint:
        raise BoundaryViolation(
            "Measured tree nodes must be disjoint, but some of these overlap: pass no box twice, "
            "and none inside another"
        )


def require_fan(bits: int) -> None:
    if bits not in (1, 2, 3, 4):
        raise BoundaryViolation(f"A split of tree nodes must have 1 to 4 bits, not {bits}")


def require_int64(values: IntArray, *, of: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
        got = f"a {type(values).__name__}"
        if isinstance(values, np.ndarray):
            got = f"{values.dtype} of shape {values.shape}"
        raise BoundaryViolation(f"The array of {of} must be a NumPy vector of int64, not {got}")


def require_rule(domain: Domain, rule: NearestCentre) -> None:
    require_axes(domain, rule.columns)
    rule.require_exact()


def require_classes(domain: Domain, rule: NearestCentre, attribute: str) -> None:
    require_rule(domain, rule)
    (levels,) = require_table(domain, (attribute,))
    require_size(levels * len(rule.centres), of="classes")


def require_subsets(domain: Domain, rules: Sequence[NearestCentre], salt: int) -> None:
    if not rules:
        raise BoundaryViolation("Cluster sums need one or more rules, but there is none")
    if not 0 <= salt < 1 << 63:
        raise BoundaryViolation(
            f"The salt of cluster sums must be in 0..2^63 − 1, not {salt!r:.30}"
        )
    for rule in rules:
        require_rule(domain, rule)
    kinds = {(rule.columns, rule.weights, len(rule.centres)) for rule in rules}
    if len(kinds) > 1:
        raise BoundaryViolation(
            "The rules of cluster sums must have the same columns, weights and number of centres, "
            "but they differ"
        )
    require_size(len(rules) * len(rules[0].centres), of="clusters")


def require_released(domain: Domain, released: Mapping[tuple[str, ...], IntArray]) -> None:
    for attributes, q in released.items():
        shape = require_table(domain, attributes)
        # Anything but int64 would make the sum a float, and rounding has no sensitivity.
        if q.dtype != np.int64 or q.min() < 0 or q.sum() != 1 << 16 or q.shape != shape:
            raise BoundaryViolation(
                f"A released table must be int64 ≥ 0 of shape {shape} with sum 2^16, not "
                f"{q.dtype} ≥ {q.min()} of shape {q.shape} with sum {q.sum()}"
            )


def require_size(cells: int, *, of: str, most: int = MAX_GRID_CELLS) -> None:
    if cells > most:
        raise BoundaryViolation(
            f"A question about {of} must have at most {most} counts, not {cells}"
        )
