"""Private quality numbers of a release on its true rows, for an ε that is reserved with its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import hypot, isnan, sqrt

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray
from dp_pipeline.config.sections import Target
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.gate.table_curator import error_shift
from dp_pipeline.inference.consistency import project_to_simplex
from dp_pipeline.metrics.auc import ClassAuc, adjusted_rand, f_measure
from dp_pipeline.metrics.classification import train
from dp_pipeline.metrics.marginals import attribute_sets, redraw_error
from dp_pipeline.results.accountant import split
from dp_pipeline.results.bit_classes import CLASS
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.synthetic_table import SyntheticTable

ROWS_SHARE = Fraction(1, 4)
"""Share of ε for the number of rows; the rest goes to the sum that is divided by it."""

CLASSES_SHARE = Fraction(1, 2)
"""Share of ε for the class × cluster table, whose total is the number of rows."""

CLIP_QUANTILE = 0.98
"""Share of a synopsis' weight within the distance at which rows are clipped."""

SQUARED_UNITS = "squared data units"


def private_cluster_quality(
    curator: Curator, clusters: Clusters, *, epsilon: Fraction, label: str | None
) -> dict[str, NoisyNumber]:
    """Spend ``epsilon`` and return the noisy quality numbers of clusters by name.

    ``nicv`` is the mean squared distance, clipped, of a row to its nearest centre. With a label,
    ``f_label`` and ``ari_label`` say how clusters and label agree: F measure, adjusted Rand index.
    """
    rule = NearestCentre.of(
        clusters.columns, clusters.centres, curator.domain.box(clusters.columns)
    )
    share = ROWS_SHARE if label is None else CLASSES_SHARE
    of_total, of_rest = split(epsilon, [1 - share, share])
    total = _private_total_distance(curator, clusters, rule, of_total)
    scale = float(curator.distance / of_rest)
    if label is None:
        rows = int(curator.measure((), epsilon=of_rest).table)
        return {"nicv": _mean(total, NoisyNumber(rows, scale, "rows"))}
    class_counts = curator.measure_classes(rule, label, epsilon=of_rest)
    # The total of m cells has √m times the noise of one; a count of its own would cost more.
    rows = int(class_counts.sum())
    return {
        "nicv": _mean(total, NoisyNumber(rows, scale * sqrt(class_counts.size), "rows")),
        "f_label": _agreement(f_measure, class_counts, scale),
        "ari_label": _agreement(adjusted_rand, class_counts, scale),
    }


def _private_total_distance(
    curator: Curator, clusters: Clusters, rule: NearestCentre, epsilon: Fraction
) -> NoisyNumber:
    """Return the noisy sum over rows of the squared distance to the nearest centre, clipped at B.

    B is far below the box's diagonal, so the noise is small; rows beyond B bias the sum downwards
    (by up to 8 % on trips).
    """
    box = curator.domain.box(clusters.columns)
    unit = rule.unit_in(box) ** 2
    if clusters.synopsis is None:
        reach = _widest_gap(clusters.centres, box)
    else:
        reach = _quantile_of_synopsis(clusters.centres, clusters.synopsis)
    clip = max(1, int(reach / unit))
    # 20 bits a row: finer ones would drown in noise, and the total stays far below 2^63.
    shift = max(0, clip.bit_length() - 20)
    total = curator.measure_distance(rule, clip=clip, shift=shift, epsilon=epsilon)
    coarse = unit * (1 << shift)
    scale = float((clip >> shift) * curator.distance / epsilon)
    return NoisyNumber(int(total) * coarse, scale * coarse, SQUARED_UNITS)


