"""Sources that are a name: the sets that scikit-learn bundles, and generators."""

from __future__ import annotations

import pyarrow as pa

from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.raw.sources.reading import check_names
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.name import one_of
from dp_pipeline.schema.spec import DatasetSpec

BUNDLED = ("breast_cancer", "digits", "iris", "wine")
"""The sets that scikit-learn ships inside its wheel."""


def read_bundled(spec: DatasetSpec) -> pa.Table:
    """Feature columns under their own names, and ``target``: the class by name."""
    _check_listed(spec, BUNDLED)
    from sklearn import datasets

    bundle = getattr(datasets, f"load_{spec.source.location}")()
    columns = {
        str(name): pa.array(values)
        for name, values in zip(bundle.feature_names, bundle.data.T, strict=True)
    }
    classes = bundle.target_names.astype(str)[bundle.target]
    columns["target"] = pa.array(classes.tolist(), pa.string())
    check_names(spec, list(columns))
    return pa.table(columns)


def read_generated(spec: DatasetSpec) -> pa.Table:
    """What the declared generator makes of its options."""
    _check_listed(spec, tuple(GENERATORS))
    unknown = sorted(set(spec.source.options) - {"seed", "rows"})
    if unknown:
        raise DeclarationError(
            f"{spec.name}: source.options: expected {one_of(('seed', 'rows'), unknown[0])}"
        )
    table = GENERATORS[spec.source.location](**spec.source.options)
    check_names(spec, table.column_names)
    return table


def _check_listed(spec: DatasetSpec, names: tuple[str, ...]) -> None:
    if spec.source.location not in names:
        raise DeclarationError(
            f"{spec.name}: source.name: expected {one_of(names, spec.source.location)}"
        )
