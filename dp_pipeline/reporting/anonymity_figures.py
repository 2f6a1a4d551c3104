"""What is tried with k-anonymous releases of public rows: names, and words for a reader."""

from __future__ import annotations

from dp_pipeline.reporting.metric import Metric

_UNIT, _HIGHER = "0.5 = guessing", "higher is better"

FIGURES = {
    "auc": Metric(
        "AUC", "AUC of logistic regression, columns chosen inside each fold", _UNIT, _HIGHER
    ),
    "auc_paper": Metric(
        "AUC as in papers",
        "AUC of support vectors, columns chosen on all rows, as the papers do",
        _UNIT,
        _HIGHER,
    ),
    "kept": Metric("kept", "Columns kept, mean over the folds", "columns", _HIGHER),
    "seconds": Metric("run time", "Wall time of one selection, in seconds", "seconds"),
}
"""By the names under which they are recorded, in reading order."""
