"""Buying how good a released table is: its marginals, and what classifiers learn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import hypot

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.predicted_label import PredictedLabel
from dp_pipeline.metrics.classification import train
from dp_pipeline.metrics.marginals import ways_of
from dp_pipeline.release.budget import split
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.target import Target

BOUGHT_WAYS = (2, 3)
"""Sizes of the marginals whose average distance is bought; larger ones have too many cells."""

MOST_CELLS = 1 << 22
"""Cells of all marginals of one size together; of the sampled ones, those that fit count."""

ROWS_WEIGHT = Fraction(1, 4)
"""Weight of the number of rows beside 1 for each number: it moves a distance little."""


def buy_table_quality(
    curator: Curator, table: SyntheticTable, *, epsilon: Fraction, targets: Sequence[Target]
) -> dict[str, NoisyNumber]:
    """``avd_2``, ``avd_3`` and ``misclassified_logistic/<attribute>`` of every target that the
    table has. Spends exactly ``epsilon``, the same on each of them.

    ``avd_2`` is of the attributes one by one where no pair of them fits; no ``avd_3`` is bought
    where no three do.
    """
    ways = _ways(curator.domain, table.attributes)
    asked = [target for target in targets if target.attribute in table.attributes]
    weights = [ROWS_WEIGHT] + [Fraction(1)] * (len(ways) + len(asked))
    of_rows, *parts = split(epsilon, weights)
    counted = int(curator.measure((), epsilon=of_rows).table)
    rows = NoisyNumber(max(1, counted), float(curator.reach / of_rows), "rows")
    distances = {
        name: _buy_distance(curator, table, chosen, rows, part)
        for (name, chosen), part in zip(ways.items(), parts[: len(ways)], strict=True)
    }
    mistakes = {
        f"misclassified_logistic/{target.attribute}": _buy_mistakes(curator, table, target, part)
        for target, part in zip(asked, parts[len(ways) :], strict=True)
    }
    return distances | mistakes


def _ways(domain: Domain, attributes: tuple[str, ...]) -> Mapping[str, list[tuple[str, ...]]]:
    """Metric → marginals that it is the mean over."""
    found = {f"avd_{k}": _fitting(domain, ways_of(attributes, k)) for k in BOUGHT_WAYS}
    found["avd_2"] = found["avd_2"] or [(name,) for name in attributes]
    return {name: ways for name, ways in found.items() if ways}


def _fitting(domain: Domain, ways: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those that are counted together with the ones before them in at most ``MOST_CELLS``."""
    chosen, left = [], MOST_CELLS
    for way in ways:
        cells = domain.cell_count(way)
        if cells <= left:
            chosen.append(way)
            left -= cells
    return chosen


def _buy_distance(
    curator: Curator,
    table: SyntheticTable,
    ways: Sequence[tuple[str, ...]],
    rows: NoisyNumber,
    epsilon: Fraction,
) -> NoisyNumber:
    """Total variation distance to the true table, averaged over marginals: ½Σ|c − n·q|/n.

    One row moves the average of ½Σ|c − n·q| by at most 1.
    """
    released = {way: whole_parts(table.probabilities(way)) for way in ways}
    error = int(curator.measure_marginal_error(released, epsilon=epsilon))
    value = min(1.0, max(0.0, error / (len(ways) << 17) / rows.value))
    # Var(S/n) ≈ (Var S + (S/n)² Var n)/n², to first order.
    scale = hypot(float(curator.reach / epsilon), value * rows.scale) / rows.value
    return NoisyNumber(value, scale, "share")


def _buy_mistakes(
    curator: Curator, table: SyntheticTable, target: Target, epsilon: Fraction
) -> NoisyNumber:
    """Share of the true rows that logistic regression, learned from the synthetic ones, gets
    wrong.

    The released table has seen all rows, so none is held out: the number is of the table, not
    of rows to come.
    """
    domain = curator.domain
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
    seen, answers = target.asked_of(codes, domain)
    sizes = {name: domain[name].size for name in seen}
    classifier = train("logistic", seen, answers, sizes)
    rule = PredictedLabel.of(classifier, target=target.attribute, positive=target.codes(domain))
    right, wrong = curator.measure_mistakes(rule, epsilon=epsilon).tolist()
    rows = max(1, right + wrong)
    value = min(1.0, max(0.0, wrong / rows))
    # ∂/∂wrong = (1 − v)/n and ∂/∂right = −v/n: both cells have the same noise.
    scale = float(curator.reach / epsilon) * hypot(value, 1 - value) / rows
    return NoisyNumber(value, scale, "share")


def whole_parts(probabilities: FloatArray) -> IntArray:
    """Probabilities as whole numbers of 2^-16 that add up to 2^16: the largest remainders get
    what rounding down has left. On Adult's triples that moves an average by less than 0.0003.
    """
    scaled = probabilities * (1 << 16)
    parts = np.floor(scaled).astype(np.int64)
    missing = (1 << 16) - int(parts.sum())
    order = np.argsort((parts - scaled).ravel(), kind="stable")
    flat = parts.ravel()
    flat[order[:missing]] += 1
    return flat.reshape(probabilities.shape)