def _quantile_of_synopsis(centres: FloatArray, synopsis: Synopsis) -> float:
    """Return the squared distance to the nearest centre within which ``CLIP_QUANTILE`` of a
    synopsis' weight lies, plus the square of half a box's diagonal there."""
    middles, weights = synopsis.middles, synopsis.weights.clip(min=0)
    distances = np.min([((middles - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
    boxes = ((synopsis.upper - synopsis.lower) ** 2).sum(axis=1) / 4
    order = np.argsort(distances)
    passed = np.cumsum(weights[order])
    last = np.searchsorted(passed, CLIP_QUANTILE * passed[-1])
    # A box's rows are up to half its diagonal from its middle.
    return float(distances[order][last] + boxes[order][last])


def _widest_gap(centres: FloatArray, box: tuple[Coordinate, ...]) -> float:
    """Return the largest squared distance from a centre to its nearest other centre.

    Where all centres are equal, it is that of half the box's diagonal."""
    places = np.unique(centres, axis=0)
    if len(places) == 1:
        return sum(interval.half_width**2 for interval in box)
    # Places differ, so the least distance of each, 0, is to itself.
    distances = [np.partition(((places - place) ** 2).sum(axis=1), 1)[1] for place in places]
    return float(max(distances))


def _mean(total: NoisyNumber, rows: NoisyNumber) -> NoisyNumber:
    """Return the noisy mean total/rows ≥ 0, with the scale of Laplace noise of equal deviation.

    Var(S/n) ≈ (Var S + (S/n)² Var n)/n² to first order, while n is far above its noise.
    """
    n = max(1.0, rows.value)
    value = max(0.0, total.value / n)
    return NoisyNumber(value, hypot(total.scale, value * rows.scale) / n, total.unit)


def _agreement(
    metric: Callable[[FloatArray], float], noisy_table: IntArray, scale: float
) -> NoisyNumber:
    """Return a metric of ``_nearest_counts`` of a noisy table, as a share; 0 where it is NaN.

    Its scale is that of Laplace noise with the same deviation as the metric's error, which is
    estimated by redrawing the noise of the cells.

    metric   a function of a table of integers ≥ 0
    scale    Laplace scale of the noise in one cell, in rows
    """

    def estimate(table: FloatArray) -> float:
        value = metric(_nearest_counts(table))
        return 0.0 if isnan(value) else value

    denoised = _nearest_counts(noisy_table)
    error = redraw_error(estimate, denoised, scale=scale)
    return NoisyNumber(estimate(denoised), error / sqrt(2), "share")


def _nearest_counts(table: FloatArray | IntArray) -> FloatArray:
    """Return the nearest table of cells ≥ 0 with the same total, in L2, then each cell rounded to
    the nearest integer; all 0 for a total ≤ 0.

    Rounding may change the total a little.

    Negative cells set to 0 alone would leave the positive half of the noise, and with it twice the
    error at ε = 0.1 (unbalance).
    """
    total = float(table.sum())
    if total <= 0:
        return np.zeros(table.shape)
    return np.rint(project_to_simplex(table, total))


PAID_MARGINAL_SIZES = (2, 3)
"""Sizes of the marginals whose mean distance is measured; larger ones have too many cells."""

MAX_CELLS = 1 << 22
"""Cells of all measured marginals of one size together, at most."""

ROWS_WEIGHT = Fraction(1, 4)
"""Weight of the number of rows in ε, where each quality number has 1: it matters little."""


def private_table_quality(
    curator: Curator, table: SyntheticTable, *, epsilon: Fraction, targets: Sequence[Target]
) -> dict[str, NoisyNumber]:
    """Spend ``epsilon`` and return the noisy quality numbers of a synthetic table by name.

    ``avd_2`` and ``avd_3`` are mean distances between its marginals of two and three attributes and
    those of the true rows, over as many as fit ``MAX_CELLS`` together.
    ``misclassified_logistic/<attribute>`` is the error rate on true rows of a classifier that is
    fitted to the synthetic ones. ``avd_2`` is of single attributes where no pair fits; there is no
    ``avd_3`` where no triple does. Targets that the table does not have are left out.
    """
    marginals = {
        k: _countable(curator.domain, attribute_sets(table.attributes, k))
        for k in PAID_MARGINAL_SIZES
    }
    marginals[2] = marginals[2] or [(name,) for name in table.attributes]
    marginals = {k: names for k, names in marginals.items() if names}
    predicted = [target for target in targets if target.attribute in table.attributes]
    weights = [ROWS_WEIGHT] + [Fraction(1)] * (len(marginals) + len(predicted))
    of_rows, *parts = split(epsilon, weights)
    row_count = int(curator.measure((), epsilon=of_rows).table)
    rows = NoisyNumber(max(1, row_count), float(curator.distance / of_rows), "rows")
    distances = dict[str, NoisyNumber]()
    for (k, names), part in zip(marginals.items(), parts[: len(marginals)], strict=True):
        released = {names: fixed_point_shares(table.probabilities(names)) for names in names}
        error = int(curator.measure_marginal_error(released, epsilon=part))
        # One row moves the mean of ½Σ|c − n·q| by at most 1.
        denominator = (len(names) << 17) >> error_shift(len(names))
        value = min(1.0, max(0.0, error / denominator / rows.value))
        # Var(S/n) ≈ (Var S + (S/n)² Var n)/n², to first order.
        spread = hypot(float(curator.distance / part), value * rows.scale) / rows.value
        distances[f"avd_{k}"] = NoisyNumber(value, spread, "share")
    mistakes = {
        f"misclassified_logistic/{target.attribute}": _private_mistakes(
            curator, table, target, part
        )
        for target, part in zip(predicted, parts[len(marginals) :], strict=True)
    }
    return distances | mistakes


def _countable(domain: Domain, marginals: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    chosen, remaining = [], MAX_CELLS
    for names in marginals:
        cells = domain.cell_count(names)
        if cells <= remaining:
            chosen.append(names)
            remaining -= cells
    return chosen


def _private_mistakes(
    curator: Curator, table: SyntheticTable, target: Target, epsilon: Fraction
) -> NoisyNumber:
    """Return the noisy share of true rows that a classifier fitted on synthetic rows misclassifies.

    All rows went into the release, so none is held out: the share says nothing of rows to come.
    """
    domain = curator.domain
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
    seen, answers = target.classification_task(codes, domain)
    sizes = {name: domain[name].size for name in seen}
    classifier = train("logistic", seen, answers, sizes)
    rule = PredictedLabel.of(classifier, target=target.attribute, positive=target.codes(domain))
    right, wrong = curator.measure_mistakes(rule, epsilon=epsilon).tolist()
    rows = max(1, right + wrong)
    value = min(1.0, max(0.0, wrong / rows))
    # ∂/∂wrong = (1 − v)/n and ∂/∂right = −v/n: both cells have the same noise.
    scale = float(curator.distance / epsilon) * hypot(value, 1 - value) / rows
    return NoisyNumber(value, scale, "share")


def fixed_point_shares(probabilities: FloatArray) -> IntArray:
    """Return probabilities of sum 1 as integer multiples of 1/2^16, which add up to 2^16.

    On Adult's triples that moves a mean distance by less than 0.0003.
    """
    scaled = probabilities.ravel() * (1 << 16)
    parts = np.floor(scaled).astype(np.int64)
    missing = (1 << 16) - int(parts.sum())
    parts[np.argsort(parts - scaled, kind="stable")[:missing]] += 1
    return parts.reshape(probabilities.shape)


PUBLISHED = "published class"
"""Derived attribute: the index of a row's published class; all other classes are the last one."""


def private_class_quality(
    curator: Curator, table: ClassTable, *, epsilon: Fraction
) -> dict[str, NoisyNumber]:
    """Spend ``epsilon``; return ``auc_class_rate/<label>``, the noisy AUC of a class table's rates.

    The AUC is against the true labels; where it is undefined, it is 0.5 with the scale 0.5. Rows of
    all unpublished classes share one rate. The table of labels by published class, the other
    classes as one, is measured once more: one row is in one cell, Δ1 = 1 a row. The released counts
    cannot say how good their own rates are.

    The unpublished may be a single class of few persons, whose counts could be computed from this
    AUC. So they must be as large as a published class, by this noise, or are left out; what they
    could change is added to the scale. A class of fewer than K persons that is withheld alone is in
    the AUC with a probability of at most β.
    """
    counts, left_out = _measure_classes(curator, table, epsilon)
    auc = ClassAuc.of(counts, table.rates)
    if np.isnan(auc.value):
        # No information: the AUC of guessing, with the largest possible error.
        return {f"auc_class_rate/{table.label}": NoisyNumber(0.5, 0.5, "share")}
    # To first order, with the same noise in every cell; the error of an AUC is at most 1.
    scale = float(curator.distance / epsilon) * float(np.sqrt((auc.gradient**2).sum()))
    scale += left_out * float(np.abs(auc.gradient[-1]).max())
    value = min(1.0, max(0.0, auc.value))
    return {f"auc_class_rate/{table.label}": NoisyNumber(value, min(1.0, scale), "share")}


def _measure_classes(
    curator: Curator, table: ClassTable, epsilon: Fraction
) -> tuple[np.ndarray, int]:
    """Return noisy counts by class and label, (p + 1, C), and a bound on the rows left out of them.

    The last class unites all unpublished classes; its counts are 0 where their rows are too few.
    """
    classes = table.classes
    view = curator.with_attributes(classes.derived_groups())
    view = view.with_attributes(classes.derived_class())
    places = tuple(table.places.tolist())
    view = view.with_attributes({PUBLISHED: DerivedAttribute((CLASS,), places)})
    noisy = view.measure((table.label, PUBLISHED), epsilon=epsilon)
    counts, published = noisy.table.T, len(table.published)
    least = replace(table.promise, rows=curator.distance, scale=noisy.scale).least_size
    if counts[published:].sum() >= least:
        return counts, 0
    nothing = np.zeros((1, counts.shape[1]), dtype=np.int64)
    return np.vstack([counts[:published], nothing]), (len(counts) - published) * least


def private_quality(
    curator: Curator,
    released: Clusters | SyntheticTable | ClassTable,
    *,
    epsilon: Fraction,
    label: str | None = None,
    targets: Sequence[Target] = (),
) -> dict[str, NoisyNumber]:
    """Spend exactly ``epsilon`` and return the noisy quality numbers of one release by name.

    label     of clusters alone: the attribute with levels that they are compared with, or None
    targets   of a synthetic table alone: attributes that classifiers predict after learning from it
    """
    if isinstance(released, Clusters):
        return private_cluster_quality(curator, released, epsilon=epsilon, label=label)
    if isinstance(released, ClassTable):
        return private_class_quality(curator, released, epsilon=epsilon)
    return private_table_quality(curator, released, epsilon=epsilon, targets=targets)
