"""A hospital ward of nine rows in three classes, and all measures of a table by slow loops."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

Row = tuple[tuple[int, ...], int]

FLU, COLD, HIV, LABELS = 0, 1, 2, 4
"""Of four declared labels one does not occur."""

YOUNG_WOMEN = [((0, 0), FLU), ((0, 0), FLU), ((0, 0), COLD), ((0, 0), HIV)]
YOUNG_MEN = [((0, 1), FLU), ((0, 1), FLU)]
OLD_MEN = [((1, 1), COLD), ((1, 1), COLD), ((1, 1), HIV)]
WARD: list[Row] = [*YOUNG_WOMEN, *YOUNG_MEN, *OLD_MEN]


def arrays(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, m) and labels (n,)."""
    codes = np.array([codes for codes, _ in rows], dtype=np.int64).reshape(len(rows), -1)
    return codes, np.array([label for _, label in rows], dtype=np.int64)


def measures_by_loops(
    rows: Sequence[Row], *, labels: int, ordered: bool, k: int
) -> dict[str, float]:
    """Every definition as it is written, in exact fractions until the end; at least one row."""
    classes = {codes: [label for other, label in rows if other == codes] for codes, _ in rows}
    p = _shares([label for _, label in rows], labels)
    qs = {codes: _shares(labels_, labels) for codes, labels_ in classes.items()}
    occurring = [label for label in range(labels) if p[label]]
    logs = {
        codes: [abs(math.log(q[s] / p[s])) if q[s] else math.inf for s in occurring]
        for codes, q in qs.items()
    }
    binary = {code for codes, _ in rows for code in codes} <= {0, 1}
    measures = {
        "rows": len(rows),
        "classes": len(classes),
        "promised_k": k,
        "k": min(len(labels_) for labels_ in classes.values()),
        "rows_in_small_classes": sum(len(classes[codes]) < k for codes, _ in rows),
        "highest_risk": max(Fraction(1, len(classes[codes])) for codes, _ in rows),
        "mean_risk": sum(Fraction(1, len(classes[codes])) for codes, _ in rows) / len(rows),
        "alpha": max(max(q) for q in qs.values()),
        "distinct_l": min(len(set(labels_)) for labels_ in classes.values()),
        "entropy_l": min(math.exp(-sum(x * math.log(x) for x in q if x)) for q in qs.values()),
        "recursive_c": max(recursive_by_loops(labels_, 2) for labels_ in classes.values()),
        "homogeneous_rows": sum(len(set(classes[codes])) == 1 for codes, _ in rows),
        "t_closeness": max(_half_of_differences(q, p) for q in qs.values()),
        "ordered_t_closeness": max(_earth_moved(q, p) for q in qs.values())
        if ordered
        else math.nan,
        "delta_disclosure": max(max(log) for log in logs.values()),
        "present_delta_disclosure": max(x for log in logs.values() for x in log if x < math.inf),
        "beta_likeness": max((q[s] - p[s]) / p[s] for q in qs.values() for s in occurring),
        "containment_k": containment_by_loops([codes for codes, _ in rows]) if binary else math.nan,
    }
    return {name: float(value) for name, value in measures.items()}


def recursive_by_loops(labels: Sequence[int], diversity: int) -> float:
    """r_1/(r_l + … + r_m) of one class."""
    counts = sorted((labels.count(label) for label in set(labels)), reverse=True)
    remaining = sum(counts[diversity - 1 :])
    return counts[0] / remaining if remaining else math.inf


def containment_by_loops(table: Sequence[tuple[int, ...]]) -> int:
    """Fewest rows that have all the ones of some row."""
    numbers = [{index for index, bit in enumerate(row) if bit} for row in table]
    return min(sum(number <= other for other in numbers) for number in numbers)


def _shares(labels_: Sequence[int], labels: int) -> list[Fraction]:
    return [Fraction(list(labels_).count(label), len(labels_)) for label in range(labels)]


def _half_of_differences(q: Sequence[Fraction], p: Sequence[Fraction]) -> Fraction:
    return sum((abs(x - y) for x, y in zip(q, p, strict=True)), Fraction(0)) / 2


def _earth_moved(q: Sequence[Fraction], p: Sequence[Fraction]) -> Fraction:
    carried = [abs(sum(q[: index + 1]) - sum(p[: index + 1])) for index in range(len(p))]
    return sum(carried, Fraction(0)) / max(1, len(p) - 1)
