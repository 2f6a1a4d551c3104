"""The study of private tables: measure every cell, then write tables, pictures and report.

report.md of the study of tables: what each claim came to, tables, pictures, settings.

Pictures of the study: distances and misclassification over ε, run times, memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import delta_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.studies.charts import BARS, Line, Picture, Scale, bar_chart, line_chart
from dp_pipeline.studies.fit import SURE, Mean
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.results import (
    Judged,
    bullets,
    markdown_table,
    refused,
    require_measured,
    verdicts,
    with_error,
    write_results,
)
from dp_pipeline.studies.study import Benchmark, Study, code_version
from dp_pipeline.studies.tables.cells import (
    BASELINES,
    FACTS,
    Cell,
    Measuring,
    System,
    all_cells,
    declared_digest,
    known_systems,
)
from dp_pipeline.studies.tables.claims import (
    CLAIMS,
    MEASURE_TITLES,
    Claim,
    Summary,
    measures_of,
    sorted_rows,
)

_METHODS = {"svm": "SVM", "logistic": "logistic regression"}
_BASELINES = {"no_privacy": "no privacy", "majority": "majority"}
_COST_PICTURES = {
    "seconds": (
        "seconds of one fit",
        "seconds (log scale)",
        "Mean over ε; one thread, wall clock, without reading the rows.",
    ),
    "peak_mb": (
        "peak memory of one fit",
        "MB (log scale)",
        "Largest over ε; what Python and NumPy allocate for the fit, without the rows.",
    ),
}


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: distances, then errors of classifiers, then costs."""
    for dataset in summary.datasets:
        for measure in summary.measures:
            words = measure_title(measure)
            if words is not None:
                yield from _over_epsilon(summary, dataset, measure, words)
        for measure in _COST_PICTURES:
            yield from _cost_pictures(summary, dataset, measure)


def measure_title(measure: str) -> str | None:
    """What a measure that is shown over ε is called; None for the others.

    >>> measure_title("avd_3"), measure_title("misclassified_svm/sex"), measure_title("seconds")
    ('average 3-way variation distance', 'misclassification of sex by SVM', None)
    """
    what, _, target = measure.partition("/")
    if what.startswith("avd_"):
        return f"average {what.removeprefix('avd_')}-way variation distance"
    method = _METHODS.get(what.removeprefix("misclassified_"))
    if method is None:
        return None
    if not target:
        return f"misclassification by {method}, mean over targets"
    return f"misclassification of {target} by {method}"


def _over_epsilon(summary: Summary, dataset: str, measure: str, words: str) -> Iterator[Picture]:
    lines = _lines(summary, dataset, measure)
    if not lines:
        return
    title = f"{dataset}: {words}"
    content = line_chart(
        lines,
        scale=_scale(summary, dataset, measure),
        title=title,
        footnote=BARS + "Lower is better.",
    )
    yield Picture(dataset, f"{dataset}_{measure.replace('/', '_')}.png", title, content)


def _scale(summary: Summary, dataset: str, measure: str) -> Scale:
    if measure.startswith("avd_"):
        return Scale("AVD (log scale)", "log")
    means = {name: summary.mean(dataset, name, "", measure) for name in BASELINES}
    references = tuple(
        (mean.value, _BASELINES[name]) for name, mean in means.items() if mean is not None
    )
    return Scale("share of wrong answers", "linear", references)


