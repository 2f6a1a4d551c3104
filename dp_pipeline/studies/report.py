"""The files of a study beside its journal: tables, pictures and report.md, from finished cells.

Family is what one study says: its factors, the papers' claims, the measures that are shown and the
words around them. All studies are written in the same way.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

from dp_pipeline.files import plain_cells, write_whole
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.errors import PipelineError
from dp_pipeline.studies import charts
from dp_pipeline.studies.claims import PaperClaim, Verdict
from dp_pipeline.studies.results import Factors, Mean, Place, Row, Summary


@dataclass(frozen=True)
class Curve:
    """A measure over ε or K: one picture of every data set that has it.

    file         behind the name of the data set
    title        behind the name of the data set
    footnote     behind what the bars are
    references   baseline → the name of its line
    """

    measure: str
    file: str
    title: str
    scale: charts.Scale
    footnote: str = ""
    way: str = ""
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A measure as numbers: a line a system, a column a level."""

    measure: str
    words: str
    way: str = ""
    text: Callable[[Mean], str] = lambda mean: mean.text


@dataclass(frozen=True)
class Cost:
    """Seconds or memory of a system: one number a data set.

    column    in the table of costs
    is_peak   the largest mean over levels and ways; else their mean
    """

    measure: str
    column: str
    title: str
    label: str
    footnote: str
    is_peak: bool = False

    def of(self, summary: Summary, dataset: str, system: str) -> float | None:
        """None where it was not measured."""
        found = [
            means[self.measure].value
            for place, means in summary.means.items()
            if (place.dataset, place.system) == (dataset, system) and self.measure in means
        ]
        if not found:
            return None
        return max(found) if self.is_peak else sum(found) / len(found)


class Family(ABC):
    """What one study compares, claims and shows.

    title, intro         head of the report
    claims_head          heading of the verdicts; ``claims_words`` say what a verdict means
    repetitions          what is repeated
    settings             how it was measured, one fact each
    once                 measures that are measured once, however many repetitions there are
    titles_of_ways       way → its name; with them the verdicts of a claim stand side by side, one
                         column a way
    costs                with the heading and the words of their table
    published            measure → its head in the table of variants as published
    baseline_titles      baselines that are no systems; they come first in tables
    repeats_by_measure   whether measures of one place are repeated differently often
    """

    factors: ClassVar[Factors]
    claims: ClassVar[tuple[PaperClaim, ...]]
    title: ClassVar[str]
    intro: ClassVar[str]
    claims_head: ClassVar[str] = "What was claimed, and whether it held"
    claims_words: ClassVar[str]
    repetitions: ClassVar[str] = "repetitions of each system at each ε"
    settings: ClassVar[tuple[str, ...]]
    once: ClassVar[tuple[str, ...]] = ()
    across: ClassVar[charts.Across] = charts.OVER_EPSILON
    titles_of_ways: ClassVar[Mapping[str, str]] = {}
    costs: ClassVar[tuple[Cost, ...]] = ()
    costs_head: ClassVar[tuple[str, str]] = ("", "")
    published: ClassVar[Mapping[str, str]] = {}
    baseline_titles: ClassVar[Mapping[str, str]] = {}
    repeats_by_measure: ClassVar[bool] = False

    def rows(self, cells: Sequence[Row]) -> Iterable[Row]:
        """The rows of finished cells; each is one where nothing else is said."""
        return cells

    @abstractmethod
    def curves(self, summary: Summary) -> Iterable[Curve]:
        """What is shown over ε or K, picture by picture."""

    @abstractmethod
    def tables(self, summary: Summary) -> Iterable[Table]:
        """What is shown as numbers, table by table."""


def write_report(
    folder: Path, family: Family, cells: Sequence[Row], header: Mapping[str, str]
) -> Path:
    """Tables, pictures and report; the path of ``report.md``.

    cells    finished ones, as the journal has them
    header   what made the cells

    PipelineError when every system refused.
    """
    summary = Summary.of(family.factors, family.rows(cells))
    if not any(summary.systems(dataset) for dataset in summary.datasets):
        why = next(iter(summary.failures.values()), "no cell")
        raise PipelineError(f"{folder}: expected a system that can be run, got: {why}")
    absent = dict.fromkeys(summary.columns)
    write_rows(folder / "results", [{**absent, **row} for row in summary.rows], parquet=True)
    write_rows(folder / "summary", list(_summary_rows(family, summary)))
    shown = list(pictures(family, summary))
    for picture in shown:
        _write(folder / picture.file, picture.content)
    path = folder / "report.md"
    _write(path, report(family, summary, len(cells), shown, header).encode())
    return path


