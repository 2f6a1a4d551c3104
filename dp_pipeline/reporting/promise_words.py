"""Sentences of the promise that pages and cards have in common."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.protection import RowsOfPerson
from dp_pipeline.schema.spec import DatasetSpec

PURPOSE: Mapping[str, str] = {
    "benchmark": "Benchmark: the rows are public, so exact numbers about them are shown here.",
    "release": "Release: the rows are sensitive. Every number here that depends on them was "
    "drawn with noise and paid for with ε; exact ones are not shown.",
}

NOT_PROMISED = (
    "Run time is not covered: how long a run took may depend on the rows.",
    "Derived copies are not detected: the same persons under another name, in another "
    "file, have another account.",
    "Choosing ε, a model or its parameters by looking at exact numbers of sensitive rows "
    "is not covered.",
    "A draw from seeded noise or from a source not fit for release is marked NOT FOR RELEASE: "
    "it shows how a method works and protects nobody.",
)
"""Of no release, whatever its ε."""


def unit_words(spec: DatasetSpec) -> str:
    """Whom the promise is about."""
    if isinstance(spec.protection, RowsOfPerson):
        return (
            f"one person: all rows with the same {spec.protection.column}, "
            f"of which at most {spec.protection.at_most} are used"
        )
    return "one row"


def difference_words(spec: DatasetSpec) -> str:
    """What the data that is compared with differs by."""
    unit = "person" if isinstance(spec.protection, RowsOfPerson) else "row"
    if spec.relation == "replace_one":
        return f"any one {unit} is replaced by another (replace one)"
    return f"any one {unit} is missing or added (add/remove)"


def at_delta(epsilon: str, spec: DatasetSpec, rho: Fraction) -> str:
    """An ε with the δ that it holds at, and the ρ that means both."""
    return f"{epsilon} at δ = {delta_text(spec.delta or Fraction(0))} (ρ = {epsilon_text(rho)})"
