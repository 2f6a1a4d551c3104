"""Exact answers about released tables, for internal evaluation: the steward's side only.

See ``raw.comparison`` for who may see the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.metrics.classification import Method, misclassification, train
from dp_pipeline.metrics.closest_record import distance_to_closest_record
from dp_pipeline.metrics.marginals import average_distance, ways_of
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.target import Target

COMPARED_WAYS = (2, 3, 5, 6)
"""Sizes of the marginals whose average distance is stated, as in the papers."""

METHODS: tuple[Method, ...] = ("svm", "logistic")

Codes = Mapping[str, IntArray]
"""Attribute → codes (rows,)."""


def table_quality(
    spec: DatasetSpec, snapshot: Snapshot, released: Codes, *, classify: bool = True
) -> dict[str, float]:
    """How good a released table is on the prepared rows.

    released   synthetic codes of some declared attributes, at least one
    classify   whether classifiers learn the declared targets: it takes seconds each

    ``avd_k`` for k = 2, 3, 5, 6 where there are as many attributes (``avd_2`` of one attribute is
    its own distance): average k-way variation distance. ``misclassified_svm/<attribute>`` and
    ``misclassified_logistic/<attribute>`` of every declared target among them: learned from the
    released rows, tested on all prepared ones, of which the release has seen every one.
    ``dcr``: distance to the closest record. NaN with no prepared rows.

    NotPrepared unless the snapshot is prepared; DeclarationError for codes of other attributes,
    for none, and for codes that the attributes do not have.
    """
    require_prepared(spec, snapshot)
    domain, names = spec.domain, tuple(released)
    _require_codes(domain, released)
    stored = read_stage(snapshot, "discretized")
    real = {name: stored.column(name).to_numpy().astype(np.int64) for name in names}
    sizes = {name: domain[name].size for name in names}
    targets = [target for target in spec.targets if classify and target.attribute in names]
    return {
        **{
            f"avd_{k}": average_distance(real, released, sizes, ways)
            for k in COMPARED_WAYS
            if (ways := ways_of(names, min(k, len(names)) if k == 2 else k))
        },
        **{
            f"misclassified_{method}/{target.attribute}": _misclassified(
                method, target, domain, real, released
            )
            for target in targets
            for method in METHODS
        },
        "dcr": distance_to_closest_record(real, released),
    }


def _misclassified(
    method: Method, target: Target, domain: Domain, real: Codes, released: Codes
) -> float:
    """Share of the real rows that a classifier learned from released ones gets wrong."""
    seen, answers = target.asked_of(released, domain)
    classifier = train(method, seen, answers, {name: domain[name].size for name in seen})
    return misclassification(classifier, *target.asked_of(real, domain))


def _require_codes(domain: Domain, released: Codes) -> None:
    if not released:
        raise DeclarationError("synthetic table: expected at least one attribute, got none")
    for name, codes in released.items():
        size = domain[name].size
        if len(codes) and not 0 <= codes.min() <= codes.max() < size:
            raise DeclarationError(
                f"synthetic table: expected codes of {name} in 0..{size - 1}, got others"
            )
