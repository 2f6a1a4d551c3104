"""What every reader of a source does: refuse in one line, open files, look for the columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from dp_pipeline.raw.csv_file import NoHeader, NotUtf8
from dp_pipeline.schema.errors import SourceError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.system_errors import require_regular

Result = TypeVar("Result")


def declared_columns(spec: DatasetSpec) -> list[str]:
    """Every declared column once, in the order declared."""
    return list(dict.fromkeys(spec.columns))


def refusal(spec: DatasetSpec, expected: str, got: str) -> SourceError:
    """The error of one source, of which nothing is quoted."""
    return SourceError(f"{spec.name}: {spec.source.identity}: expected {expected}, got {got}")


def guarded(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = "a damaged one"
) -> Result:
    """``read()``, or a SourceError that is not even chained to the error that quotes rows."""
    try:
        return read()
    except OSError:
        got = "a damaged or truncated one"
    except NotUtf8:
        expected, got = "UTF-8 text", "UTF-16"
    except (pa.ArrowException, UnicodeError, csv.Error, NoHeader):
        pass
    # Raised outside of the handler, so that no __context__ carries the quoted row along.
    raise refusal(spec, expected, got)


def require_readable(spec: DatasetSpec, path: Path) -> None:
    """SourceError unless the file opens and holds a byte, or needs none to have columns."""
    try:
        # A pipe would wait for whoever writes to it, and a device may never end.
        require_regular(path, path.stat().st_mode)
        with path.open("rb") as file:
            is_empty = not file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a path that cannot be"
        where = ": put it there, or mend `source`" if isinstance(error, FileNotFoundError) else ""
        raise refusal(spec, "a file that can be read", f"{reason}{where}") from None
    if is_empty and not spec.source.header:
        raise refusal(spec, "a file with columns", "one of 0 bytes")


def check_names(spec: DatasetSpec, names: Sequence[str]) -> None:
    """Every declared column is there and no name stands twice.

    Names of the source are counted, not quoted: without a header line they are a row.
    """
    if len(set(names)) != len(names):
        raise refusal(spec, "a name of its own for each column", "a name that stands twice")
    for name in declared_columns(spec):
        if name not in names:
            raise refusal(spec, f"a column {name!r}", f"{len(names)} columns without it")
