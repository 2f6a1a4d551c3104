"""The study of private clustering: measure every cell, then write tables, pictures and report.

report.md of the clustering study: what each claim came to, tables, pictures, settings.

Pictures of the study: quality over ε and run times, one set a data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.files import one_thread
from dp_pipeline.raw.evaluate import keep_reference
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.studies.charts import BARS, Line, Picture, Scale, bar_chart, line_chart
from dp_pipeline.studies.clustering.cells import (
    SYSTEMS,
    Cell,
    Measuring,
    Planning,
    System,
    all_cells,
    declared_digest,
    known_systems,
    shared_parameters,
)
from dp_pipeline.studies.clustering.claims import CLAIMS, MEASURES, Summary, sorted_rows
from dp_pipeline.studies.fit import SURE, Mean
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.results import (
    bullets,
    markdown_table,
    refused,
    require_measured,
    with_error,
    write_results,
)
from dp_pipeline.studies.study import Benchmark, Study, code_version

_OF_N = {
    "declared": "N in formulas is the declared number of rows.",
    "paid": "N in formulas is a noisy count, paid for.",
    "none": "No formula has N.",
}

_SCALES = {
    "nicv_ratio": (
        "NICV ratio",
        Scale("NICV ÷ NICV without privacy (log scale)", "log", ((1.0, "without privacy"),)),
    ),
    "rcp": ("RCP against EUGkM", Scale("RCP in percent", "signed log", ((0.0, "as EUGkM"),))),
    "f_label": ("F-measure, classes: labels", Scale("F-measure (higher is better)", "linear")),
    "f_kmeans": (
        "F-measure, classes: k-means without privacy",
        Scale("F-measure (higher is better)", "linear"),
    ),
}


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: every measure over ε in every planning, then run times."""
    for dataset in summary.datasets:
        for planning in summary.plannings:
            yield from _over_epsilon(summary, dataset, planning)
        yield _run_time_picture(summary, dataset)


def _over_epsilon(summary: Summary, dataset: str, planning: Planning) -> Iterator[Picture]:
    for measure, (words, scale) in _SCALES.items():
        lines = _lines(summary, dataset, planning, measure)
        if lines:
            title = f"{dataset}, N {planning}: {words}"
            footnote = BARS + _OF_N[planning]
            content = line_chart(lines, scale=scale, title=title, footnote=footnote)
            yield Picture(dataset, f"{dataset}_{measure}_{planning}.png", title, content)