def write_rows(path: Path, rows: Sequence[Row], *, parquet: bool = False) -> None:
    """One line a row under the names of the first one: CSV for people, Parquet for programs.

    path   without its ending; empty, or null, where there is no number
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(plain_cells, rows))
    _write(path.with_suffix(".csv"), text.getvalue().encode())
    if parquet:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
        parquet_file = path.with_suffix(".parquet")
        write_whole(parquet_file, lambda file: pyarrow.parquet.write_table(table, file))


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda file: file.write(content))


def _summary_rows(family: Family, summary: Summary) -> Iterator[Row]:
    """One row a place; ``…_se`` are standard errors. What is derived of a system with one way is
    derived in the first of the ways.
    """
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(summary.factors.columns_of(place))
        if not family.repeats_by_measure:
            row["repeats"] = max(mean.repeats for mean in means.values())
        at = place._replace(way=family.factors.ways[0]) if place.way == "none" else place
        for measure in (*summary.measures, *summary.factors.derived):
            mean = summary.mean(at, measure)
            row[measure] = None if mean is None else mean.value
            row[f"{measure}_se"] = mean.error if mean and isfinite(mean.error) else None
            if family.repeats_by_measure:
                row[f"{measure}_repeats"] = 0 if mean is None else mean.repeats
        yield row


def pictures(family: Family, summary: Summary) -> Iterator[charts.Picture]:
    """Data set by data set: curves over ε or K, then costs."""
    for dataset in summary.datasets:
        for curve in family.curves(summary):
            lines = lines_of(summary, dataset, curve)
            if lines:
                yield _drawn(family, summary, dataset, curve, lines)
        for cost in family.costs:
            yield from _bars(summary, dataset, cost)


def lines_of(summary: Summary, dataset: str, curve: Curve) -> list[charts.Line]:
    """One line a system; not of baselines, nor of variants as published, whose ε is another."""
    lines = []
    for style, system in enumerate(summary.factors.systems.values()):
        found: list[tuple[str, Mean]] = []
        for level in summary.levels(dataset):
            mean = summary.mean(Place(dataset, curve.way, system.name, level), curve.measure)
            if mean is not None:
                found.append((level, mean))
        if found and not (system.is_published or system.name in summary.factors.baselines):
            lines.append(charts.Line(system.title, style, tuple(found)))
    return lines


def _drawn(
    family: Family, summary: Summary, dataset: str, curve: Curve, lines: Sequence[charts.Line]
) -> charts.Picture:
    scale, references = curve.scale, list(curve.scale.references)
    for name, words in curve.references.items():
        mean = summary.mean(Place(dataset, curve.way, name, ""), curve.measure)
        if mean is not None:
            references.append((mean.value, words))
    title = dataset + curve.title
    content = charts.line_chart(
        lines,
        scale=charts.Scale(scale.label, scale.kind, tuple(references)),
        title=title,
        footnote=charts.BARS + curve.footnote,
        across=family.across,
    )
    return charts.Picture(dataset, f"{dataset}_{curve.file}.png", title, content)


def _bars(summary: Summary, dataset: str, cost: Cost) -> Iterator[charts.Picture]:
    bars = [
        (summary.factors.systems[system].title, value)
        for system in summary.systems(dataset)
        if (value := cost.of(summary, dataset, system)) is not None
    ]
    if bars:
        title = f"{dataset}: {cost.title}"
        content = charts.bar_chart(bars, label=cost.label, title=title, footnote=cost.footnote)
        yield charts.Picture(dataset, f"{dataset}_{cost.measure}.png", title, content)


def report(
    family: Family,
    summary: Summary,
    cells: int,
    shown: Sequence[charts.Picture],
    header: Mapping[str, str],
) -> str:
    """The whole report as markdown.

    cells    how many were measured
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [f"# {family.title}", family.intro, _settings(family, summary, cells, header)]
    parts += [f"## {family.claims_head}", family.claims_words, *_verdicts(family, summary)]
    for dataset in summary.datasets:
        beside = [picture for picture in shown if picture.dataset == dataset]
        parts += [f"## {dataset}", "\n".join(f"![{one.title}]({one.file})" for one in beside)]
        parts += _tables(family, summary, dataset)
    parts += [*_costs(family, summary), *_as_published(family, summary), *_refused(summary)]
    return "\n\n".join(parts) + "\n"


def _bullets(facts: Iterable[str]) -> str:
    return "\n".join(f"* {fact}" for fact in facts)


def _settings(family: Family, summary: Summary, cells: int, header: Mapping[str, str]) -> str:
    repeats = " to ".join(map(str, dict.fromkeys(summary.repeats(but=family.once))))
    return _bullets(
        [
            *(f"{name}: {text}" for name, text in header.items()),
            f"data sets: {', '.join(summary.datasets)}",
            f"cells: {cells}; {family.repetitions}: {repeats}",
            *family.settings,
        ]
    )


