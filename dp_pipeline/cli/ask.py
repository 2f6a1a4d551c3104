"""`dp-pipeline ask`: numbers from an exported folder, each with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.cli.export import require_folder
from dp_pipeline.cli.options import READER, Reader

if TYPE_CHECKING:
    from dp_pipeline.answers.questions import Line

BASES = {
    "measured": "measured: noisy tables of the release hold it",
    "bounded": "bounded: no table holds it; scores or tables of its pairs say how far off it is",
    "model": "model: nothing bounds it; columns are taken to depend as much as they usually do",
}
"""Basis of an answer → its explanation."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("question")
@click.option("--level", default=0.95, show_default=True, help="How often an interval holds.")
@click.option("--parts", is_flag=True, help="Count parts, such as persons, instead of their units.")
@READER
def ask(folder: Path, question: str, level: float, parts: bool, reader: Reader) -> None:
    """Ask an exported folder for a number, with its interval.

    QUESTION is one of: count where CONDITION; share where CONDITION among CONDITION; mean COLUMN by
    COLUMN where CONDITION; quantile 0.5 of COLUMN where CONDITION; table COLUMN COLUMN. A condition
    is such as "income = '50k+' and not age < 65". For units with parts also: count where CONDITION
    with a part where CONDITION. No home, row or ε is needed.
    """
    from dp_pipeline.answers.questions import answer_question
    from dp_pipeline.export.opening import open_release

    require_folder("FOLDER", folder)
    lines = answer_question(open_release(folder), question, level=level, of_parts=parts)
    reader.print_output(
        lambda: {"question": question, "level": level, "answers": [dict(line) for line in lines]},
        lambda: _print(lines, level),
    )


def _print(lines: Sequence[Line], level: float) -> None:
    from dp_pipeline.reporting.text import interval_texts, print_table

    numbers = ("value", "low", "high")
    cells = []
    for line in lines:
        texts = [line[name] for name in numbers]
        if not isinstance(line["value"], str):  # Dates are texts already.
            texts = interval_texts(*texts)
        texts_by_name = {**line, **dict(zip(numbers, texts, strict=True))}
        cells.append([str(cell) for cell in texts_by_name.values()])
    print_table(f"{level:.0%} intervals", list(lines[0]), cells)
    for basis in dict.fromkeys(str(line["basis"]) for line in lines):
        click.echo(BASES[basis])