def _lines(summary: Summary, dataset: str, planning: Planning, measure: str) -> list[Line]:
    """One line a system; not of variants as published, whose ε is another one."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for epsilon in summary.epsilons(dataset):
            mean = summary.mean(dataset, system.name, planning, epsilon, measure)
            if mean is not None:
                found.append((epsilon, mean))
        if found and not system.is_published:
            lines.append(Line(system.title, style, tuple(found)))
    return lines


def _run_time_picture(summary: Summary, dataset: str) -> Picture:
    title = f"{dataset}: seconds of one fit"
    known = known_systems()
    bars = [
        (known[system].title, run_time(summary, dataset, system))
        for system in summary.systems(dataset)
    ]
    footnote = "Mean over ε and plannings; one thread, wall clock, without reading the rows."
    content = bar_chart(bars, label="seconds (log scale)", title=title, footnote=footnote)
    return Picture(dataset, f"{dataset}_seconds.png", title, content)


def run_time(summary: Summary, dataset: str, system: str) -> float:
    """Mean seconds of one fit, over ε and plannings."""
    found = [
        measures["seconds"].value
        for (name, other, _, _), measures in summary.means.items()
        if (name, other) == (dataset, system)
    ]
    return sum(found) / len(found)


_PLANNED = {"declared": "N declared", "paid": "N paid for", "none": "no N"}
_TABLES = {
    "nicv_ratio": "NICV over the NICV of k-means without privacy (1 is as good; lower is better)",
    "rcp": "RCP: percent of EUGkM's NICV that is saved (positive is better than EUGkM)",
    "f_label": "F-measure against the labels of the data (higher is better)",
    "f_kmeans": "F-measure against the clusters of k-means without privacy (higher is better)",
}


def report(
    summary: Summary, rows: Sequence[Row], shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    rows     finished cells: settings and published variants are read from them
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# Private clustering: the papers' figures, measured again",
        "Benchmark data only: every number here is exact and none of it is private.",
        *_settings(summary, rows, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += [*_run_times(summary), *_as_published(summary, rows), *refused(summary.failures)]
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, rows: Sequence[Row], header: Mapping[str, str]) -> Iterator[str]:
    repeats = sorted({m["seconds"].repeats for m in summary.means.values() if "seconds" in m})
    times = " to ".join(str(one) for one in dict.fromkeys((repeats[0], repeats[-1])))
    without_n = [one.title for one in SYSTEMS if one.plannings == ("none",)]
    facts = [
        *(f"{name}: {text}" for name, text in header.items()),
        f"data sets: {', '.join(summary.datasets)}",
        f"cells: {len(rows)}; repetitions of each system at each ε: {times}",
        "noise: the exact discrete Laplace sampler, seeded by the cell; every cell its own",
        "N in a formula: declared (the data set file's number of rows, as the papers have it) or "
        f"paid for (a noisy count out of the same ε); {', '.join(without_n)} read none, and stand "
        "in both tables with the same numbers",
        "a number is a mean ± its standard error",
    ]
    yield bullets(facts)


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What the papers claim, and whether it held"
    yield (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said. With 30 repetitions about 0.3 % of pairs that "
        "are in truth equal get a verdict by chance; with fewer than 10, far more."
    )
    head = ["claim", "source", *(_PLANNED[planning] for planning in summary.plannings)]
    verdicts = [
        (claim, [claim.verdict(summary, planning) for planning in summary.plannings])
        for claim in CLAIMS
    ]
    yield markdown_table(
        head,
        (
            [f"{number}. {claim.sentence}", claim.source, *(f"**{one.short}**" for one in found)]
            for number, (claim, found) in enumerate(verdicts, start=1)
        ),
    )
    yield "Where, claim by claim (data set: ε):"
    yield "\n".join(
        f"{number}. {_where(summary.plannings, [one.text for one in found])}"
        for number, (_, found) in enumerate(verdicts, start=1)
    )


def _where(plannings: Sequence[Planning], texts: Sequence[str]) -> str:
    """What is the same in every planning is said once."""
    if len(set(texts)) == 1:
        return f"{texts[0]}."
    pairs = zip(plannings, texts, strict=True)
    return " ".join(f"{_PLANNED[planning]}: {text}." for planning, text in pairs)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for measure, words in _TABLES.items():
        for planning in summary.plannings:
            rows = list(_means(summary, dataset, planning, measure))
            if rows:
                yield f"{words}; {_PLANNED[planning]}:"
                yield markdown_table(
                    ["system", *(f"ε={e}" for e in summary.epsilons(dataset))], rows
                )


def _means(summary: Summary, dataset: str, planning: Planning, measure: str) -> Iterator[list[str]]:
    """One row a system with a number; not of variants as published."""
    for system in summary.systems(dataset):
        known = known_systems()[system]
        found = [
            summary.mean(dataset, system, planning, epsilon, measure)
            for epsilon in summary.epsilons(dataset)
        ]
        if any(found) and not known.is_published:
            yield [known.title, *("–" if mean is None else mean.text for mean in found)]


def _run_times(summary: Summary) -> Iterator[str]:
    yield "## Run times"
    yield "Seconds of one fit (wall clock, one thread, rows in memory), mean over ε and plannings:"
    known = known_systems()
    systems = [one for one in known if any(one in summary.systems(d) for d in summary.datasets)]
    yield markdown_table(
        ["system", *summary.datasets],
        (
            [
                known[system].title,
                *(
                    number_text(run_time(summary, dataset, system))
                    if system in summary.systems(dataset)
                    else "–"
                    for dataset in summary.datasets
                ),
            ]
            for system in systems
        ),
    )


def _as_published(summary: Summary, rows: Sequence[Row]) -> Iterator[str]:
    """Variants as published cost another ε than was asked: they are in no comparison."""
    published = {name for name, one in known_systems().items() if one.is_published}
    charged = {
        (row["dataset"], row["system"], row["planning"], row["epsilon"]): row for row in rows
    }
    found = [place for place in summary.means if place[1] in published]
    if not found:
        return
    yield "## As published: not comparable"
    yield "These do not promise the ε that was asked for, and are in no table and claim above."
    yield markdown_table(
        ["data set", "system", "N", "ε asked", "ε it costs", "NICV ratio", "why"],
        (
            [
                place[0],
                known_systems()[place[1]].title,
                place[2],
                place[3],
                charged[place]["epsilon_charged"],
                summary.means[place]["nicv_ratio"].text,
                charged[place]["reason"],
            ]
            for place in found
        ),
    )


MEASURING_FILES = ("studies/clustering/cells.py",)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class ClusteringStudy(Study[Cell]):
    """Private k-means systems on data sets with clustering models.

    epsilons   empty: those that each data set lists
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[System, ...]

    def header(self) -> dict[str, str]:
        """The code that measured."""
        return {"study": "clustering", "code": code_version(*MEASURING_FILES)}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """In every planning of each system; DeclarationError without clustering models."""
        for system in self.systems:
            system.build(spec, system.plannings[0])
        epsilons = self.epsilons or spec.partitions
        return all_cells(spec.name, self.systems, epsilons, repeats=self.repeats)

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows, N, label, k and columns."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """k-means without privacy: not by several processes at the same time."""
        spec, snapshot = benchmark.spec, benchmark.snapshot
        shared = shared_parameters(spec)
        columns = tuple(shared.get("columns", "").split()) or spec.domain.numeric
        with one_thread():
            keep_reference(spec, snapshot, columns, k=int(shared["k"]))

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md."""
        return _written(self.folder, rows, header)


def _written(folder: Path, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
    """Every file but the journal, from finished cells; the path of ``report.md``.

    PipelineError when every system refused.
    """
    in_order = sorted_rows(rows)
    summary = Summary.of(in_order)
    require_measured(folder, measured=bool(summary.means), failures=summary.failures)
    shown = list(pictures(summary))
    return write_results(
        folder,
        rows=in_order,
        means=_summary_rows(summary),
        shown=shown,
        text=report(summary, in_order, shown, header),
    )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors, and RCP of a system that plans with no N
    is against EUGkM with N declared.
    """
    rows: list[Row] = []
    for place, means in summary.means.items():
        dataset, system, planning, epsilon = place
        row: dict[str, Any] = dict(
            zip(("dataset", "system", "planning", "epsilon"), place, strict=True)
        )
        row["repeats"] = means["seconds"].repeats
        against = "declared" if planning == "none" else planning
        every = {**means, "rcp": summary.mean(dataset, system, against, epsilon, "rcp")}
        for measure in (*MEASURES, "rcp"):
            row |= with_error(measure, every.get(measure))
        rows.append(row)
    return rows
