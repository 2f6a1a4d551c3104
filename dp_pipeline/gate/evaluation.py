"""Buying quality numbers: how good a release is on the true rows is a question about rows.

Each is bought with an ε of its own, reserved together with the release's.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_pipeline.gate.class_quality import buy_class_quality
from dp_pipeline.gate.cluster_quality import buy_cluster_quality
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.table_quality import buy_table_quality
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.schema.target import Target


def buy_quality(
    curator: Curator,
    released: Clusters | SyntheticTable | ClassTable,
    *,
    epsilon: Fraction,
    label: str | None = None,
    targets: Sequence[Target] = (),
) -> dict[str, NoisyNumber]:
    """Private quality numbers of one release; spends exactly ``epsilon``.

    label     the attribute with levels that clusters are compared with, or None
    targets   what classifiers are asked that learn from a synthetic table
    """
    if isinstance(released, Clusters):
        return buy_cluster_quality(curator, released, epsilon=epsilon, label=label)
    if isinstance(released, ClassTable):
        return buy_class_quality(curator, released, epsilon=epsilon)
    return buy_table_quality(curator, released, epsilon=epsilon, targets=targets)
