"""The harder questions of the Counter port as loops over rows, in Python's own whole numbers."""

from collections.abc import Mapping, Sequence

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.results.trees import BitTree, Prefixes

Place = tuple[int, ...]
"""Fixed-point coordinates of one row, in the order of the question's columns."""

EDGE = 1 << 16
WORD = (1 << 64) - 1


def distance(rule: NearestCentre, place: Place, centre: Place) -> int:
    return sum((w * (q - c)) ** 2 for w, q, c in zip(rule.weights, place, centre, strict=True))


def nearest(rule: NearestCentre, place: Place) -> int:
    """The first of the nearest centres."""
    distances = [distance(rule, place, centre) for centre in rule.centres]
    return distances.index(min(distances))


def subset(place: Place, salt: int, subsets: int) -> int:
    return hash_of(place, salt) % subsets


def hash_of(place: Place, salt: int) -> int:
    """SplitMix64's finaliser once a coordinate."""
    state = salt
    for q in place:
        state = (state + q + 0x9E3779B97F4A7C15) & WORD
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
        state ^= state >> 31
    return state


def path(tree: BitTree, place: Place) -> list[int]:
    """The bits of a place, by halving its box."""
    lower, width, bits = [-EDGE] * len(place), [2 * EDGE] * len(place), []
    for axis in tree.axes:
        width[axis] //= 2
        # The upper edge of the box is in its last cell.
        bits.append(int(min(place[axis], EDGE - 1) >= lower[axis] + width[axis]))
        lower[axis] += bits[-1] * width[axis]
    return bits


def children(places: Sequence[Place], tree: BitTree, nodes: Prefixes, bits: int) -> IntArray:
    counts = np.zeros((len(nodes), 1 << bits), dtype=np.int64)
    asked = list(zip(nodes.depths.tolist(), nodes.bits.tolist(), strict=True))
    positions: dict[tuple[int, int], list[int]] = {}
    for at, node in enumerate(asked):
        positions.setdefault(node, []).append(at)
    for place in places:
        below = path(tree, place)
        for depth in {depth for depth, _ in asked}:
            for at in positions.get((depth, _number(below[:depth])), []):
                counts[at, _number(below[depth : depth + bits])] += 1
    return counts


def _number(bits: Sequence[int]) -> int:
    return int("".join(map(str, bits)) or "0", 2)


def sum_by_centre(
    places: Sequence[Place], rules: Sequence[NearestCentre], *, salt: int
) -> IntArray:
    d, k = len(rules[0].columns), len(rules[0].centres)
    sums = np.zeros((len(rules), k, 1 + d), dtype=np.int64)
    for place in places:
        at = subset(place, salt, len(rules))
        sums[at, nearest(rules[at], place)] += (1, *place)
    return sums


def residuals(places: Sequence[Place], rule: NearestCentre, radii: tuple[int, ...]) -> IntArray:
    sums = np.zeros((len(rule.centres), len(rule.columns)), dtype=np.int64)
    for place in places:
        at = nearest(rule, place)
        y = [w * (q - c) for w, q, c in zip(rule.weights, place, rule.centres[at], strict=True)]
        longest = max(sum(map(abs, y)), radii[at])
        sums[at] += [(abs(a) * EDGE // longest) * (1 if a > 0 else -1) for a in y]
    return sums


def classify(
    places: Sequence[Place], codes: Sequence[int], rule: NearestCentre, levels: int
) -> IntArray:
    table = np.zeros((levels, len(rule.centres)), dtype=np.int64)
    for place, code in zip(places, codes, strict=True):
        table[code, nearest(rule, place)] += 1
    return table


def mistakes(rows: Sequence[Mapping[str, int]], rule: PredictedLabel) -> IntArray:
    """Right and wrong answers about rows of attribute → code."""
    right = 0
    for row in rows:
        looked_at = zip(rule.columns, rule.weights, strict=True)
        total = rule.intercept + sum(weights[row[name]] for name, weights in looked_at)
        right += (total > 0) == (row[rule.target] in rule.positive)
    return np.array([right, len(rows) - right], dtype=np.int64)
