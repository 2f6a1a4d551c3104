"""The files of a study beside its journal: tables, pictures and report.md, from its summary."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.papers.claims import PaperClaim, Verdict
from benchmarks.papers.results import Factors, Mean, Place, Row, Summary, summary_rows
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.files import write_atomically
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.lines import (
    HorizontalAxis,
    Line,
    Panel,
    Point,
    VerticalAxis,
    line_chart,
)
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spreadsheet import escape_formula

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    y_axis: VerticalAxis
    footnote: str = ""
    variant: str = ""
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A measure as numbers: a line a system, a column a level."""

    measure: str
    words: str
    variant: str = ""
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
        """Return the number, None where it was not measured."""
        values = [
            means[self.measure].value
            for place, means in summary.means.items()
            if (place.dataset, place.system) == (dataset, system) and self.measure in means
        ]
        if not values:
            return None
        return max(values) if self.is_peak else sum(values) / len(values)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the report of one study compares, claims and shows.

    title, intro         its head
    claims_head          heading of the verdicts; ``claims_words`` say what a verdict means
    repetitions          what is repeated
    settings             how it was measured, one fact each
    once                 measures that are measured once, however many repetitions there are
    curves               over ε or K, picture by picture
    table                the measure that the report shows as numbers; ``summary.csv`` has all
    variant_titles       way → its name; with them the verdicts of a claim stand side by side, one
                         column a way
    costs                with the heading and the words of their table
    baseline_titles      baselines that are no systems; they come first in tables
    """

    factors: Factors
    claims: tuple[PaperClaim, ...]
    title: str
    intro: str
    claims_head: str = "What was claimed, and whether it held"
    claims_words: str
    repetitions: str = "repetitions of each system at each ε"
    settings: tuple[str, ...]
    once: tuple[str, ...] = ()
    x_axis: HorizontalAxis = HorizontalAxis("ε (log scale; smaller protects more)", "log")
    curves: Callable[[Summary], Iterable[Curve]]
    table: Table
    variant_titles: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    costs_head: tuple[str, str] = ("", "")
    baseline_titles: Mapping[str, str] = field(default_factory=dict)


def write_report(
    folder: Path, report: Report, summary: Summary, cells: int, header: Mapping[str, str]
) -> Path:
    """Write tables, pictures and report; return the path of ``report.md``.

    cells    how many were measured
    header   what made the cells

    PipelineError when every system refused.
    """
    if not any(summary.systems(dataset) for dataset in summary.datasets):
        why = next(iter(summary.failures.values()), "no cell")
        raise PipelineError(f"{folder}: expected a system that can be run, got: {why}")
    columns = dict.fromkeys(name for row in summary.rows for name in row)
    _write(folder / "results.csv", csv_text(list(columns), summary.rows))
    means = list(summary_rows(summary))
    _write(folder / "summary.csv", csv_text(list(means[0]), means))
    verdicts = list(claim_rows(report, summary))
    if verdicts:
        _write(folder / "claims.csv", csv_text(list(verdicts[0]), verdicts))
    pictures = list(draw_pictures(report, summary))
    write_pictures(folder, pictures, "png")
    path = folder / "report.md"
    _write(path, report_text(report, summary, cells, pictures, header).encode())
    return path


def csv_text(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """Return one line a row, empty where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escape_formula(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue().encode()


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, content)


_WIDTH = 6.6
"""Inches of a picture: lines with long names at their ends."""


class Picture(NamedTuple):
    """One figure of the report, and the name of its file without the format."""

    dataset: str
    file: str
    title: str
    figure: Figure


def draw_pictures(report: Report, summary: Summary) -> Iterator[Picture]:
    """Draw data set by data set: curves over ε or K, then costs."""
    for dataset in summary.datasets:
        for curve in report.curves(summary):
            lines = lines_of(summary, dataset, curve)
            if lines:
                yield _draw_curve(report, summary, dataset, curve, lines)
        for cost in report.costs:
            yield from _draw_bars(summary, dataset, cost)


def png(figure: Figure) -> bytes:
    """Return the figure as the PNG that releases have."""
    return picture.Picture("", figure, "").png


def svg(figure: Figure) -> bytes:
    """Return the figure as the SVG that releases have."""
    return picture.Picture("", figure, "").svg


def pdf(figure: Figure) -> bytes:
    """Return the figure as PDF for a paper, the same bytes each time."""
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    picture.lay_out(figure)
    encoded = io.BytesIO()
    FigureCanvasPdf(figure).print_pdf(encoded, metadata={"CreationDate": None, "Creator": None})
    return encoded.getvalue()


FORMATS = {"png": png, "svg": svg, "pdf": pdf}
"""Format of a figure → what writes it."""


def write_pictures(folder: Path, pictures: Iterable[Picture], kind: str) -> None:
    """Write every figure into the folder, in a format of ``FORMATS``."""
    for chart in pictures:
        _write(folder / f"{chart.file}.{kind}", FORMATS[kind](chart.figure))