def _verdicts(family: Family, summary: Summary) -> Iterator[str]:
    """A table of all claims, and where each of them held."""
    titles = family.titles_of_ways
    head = [titles[way] for way in summary.ways] if titles else ["measured by", "verdict"]
    judged = [(claim, dict(_judged(family, summary, claim))) for claim in family.claims]
    yield markdown_table(
        ["claim", "source", *head],
        (
            line
            for number, (claim, verdicts) in enumerate(judged, start=1)
            for line in _lines(
                [f"{number}. {claim.sentence}", claim.source], verdicts, beside=bool(titles)
            )
        ),
    )
    yield f"Where, claim by claim (data set: {summary.factors.letter}):"
    yield "\n".join(
        f"{number}. {_where(verdicts, beside=bool(titles))}"
        for number, (_, verdicts) in enumerate(judged, start=1)
    )


def _judged(family: Family, summary: Summary, claim: PaperClaim) -> Iterator[tuple[str, Verdict]]:
    """What a claim was measured by, and the verdict."""
    for measured in claim.measured:
        if measured.way is not None:
            yield measured.title, claim.verdict(summary, measured, measured.way)
            continue
        for way in summary.ways:
            yield family.titles_of_ways[way], claim.verdict(summary, measured, way)


def _lines(
    words: list[str], verdicts: Mapping[str, Verdict], *, beside: bool
) -> Iterator[list[str]]:
    """Verdicts of one claim: side by side, or one line each with the claim said once."""
    short = {title: f"**{verdict.short}**" for title, verdict in verdicts.items()}
    if beside:
        yield [*words, *short.values()]
        return
    for title, text in short.items():
        yield [*words, title, text]
        words = ["", ""]


def _where(verdicts: Mapping[str, Verdict], *, beside: bool) -> str:
    """What is the same of several measures is said once."""
    titles: dict[str, list[str]] = defaultdict(list)
    for title, verdict in verdicts.items():
        titles[verdict.text].append(title)
    if beside and len(titles) == 1:
        return f"{next(iter(titles))}."
    return " ".join(f"{', '.join(names)}: {text}." for text, names in titles.items())


def _tables(family: Family, summary: Summary, dataset: str) -> Iterator[str]:
    levels = summary.levels(dataset)
    for table in family.tables(summary):
        rows = list(_means(family, summary, dataset, table))
        if rows:
            yield f"{table.words}:"
            yield markdown_table(
                ["system", *(f"{summary.factors.letter}={level}" for level in levels)], rows
            )


def _means(family: Family, summary: Summary, dataset: str, table: Table) -> Iterator[list[str]]:
    """One row a system with a number; not of variants as published."""
    systems = summary.factors.systems
    comparable = [name for name in summary.systems(dataset) if not systems[name].is_published]
    titles = {**family.baseline_titles, **{name: systems[name].title for name in comparable}}
    for system, title in titles.items():
        found = [
            summary.mean(Place(dataset, table.way, system, level), table.measure)
            for level in summary.levels(dataset)
        ]
        if any(found):
            yield [title, *("–" if mean is None else table.text(mean) for mean in found)]


def _costs(family: Family, summary: Summary) -> Iterator[str]:
    if not family.costs:
        return
    head, words = family.costs_head
    yield f"## {head}"
    yield words
    columns = [(dataset, cost) for dataset in summary.datasets for cost in family.costs]
    is_one = len(family.costs) == 1
    rows = []
    for name, system in summary.factors.systems.items():
        values = [cost.of(summary, dataset, name) for dataset, cost in columns]
        if any(value is not None for value in values):
            texts = ["–" if value is None else number_text(value) for value in values]
            rows.append([system.title, *texts])
    heads = [dataset if is_one else f"{dataset}, {cost.column}" for dataset, cost in columns]
    yield markdown_table(["system", *heads], rows)


def _as_published(family: Family, summary: Summary) -> Iterator[str]:
    """Variants as published cost another ε than was asked: they are in no comparison."""
    factors = summary.factors
    rows = []
    for place, means in summary.means.items():
        system = factors.systems.get(place.system)
        if system is not None and system.is_published:
            row = summary.by_place[place][0]
            found = [means.get(measure) for measure in family.published]
            way = [place.way] if factors.way else []
            texts = ["–" if mean is None else mean.text for mean in found]
            charged = [place.level, row["epsilon_charged"], *texts, row["reason"]]
            rows.append([place.dataset, system.title, *way, *charged])
    if rows:
        yield "## As published: not comparable"
        yield "These do not promise the ε that was asked for, and are in no table and claim above."
        head = ["data set", "system", *(["N"] if factors.way else []), "ε asked", "ε it costs"]
        yield markdown_table([*head, *family.published.values(), "why"], rows)


def _refused(summary: Summary) -> Iterator[str]:
    """Place → the line of a system that refused there; nothing where none did."""
    if summary.failures:
        yield "## Refused"
        yield "These systems cannot be run there:"
        columns = summary.factors.columns_of
        yield _bullets(
            f"{' '.join(columns(place).values())}: {why}" for place, why in summary.failures.items()
        )


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
