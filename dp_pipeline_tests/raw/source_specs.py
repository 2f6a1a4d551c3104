"""Declarations for tests of reading: only the source, its columns and the person matter."""

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain, OneRow, RowsOfPerson
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.reading import Signs

READ = Signs(".", "'")
"""With declared signs, texts of Parquet are read as numbers."""


def spec_of(source, *columns, person=None, purpose="benchmark"):
    """A data set `city` that reads ``columns`` and, if there is one, the ``person`` column."""
    attributes = tuple(
        Attribute(f"attribute_{place}", column, "clip", coordinate=Coordinate(0.0, 1.0), signs=READ)
        for place, column in enumerate(columns)
    )
    protection = OneRow() if person is None else RowsOfPerson(person, 2)
    declared = {"source": source, "protection": protection, "purpose": purpose}
    return DatasetSpec.of_domain("city", Domain(attributes), **declared)
