"""What a fit warns of: that its release is mostly noise, or of other rows than were declared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from dp_pipeline.estimators.private_fit import RELATION, UNIT, Fitted, PrivateFit
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.reporting.plausibility import NoisyTotal, clustering_warnings, table_warnings
from dp_pipeline.schema.protection import reach


class WeakSignal(UserWarning):
    """A release that says by its own noisy counts that it is mostly noise, or of few rows."""


def clustering_doubts(
    fitted: Fitted[Clusters], fit: PrivateFit[Clusters], *, nominal_rows: int | None
) -> tuple[str, ...]:
    """One sentence each, from noisy counts and declarations alone; none where all looks well."""
    tables, columns = fitted.released.tables(), fitted.released.columns
    return clustering_warnings(
        tables,
        [fit.domain[name] for name in columns],
        NoisyTotal.of_tables(tables, fitted.spends, reach=reach(UNIT, RELATION)),
        epsilon=fit.claim.epsilon,
        nominal_rows=nominal_rows,
    )


def table_doubts(
    fitted: Fitted[SyntheticTable], fit: PrivateFit[SyntheticTable], *, nominal_rows: int | None
) -> tuple[str, ...]:
    """The same of a synthetic table."""
    table = fitted.released
    shares = {name: table.probabilities((name,)) for name in table.attributes}
    total = NoisyTotal.of_marginals(table.measured)
    return table_warnings(shares, fit.domain, total, nominal_rows=nominal_rows)


def warn_of(estimator: str, doubts: Sequence[str]) -> None:
    """One WeakSignal a doubt, at the line that called ``fit``."""
    for doubt in doubts:
        warnings.warn(f"{estimator}: {doubt}", WeakSignal, stacklevel=3)
