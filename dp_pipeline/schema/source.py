"""Where the rows of a data set come from, as declared: never opened here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

SourceKind = Literal["csv", "parquet", "sklearn", "generator"]

DATA_FOLDER_VARIABLE = "DP_PIPELINE_DATA"


@dataclass(frozen=True)
class Sample:
    """So many rows of a source, as many of each class as its share of all rows asks for.

    by     the attribute whose levels are the classes
    seed   decides by chance which rows of a class
    """

    rows: int
    by: str
    seed: int

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.by}, seed {self.seed}"


@dataclass(frozen=True)
class Source:
    """One declared source.

    kind        ``csv`` (also .csv.gz), ``parquet``, ``sklearn`` (bundled sets), ``generator``
    location    a path, or the name of the bundled set or generator
    delimiter   of a CSV file
    header      column names of a CSV file that has none in its first line
    options     arguments of a generator, such as seed and rows
    needs       the environment variable that must be set for this source, or None
    more        paths of further CSV files of the same form, whose rows follow
    comment     lines of a CSV file that begin with this character are no rows; none when empty
    sample      which of the rows are read, on benchmarks only; None: all
    """

    kind: SourceKind
    location: str
    delimiter: str = ","
    header: tuple[str, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    needs: str | None = None
    more: tuple[str, ...] = ()
    comment: str = ""
    sample: Sample | None = None

    @property
    def locations(self) -> tuple[str, ...]:
        """Every path in order, or the one name."""
        return (self.location, *self.more)

    def only(self, location: str) -> Source:
        """The same source, were this its one file, with all rows."""
        return replace(self, location=location, more=(), sample=None)

    @property
    def identities(self) -> tuple[str, ...]:
        """One text a file, bundled set or generator: the ledger keeps two populations from sharing
        any of them. A sample is of the same persons, so it is not told here.

        >>> Source("generator", "trips_like", options={"seed": 7}).identities
        ('generator:trips_like?seed=7',)
        """
        options = "&".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        end = f"?{options}" if options else ""
        return tuple(f"{self.kind}:{location}{end}" for location in self.locations)

    @property
    def identity(self) -> str:
        """One text for all of it, and for what is read of it.

        >>> Source("csv", "a.csv", more=("b.csv",)).identity
        'csv:a.csv + csv:b.csv'
        >>> Source("csv", "a.csv", sample=Sample(20, "job", 7)).identity
        'csv:a.csv: 20 rows by job, seed 7'
        """
        every = " + ".join(self.identities)
        return every if self.sample is None else f"{every}: {self.sample}"
