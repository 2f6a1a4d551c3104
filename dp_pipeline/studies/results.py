"""Results: the files of a study beside its journal, from finished cells.

Rows of a study as files: CSV for people, Parquet for programs; whole or not at all.

Tables in markdown.

Sections that reports of several studies have: verdicts claim by claim, and what was refused.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from dp_pipeline.files import plain_cells
from dp_pipeline.spec.errors import PipelineError
from dp_pipeline.studies.charts import Picture
from dp_pipeline.studies.fit import Mean, Verdict
from dp_pipeline.studies.journal import Row


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line a row under the names of the first row; empty where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(plain_cells, rows))
    write_whole(path, text.getvalue().encode())


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """The same rows; null where there is no number."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = {name: [row[name] for row in rows] for name in rows[0]}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    write_whole(path, file.getvalue())


def write_whole(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def write_results(
    folder: Path, *, rows: Sequence[Row], means: Sequence[Row], shown: Sequence[Picture], text: str
) -> Path:
    """Tables, pictures and report; the path of the report.

    rows    of ``results.csv`` and ``results.parquet``, with the names of the first one
    means   of ``summary.csv``
    text    of ``report.md``, which shows the pictures
    """
    write_csv(folder / "results.csv", rows)
    write_parquet(folder / "results.parquet", rows)
    write_csv(folder / "summary.csv", means)
    for picture in shown:
        write_whole(folder / picture.file, picture.content)
    path = folder / "report.md"
    write_whole(path, text.encode())
    return path


def require_measured(folder: Path, *, measured: bool, failures: Mapping[Any, str]) -> None:
    """PipelineError when every system refused."""
    if not measured:
        why = next(iter(failures.values()), "no cell")
        raise PipelineError(f"{folder}: expected a system that can be run, got: {why}")


def with_error(measure: str, mean: Mean | None) -> dict[str, float | None]:
    """Two columns of ``summary.csv``: a mean and its standard error, ``…_se``."""
    return {
        measure: None if mean is None else mean.value,
        f"{measure}_se": mean.error if mean and isfinite(mean.error) else None,
    }


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """One line a row; a bar inside a text stays inside of its cell.

    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x&#124;y |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(text.replace("|", "&#124;") for text in line) + " |" for line in lines
    )


@dataclass(frozen=True)
class Judged:
    """What came of one claim.

    found   what it was measured by → the verdict
    """

    sentence: str
    source: str
    found: Mapping[str, Verdict]


def bullets(facts: Iterable[str]) -> str:
    """One line a fact."""
    return "\n".join(f"* {fact}" for fact in facts)


def verdicts(judged: Sequence[Judged], *, over: str = "ε") -> Iterator[str]:
    """A table with one line a claim and measure, and where each claim held."""
    yield markdown_table(
        ["claim", "source", "measured by", "verdict"],
        (line for number, one in enumerate(judged, start=1) for line in _lines(number, one)),
    )
    yield f"Where, claim by claim (data set: {over}):"
    yield "\n".join(f"{number}. {_where(one)}" for number, one in enumerate(judged, start=1))


def _lines(number: int, judged: Judged) -> Iterator[list[str]]:
    """One line a measure; the claim is said once."""
    said = [f"{number}. {judged.sentence}", judged.source]
    for measure, verdict in judged.found.items():
        yield [*said, measure, f"**{verdict.short}**"]
        said = ["", ""]


def _where(judged: Judged) -> str:
    """What is the same of several measures is said once."""
    titles: dict[str, list[str]] = defaultdict(list)
    for measure, verdict in judged.found.items():
        titles[verdict.text].append(measure)
    return " ".join(f"{', '.join(names)}: {text}." for text, names in titles.items())


def refused(failures: Mapping[tuple[Any, ...], str]) -> Iterator[str]:
    """Place → the line of a system that refused there; nothing where none did."""
    if not failures:
        return
    yield "## Refused"
    yield "These systems cannot be run there:"
    yield bullets(f"{' '.join(map(str, place))}: {why}" for place, why in failures.items())