def lines_of(summary: Summary, dataset: str, curve: Curve) -> list[Line]:
    """Return one line a system; none of baselines and of variants as published, of another ε."""
    lines = []
    for number, system in enumerate(summary.factors.systems.values()):
        points = []
        for level in summary.levels(dataset):
            mean = summary.mean(Place(dataset, curve.variant, system.name, level), curve.measure)
            if mean is not None:
                bar = mean.error if mean.repeats > 1 else 0.0
                points.append(Point(float(level), mean.value, bar))
        if points and not (system.is_published or system.name in summary.factors.baselines):
            lines.append(Line(system.title, number, points))
    return lines


def _draw_curve(
    report: Report, summary: Summary, dataset: str, curve: Curve, lines: Sequence[Line]
) -> Picture:
    references = list(curve.y_axis.references)
    for name, words in curve.references.items():
        mean = summary.mean(Place(dataset, curve.variant, name, ""), curve.measure)
        if mean is not None:
            references.append((mean.value, words))
    title = dataset + curve.title
    levels = sorted({point.position for line in lines for point in line.points})
    texts = {float(level): level for level in summary.levels(dataset)}
    x_axis = replace(report.x_axis, ticks={level: texts[level] for level in levels})
    chart = line_chart(
        [Panel(lines, x_axis, replace(curve.y_axis, references=references))],
        title=title,
        footnote=f"Bars: ± one standard error of the mean. {curve.footnote}",
        width=_WIDTH,
    )
    return Picture(dataset, f"{dataset}_{curve.file}", title, chart.figure)


def _draw_bars(summary: Summary, dataset: str, cost: Cost) -> Iterator[Picture]:
    bars = [
        (summary.factors.systems[system].title, value)
        for system in summary.systems(dataset)
        if (value := cost.of(summary, dataset, system)) is not None
    ]
    if bars:
        title = f"{dataset}: {cost.title}"
        figure = bar_chart(bars, label=cost.label, title=title, footnote=cost.footnote)
        yield Picture(dataset, f"{dataset}_{cost.measure}", title, figure)


def bar_chart(
    bars: Sequence[tuple[str, float]], *, label: str, title: str, footnote: str
) -> Figure:
    """Draw horizontal bars (name, value > 0) on a log axis, the first on top."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = picture.new_figure(6.0, 1.1 + 0.26 * len(bars))
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    places = [-index for index in range(len(bars))]
    values = [value for _, value in bars]
    axes.barh(places, values, height=0.68, color=picture.COLOURS[0])
    axes.set_yticks(places, [picture.shorten_label(name, width=30) for name, _ in bars])
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 3, max(values) * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    # Every bar has its number; ticks of a short axis would say theirs in powers of ten.
    axes.xaxis.set_minor_formatter(NullFormatter())
    for place, value in zip(places, values, strict=True):
        text = f" {number_text(value)}"
        axes.text(value, place, text, va="center", fontsize=8.5, color=picture.INK)
    axes.set_xlabel(picture.shorten_label(label))
    picture.set_footnote(figure, footnote)
    picture.style_frame(axes)
    return figure


def report_text(
    report: Report,
    summary: Summary,
    cells: int,
    pictures: Sequence[Picture],
    header: Mapping[str, str],
) -> str:
    """Return the whole report as markdown; arguments as of ``write_report``."""
    parts = [f"# {report.title}", report.intro, _settings(report, summary, cells, header)]
    parts += _verdict_parts(report, summary)
    for dataset in summary.datasets:
        lines = [f"![{p.title}]({p.file}.png)" for p in pictures if p.dataset == dataset]
        parts += [f"## {dataset}", "\n".join(lines), *_table_parts(report, summary, dataset)]
    parts += [*_costs(report, summary), *_as_published(summary), *_refused(summary)]
    return "\n\n".join(parts) + "\n"


def _bullets(facts: Iterable[str]) -> str:
    return "\n".join(f"* {fact}" for fact in facts)


def _settings(report: Report, summary: Summary, cells: int, header: Mapping[str, str]) -> str:
    repeats = " to ".join(map(str, dict.fromkeys(summary.repeats(but=report.once))))
    return _bullets(
        [
            *(f"{name}: {text}" for name, text in header.items()),
            f"data sets: {', '.join(summary.datasets)}",
            f"cells: {cells}; {report.repetitions}: {repeats}",
            *report.settings,
        ]
    )


def _verdict_parts(report: Report, summary: Summary) -> Iterator[str]:
    """Return the heading, a table of all claims, and where each of them held."""
    yield f"## {report.claims_head}"
    yield report.claims_words
    titles = report.variant_titles
    head = (
        [titles[variant] for variant in summary.variants] if titles else ["measured by", "verdict"]
    )
    rows = [(claim, dict(_verdict_rows(report, summary, claim))) for claim in report.claims]
    yield markdown_table(
        ["claim", "source", *head],
        (
            line
            for number, (claim, verdicts) in enumerate(rows, start=1)
            for line in _lines(
                [f"{number}. {claim.sentence}", claim.source], verdicts, is_wide=bool(titles)
            )
        ),
    )


def _verdict_rows(
    report: Report, summary: Summary, claim: PaperClaim
) -> Iterator[tuple[str, Verdict]]:
    """Return what a claim was measured by, and the verdict."""
    for measured in claim.measured:
        if measured.variant is not None:
            yield measured.title, claim.verdict(summary, measured, measured.variant)
            continue
        for variant in summary.variants:
            yield report.variant_titles[variant], claim.verdict(summary, measured, variant)


def _lines(
    words: list[str], verdicts: Mapping[str, Verdict], *, is_wide: bool
) -> Iterator[list[str]]:
    """Return the verdicts of one claim: side by side, or a line each with the claim said once."""
    short = {title: f"**{verdict.short}**" for title, verdict in verdicts.items()}
    if is_wide:
        yield [*words, *short.values()]
        return
    for title, text in short.items():
        yield [*words, title, text]
        words = ["", ""]


def claim_rows(report: Report, summary: Summary) -> Iterator[Row]:
    """Return one row a claim, measure, data set and level: how the claim's system stood there."""
    for number, claim in enumerate(report.claims, start=1):
        for title, verdict in _verdict_rows(report, summary, claim):
            for (dataset, level), outcome in verdict.outcome.items():
                place = {"dataset": dataset, summary.factors.level: level}
                held = "yes" if verdict.is_held[dataset, level] else "no"
                yield {"claim": number, "measured_by": title, **place} | {
                    "held": held,
                    "outcome": outcome,
                }


