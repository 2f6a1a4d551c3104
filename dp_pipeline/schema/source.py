"""Where the rows of a data set come from, as declared: never opened here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SourceKind = Literal["csv", "parquet", "sklearn", "generator"]

DATA_FOLDER_VARIABLE = "DP_PIPELINE_DATA"


@dataclass(frozen=True)
class Source:
    """One declared source.

    kind        ``csv`` (also .csv.gz), ``parquet``, ``sklearn`` (bundled sets), ``generator``
    location    a path, or the name of the bundled set or generator
    delimiter   of a CSV file
    header      column names of a CSV file that has none in its first line
    options     arguments of a generator, such as seed and rows
    needs       the environment variable that must be set for this source, or None
    """

    kind: SourceKind
    location: str
    delimiter: str = ","
    header: tuple[str, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    needs: str | None = None

    @property
    def identity(self) -> str:
        """One text a source: the ledger keeps two populations from sharing it.

        >>> Source("generator", "trips_like", options={"seed": 7}).identity
        'generator:trips_like?seed=7'
        """
        options = "&".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.kind}:{self.location}" + (f"?{options}" if options else "")
