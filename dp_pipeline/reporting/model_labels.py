"""What models are called where they stand side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dp_pipeline.release.bundle import Bundle


def model_labels(bundles: Iterable[Bundle]) -> Mapping[str, str]:
    """Model → its name, with k and columns where the clusterings differ in them: an NICV of more
    centres or other columns is lower or higher for that alone.
    """
    found = list(bundles)
    kinds = {
        bundle.model: (len(next(iter(centres.values()))), tuple(centres))
        for bundle in found
        if (centres := bundle.tables.get("centres"))
    }
    labels = {bundle.model: bundle.model for bundle in found}
    if len(set(kinds.values())) < 2:
        return labels
    same_columns = len({columns for _, columns in kinds.values()}) == 1
    for model, (k, columns) in kinds.items():
        labels[model] = f"{model}, k={k}" + ("" if same_columns else f" of {' '.join(columns)}")
    return labels