def _lines(summary: Summary, dataset: str, measure: str) -> list[Line]:
    """One line a system; not of variants as published, whose ε is another one."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for epsilon in summary.epsilons(dataset):
            mean = summary.mean(dataset, system.name, epsilon, measure)
            if mean is not None:
                found.append((epsilon, mean))
        if found and not system.is_published:
            lines.append(Line(system.title, style, tuple(found)))
    return lines


def _cost_pictures(summary: Summary, dataset: str, measure: str) -> Iterator[Picture]:
    words, label, footnote = _COST_PICTURES[measure]
    known = known_systems()
    bars = [
        (known[system].title, value)
        for system in summary.systems(dataset)
        if (value := cost(summary, dataset, system, measure)) is not None
    ]
    if bars:
        title = f"{dataset}: {words}"
        content = bar_chart(bars, label=label, title=title, footnote=footnote)
        yield Picture(dataset, f"{dataset}_{measure}.png", title, content)


def cost(summary: Summary, dataset: str, system: str, measure: str) -> float | None:
    """Mean ``seconds`` of one fit over ε, or the largest ``peak_mb``; None where not measured."""
    found = [
        mean.value
        for epsilon in summary.epsilons(dataset)
        if (mean := summary.mean(dataset, system, epsilon, measure)) is not None
    ]
    if not found:
        return None
    return max(found) if measure == "peak_mb" else sum(found) / len(found)


_BASELINE_TITLES = {"no_privacy": "without privacy", "majority": "majority"}
_COSTS = {"seconds": "seconds", "peak_mb": "peak MB"}


def report(
    summary: Summary, rows: Sequence[Row], shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    rows     finished cells: settings and published variants are read from them
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# Private tables: the papers' figures, measured again",
        "Benchmark data only: every number here is exact and none of it is private.",
        *_settings(summary, rows, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += [*_costs(summary), *_as_published(summary, rows), *refused(summary.failures)]
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, rows: Sequence[Row], header: Mapping[str, str]) -> Iterator[str]:
    fewest, most = summary.repeats()
    facts = [
        *(f"{name}: {text}" for name, text in header.items()),
        f"data sets: {', '.join(summary.datasets)}",
        f"cells: {len(rows)}; repetitions of each system at each ε: "
        + " to ".join(str(one) for one in dict.fromkeys((fewest, most))),
        "noise: the exact samplers, seeded by the cell; every cell its own",
        "the number of rows is private, except where a row is replaced and a method needs it",
        "a system with δ in its name promises (ε, δ), and accounts in ρ; the others promise ε",
        "AVD: average k-way variation distance between synthetic and true rows, over all pairs, "
        "and over the same 500 triples and 100 larger sets where there are more; the model "
        "was fitted on all rows",
        "misclassification: of classifiers taught by synthetic rows, when asked about a fifth of "
        "the true rows, which the model did not see either: a new fifth every repetition, the "
        "same for every system",
        "seconds: wall clock, one thread, rows in memory; peak memory: what Python and NumPy "
        "allocate for one more fit, added up as it goes",
        "a number is a mean ± its standard error",
    ]
    yield bullets(facts)


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What was claimed, and whether it held"
    yield (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said; what is claimed to be no worse holds there too. "
        "With 30 repetitions about 0.3 % of pairs that are in truth equal get a verdict by chance; "
        "with 10, 1 %; with fewer, far more."
    )
    yield from verdicts([_judged(claim, summary) for claim in CLAIMS])


def _judged(claim: Claim, summary: Summary) -> Judged:
    found = {MEASURE_TITLES[measure]: claim.verdict(summary, measure) for measure in claim.measures}
    return Judged(claim.sentence, claim.source, found)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for measure in summary.measures:
        words = "distance to the closest record" if measure == "dcr" else measure_title(measure)
        rows = list(_means(summary, dataset, measure))
        if words and rows:
            of = "a sanity figure, no promise" if measure == "dcr" else "lower is better"
            yield f"{words[0].upper()}{words[1:]} ({of}):"
            yield markdown_table(["system", *(f"ε={e}" for e in summary.epsilons(dataset))], rows)


def _means(summary: Summary, dataset: str, measure: str) -> Iterator[list[str]]:
    """One row a system with a number; not of variants as published. Baselines come first."""
    known = known_systems()
    titles = {
        **_BASELINE_TITLES,
        **{name: known[name].title for name in summary.systems(dataset)},
    }
    for system, title in titles.items():
        found = [
            summary.mean(dataset, system, epsilon, measure) for epsilon in summary.epsilons(dataset)
        ]
        if any(found) and (system in BASELINES or not known[system].is_published):
            yield [title, *("–" if mean is None else mean.text for mean in found)]


def _costs(summary: Summary) -> Iterator[str]:
    yield "## Run time and memory"
    yield "Of one fit: seconds, mean over ε; most megabytes, largest over ε."
    known = known_systems()
    yield markdown_table(
        ["system", *(f"{name}, {what}" for name in summary.datasets for what in _COSTS.values())],
        (
            [
                system.title,
                *(
                    "–" if value is None else number_text(value)
                    for dataset in summary.datasets
                    for measure in _COSTS
                    for value in (cost(summary, dataset, name, measure),)
                ),
            ]
            for name, system in known.items()
            if any(name in summary.systems(dataset) for dataset in summary.datasets)
        ),
    )


def _as_published(summary: Summary, rows: Sequence[Row]) -> Iterator[str]:
    """Variants as published cost another ε than was asked: they are in no comparison."""
    published = {name for name, one in known_systems().items() if one.is_published}
    charged = {
        (row["dataset"], row["system"], row["epsilon"]): row
        for row in rows
        if row["use"] == "table"
    }
    found = [place for place in summary.means if place[1] in published and place in charged]
    if not found:
        return
    yield "## As published: not comparable"
    yield "These do not promise the ε that was asked for, and are in no table and claim above."
    yield markdown_table(
        ["data set", "system", "ε asked", "ε it costs", "AVD k=2", "AVD k=3", "why"],
        (
            [
                place[0],
                known_systems()[place[1]].title,
                place[2],
                charged[place]["epsilon_charged"],
                *(
                    mean.text if (mean := summary.mean(*place, measure)) else "–"
                    for measure in ("avd_2", "avd_3")
                ),
                charged[place]["reason"],
            ]
            for place in found
        ),
    )


MEASURING_FILES = ("studies/tables/cells.py",)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class ReleaseStudy(Study[Cell]):
    """Models of tables on data sets with discrete attributes.

    epsilons   empty: those that each data set lists
    delta      of the systems that account in ρ
    classify   whether classifiers are taught the targets that a data set declares
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[System, ...]
    delta: Fraction
    classify: bool = True

    def header(self) -> dict[str, str]:
        """The code that measured, and δ."""
        code = code_version(*MEASURING_FILES)
        return {"study": "release", "code": code, "delta": delta_text(self.delta)}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Of the systems that fit its neighbours; DeclarationError where none does, and without
        attributes that have cells.
        """
        systems = [system for system in self.systems if system.fits(spec)]
        if not spec.domain.discrete:
            raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")
        if not systems:
            raise DeclarationError(
                f"{spec.name}: expected a system for {spec.relation}, got none that was asked for"
            )
        return all_cells(
            spec.name,
            systems,
            self.epsilons or spec.partitions,
            repeats=self.repeats,
            classify=self.classify and bool(spec.targets),
        )

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows and targets."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """Nothing is shared by the cells but the rows."""

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder, self.delta)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md."""
        return _written(self.folder, rows, header)


def _written(folder: Path, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
    """Every file but the journal, from finished cells; the path of ``report.md``.

    PipelineError when every system refused.
    """
    in_order = sorted_rows(rows)
    summary = Summary.of(in_order)
    measured = any(summary.systems(dataset) for dataset in summary.datasets)
    require_measured(folder, measured=measured, failures=summary.failures)
    columns = dict.fromkeys((*FACTS, *measures_of(in_order)))
    shown = list(pictures(summary))
    return write_results(
        folder,
        rows=[{**columns, **row} for row in in_order],
        means=_summary_rows(summary),
        shown=shown,
        text=report(summary, in_order, shown, header),
    )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors."""
    rows: list[Row] = []
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(zip(("dataset", "system", "epsilon"), place, strict=True))
        for measure in summary.measures:
            mean = means.get(measure)
            row |= with_error(measure, mean)
            row[f"{measure}_repeats"] = 0 if mean is None else mean.repeats
        rows.append(row)
    return rows
