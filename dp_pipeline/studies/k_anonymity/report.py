"""The study of k-anonymous tables: measure every cell, then write tables, pictures and report.

report.md of the study of k-anonymous tables: verdicts, pictures, tables, settings.

Pictures of the study: AUC, run time and homogeneous rows over K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_pipeline.anonymity.protocols import EvaluationProtocol
from dp_pipeline.metrics.classification import SCORERS, Scorer
from dp_pipeline.publish.k_anonymous_release import declared_anonymity
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.studies.charts import BARS, Across, Line, Picture, Scale, line_chart
from dp_pipeline.studies.fit import SURE, Mean
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.k_anonymity.cells import (
    FACTS,
    NO_SELECTION,
    Cell,
    Measuring,
    System,
    all_cells,
    declared_digest,
    known_systems,
)
from dp_pipeline.studies.k_anonymity.claims import CLAIMS, Claim, Summary
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

OVER_K = Across("K: rows of every class, at least (0: nothing is promised)", is_log=False)

_SCORERS = {"logistic": "logistic regression", "svm": "SVM", "class_rate": "rates of classes"}


@dataclass(frozen=True)
class Shown:
    """A measure that is shown over K.

    words   in titles of pictures and tables
    label   of the vertical axis
    """

    use: str
    measure: str
    words: str
    label: str
    is_log: bool = False

    @property
    def file(self) -> str:
        """How a picture of it is called."""
        return self.measure if self.use == "release" else f"{self.measure}_{self.use}"


AUCS = tuple(
    Shown(use, f"auc_{scorer}", f"AUC by {_SCORERS[scorer]} ({use})", "AUC")
    for use in ("paper", "nested")
    for scorer in SCORERS
)
SECONDS = Shown(
    "release", "seconds", "seconds of one selection", "seconds (log scale)", is_log=True
)
HOMOGENEOUS = Shown("release", "homogeneous", "rows in classes with one label", "share of rows")


def pictures(summary: Summary) -> Iterator[Picture]:
    """Data set by data set: AUCs, seconds, homogeneous rows."""
    for dataset in summary.datasets:
        for shown in (*AUCS, SECONDS, HOMOGENEOUS):
            lines = _lines(summary, dataset, shown)
            if lines:
                yield _over_k(summary, dataset, shown, lines)


def _over_k(summary: Summary, dataset: str, shown: Shown, lines: list[Line]) -> Picture:
    title = f"{dataset}: {shown.words}"
    content = line_chart(
        lines,
        scale=_scale(summary, dataset, shown),
        title=title,
        footnote=BARS + ("Ranking included, one thread." if shown is SECONDS else ""),
        across=OVER_K,
    )
    return Picture(dataset, f"{dataset}_{shown.file}.png", title, content)


def _scale(summary: Summary, dataset: str, shown: Shown) -> Scale:
    everything = summary.mean(dataset, shown.use, NO_SELECTION, 0, shown.measure)
    if shown.is_log or everything is None:
        return Scale(shown.label, "log" if shown.is_log else "linear")
    title = known_systems()[NO_SELECTION].title
    return Scale(shown.label, "linear", ((everything.value, title),))


def _lines(summary: Summary, dataset: str, shown: Shown) -> list[Line]:
    """One line a method."""
    lines = []
    for style, system in enumerate(known_systems().values()):
        found: list[tuple[str, Mean]] = []
        for k in summary.partitions(dataset):
            mean = summary.mean(dataset, shown.use, system.name, k, shown.measure)
            if mean is not None:
                found.append((str(k), mean))
        if found and system.name != NO_SELECTION:
            lines.append(Line(system.title, style, tuple(found)))
    return lines


_KEPT = Shown("release", "kept", "columns that are released", "")
_SMALLEST = Shown("release", "smallest_class", "rows of the smallest class", "")
_SHARE = Shown("release", "largest_share", "largest share of one label in a class", "")

_LOST = (
    Shown("release", "non_uniform_entropy", "bits of a row that its release leaves open", ""),
    Shown("release", "average_class_size", "rows a class, in units of K", ""),
    Shown("release", "discernibility", "pairs of rows that look alike", ""),
)

_TABLES: Sequence[tuple[Shown, Callable[[Mean], str]]] = (
    *((shown, lambda mean: mean.text) for shown in AUCS),
    *((shown, lambda mean: number_text(mean.value)) for shown in (SECONDS, HOMOGENEOUS, _SHARE)),
    *((shown, lambda mean: f"{mean.value:,.4g}") for shown in (_KEPT, _SMALLEST, *_LOST)),
)


def report(
    summary: Summary, cells: int, shown: Sequence[Picture], header: Mapping[str, str]
) -> str:
    """The whole report as markdown.

    cells    how many were measured
    shown    pictures that lie beside the report
    header   what made the cells
    """
    parts = [
        "# k-anonymous tables: the paper's figures, measured again",
        "Benchmark data only: every number here is exact. k-anonymity is a syntactic promise: none "
        "of these tables is private.",
        *_settings(summary, cells, header),
        *_claims(summary),
    ]
    for dataset in summary.datasets:
        parts += _dataset(summary, dataset, [one for one in shown if one.dataset == dataset])
    parts += refused(summary.failures)
    return "\n\n".join(parts) + "\n"


def _settings(summary: Summary, cells: int, header: Mapping[str, str]) -> Iterator[str]:
    fewest, most = summary.repeats()
    yield bullets(
        [
            *(f"{name}: {text}" for name, text in header.items()),
            f"data sets: {', '.join(summary.datasets)}",
            f"cells: {cells}; repetitions of each number: "
            + " to ".join(str(one) for one in dict.fromkeys((fewest, most))),
            "a repetition: other folds and another forest; where the data set is a sample, another "
            "sample, drawn by the declared seed + the number of the repetition; all systems see "
            "the same rows in the same folds",
            "every method with its defaults (forests: 1000 trees); no row is left out; quasi-"
            "identifiers and label as the data set file declares them, its other wishes aside",
            "nested: selected in the training rows of each of 5 folds, tested on the rows of the "
            "fold, recoded by the public rule",
            "paper: selected once on all rows, then 5 folds of what is released: what is selected "
            "knows the rows that are tested on",
            "the paper's figures are AUC by SVM in its own protocol, and seconds, over K",
            "release: selected once on all rows; seconds are of one selection with its ranking "
            "(of one shorter than a second, the middle of three), wall clock, one thread; classes "
            "are of what is released",
            "distances of the SVM are rounded to hundredths: many of the few different rows that "
            "are released lie on its margin, where a solver's last digits would order them",
            "Greedy_Hamdist: only the abstract of its paper could be read; three readings, with "
            "the distances in closed form",
            "a number is a mean ± its standard error; where the data set is no sample it tells "
            "what folds and forests do, not what other people's rows would",
        ]
    )


def _claims(summary: Summary) -> Iterator[str]:
    yield "## What was claimed, and whether it held"
    yield (
        "A claim holds at a place (data set, K) where the mean difference of the pairs of one "
        f"repetition is beyond {SURE:g} of its standard errors; the contrary holds where it is so "
        "the other way round. In between, nothing is said; what is claimed to be no lower holds "
        "there too. What is claimed of every release, holds where no repetition is against it. "
        "With 5 repetitions 4 % of pairs that are in truth equal get a verdict by chance; with "
        "10, 1.5 %; with 30, 0.6 %."
    )
    yield from verdicts([_judged(claim, summary) for claim in CLAIMS], over="K")


def _judged(claim: Claim, summary: Summary) -> Judged:
    found = {one.title: claim.verdict(summary, one) for one in claim.measured}
    return Judged(claim.sentence, claim.source, found)


def _dataset(summary: Summary, dataset: str, shown: Sequence[Picture]) -> Iterator[str]:
    yield f"## {dataset}"
    yield "\n".join(f"![{picture.title}]({picture.file})" for picture in shown)
    for of, text in _TABLES:
        rows = list(_means(summary, dataset, of, text))
        if rows:
            yield f"{of.words[0].upper()}{of.words[1:]}:"
            heads = [f"K={k}" for k in summary.partitions(dataset)]
            yield markdown_table(["system", *heads], rows)


def _means(
    summary: Summary, dataset: str, of: Shown, text: Callable[[Mean], str]
) -> Iterator[list[str]]:
    """One row a system with a number."""
    for system in summary.systems(dataset):
        found = [
            summary.mean(dataset, of.use, system, k, of.measure)
            for k in summary.partitions(dataset)
        ]
        if any(found):
            title = known_systems()[system].title
            yield [title, *("–" if mean is None else text(mean) for mean in found)]


MEASURING_FILES = (
    "studies/k_anonymity/cells.py",
    "publish/k_anonymous_release.py",
)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class AnonymityStudy(Study[Cell]):
    """Methods of k-anonymity on data sets that declare what they are to be used on.

    partitions   K, ascending; empty: those that each data set lists
    protocols    how classifiers are taught; releases are looked at with any of them
    scorers      the classifiers
    """

    systems: tuple[System, ...]
    partitions: tuple[int, ...]
    protocols: tuple[EvaluationProtocol, ...]
    scorers: tuple[Scorer, ...]

    def header(self) -> dict[str, str]:
        """The code that measured."""
        return {"study": "anonymity", "code": code_version(*MEASURING_FILES, rooms=("anonymity",))}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Of every system; DeclarationError without a section ``k_anonymity``."""
        declared = declared_anonymity(spec)
        return all_cells(
            spec.name,
            self.systems,
            self.partitions or declared.partitions,
            uses=("release", *self.protocols),
            scorers=self.scorers,
            repeats=self.repeats,
        )

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows, quasi-identifiers and label."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """Every repetition's sample, where the data set is one."""
        if benchmark.spec.source.sample is not None:
            for repetition in range(1, self.repeats):
                Benchmark.of(benchmark.spec, self.folder, repetition).prepare(self.ledger)

    def measuring(self) -> Measuring:
        """Selects in the benchmarks in the folder."""
        return Measuring(self.folder)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md; PipelineError when every system refused."""
        summary = Summary.of(rows)
        require_measured(self.folder, measured=bool(summary.means), failures=summary.failures)
        columns = dict.fromkeys((*FACTS, *summary.measures))
        shown = list(pictures(summary))
        return write_results(
            self.folder,
            rows=[{**columns, **row} for row in summary.rows],
            means=_summary_rows(summary),
            shown=shown,
            text=report(summary, len(rows), shown, header),
        )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors."""
    rows: list[Row] = []
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(zip(("dataset", "use", "system", "k"), place, strict=True))
        row["repeats"] = max(mean.repeats for mean in means.values())
        for measure in summary.measures:
            row |= with_error(measure, means.get(measure))
        rows.append(row)
    return rows