def _table_parts(report: Report, summary: Summary, dataset: str) -> Iterator[str]:
    """Return the words and the table of one data set; nothing where the measure is missing."""
    rows = list(_means(report, summary, dataset, report.table))
    if rows:
        yield f"{report.table.words}:"
        levels = [f"{summary.factors.letter}={level}" for level in summary.levels(dataset)]
        yield markdown_table(["system", *levels], rows)


def _means(report: Report, summary: Summary, dataset: str, table: Table) -> Iterator[list[str]]:
    """Return one row a system with a number; none of variants as published."""
    systems = summary.factors.systems
    comparable = [name for name in summary.systems(dataset) if not systems[name].is_published]
    titles = {**report.baseline_titles, **{name: systems[name].title for name in comparable}}
    for system, title in titles.items():
        means_of_systems = [
            summary.mean(Place(dataset, table.variant, system, level), table.measure)
            for level in summary.levels(dataset)
        ]
        if any(means_of_systems):
            yield [title, *("–" if mean is None else table.text(mean) for mean in means_of_systems)]


def _costs(report: Report, summary: Summary) -> Iterator[str]:
    if not report.costs:
        return
    head, words = report.costs_head
    yield f"## {head}"
    yield words
    columns = [(dataset, cost) for dataset in summary.datasets for cost in report.costs]
    is_one = len(report.costs) == 1
    rows = []
    for name, system in summary.factors.systems.items():
        values = [cost.of(summary, dataset, name) for dataset, cost in columns]
        if any(value is not None for value in values):
            texts = ["–" if value is None else number_text(value) for value in values]
            rows.append([system.title, *texts])
    heads = [dataset if is_one else f"{dataset}, {cost.column}" for dataset, cost in columns]
    yield markdown_table(["system", *heads], rows)


def _as_published(summary: Summary) -> Iterator[str]:
    """Return the variants as published, which cost another ε and are in no comparison."""
    charges: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    datasets: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for place in summary.means:
        system = summary.factors.systems.get(place.system)
        if system is not None and system.is_published:
            key = system.title, summary.fact(place, "reason")
            charges[key][f"{place.level}: {summary.fact(place, 'epsilon_charged')}"] = None
            datasets[key][place.dataset] = None
    if charges:
        yield "## As published: not comparable"
        yield (
            "These do not promise the ε that was asked for, and are in no table and claim above; "
            "`summary.csv` has their figures."
        )
        yield markdown_table(
            ["system", "data sets", "ε asked: ε it costs", "why"],
            (
                [title, ", ".join(datasets[title, why]), ", ".join(costs), why]
                for (title, why), costs in charges.items()
            ),
        )


def _refused(summary: Summary) -> Iterator[str]:
    """Return the line of each system that refused somewhere; nothing where none did."""
    if summary.failures:
        yield "## Refused"
        yield "These systems cannot be run there:"
        columns = summary.factors.columns_of
        yield _bullets(
            f"{' '.join(columns(place).values())}: {why}" for place, why in summary.failures.items()
        )


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return one line a row; a bar inside a text stays inside of its cell.

    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x&#124;y |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(text.replace("|", "&#124;") for text in line) + " |" for line in lines
    )
